"""Everything is in pyproject.toml, which an old setuptools does not read."""

import setuptools

if int(setuptools.__version__.split(".")[0]) < 61:
    raise SystemExit(
        "setuptools " + setuptools.__version__ + " does not read pyproject.toml: run "
        "pip install --upgrade 'setuptools>=64', or leave out --no-build-isolation."
    )
setuptools.setup()
