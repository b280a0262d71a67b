"""Each test builds in a graph of its own."""

import pytest


@pytest.fixture(autouse=True)
def _fresh_graph(graph):
    pass
