"""Each test builds in its own graph."""

import pytest


@pytest.fixture(autouse=True)
def _fresh_graph(graph):
    pass
