pytest_plugins = ["toolkit.testing.fixtures"]
