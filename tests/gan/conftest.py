"""Each test builds in a graph of its own, and finds the helper beside it."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture(autouse=True)
def _fresh_graph(graph):
    pass
