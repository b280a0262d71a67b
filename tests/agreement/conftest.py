"""Each test builds in a graph of its own."""

from graph_fixtures import fresh_graph  # noqa: F401
