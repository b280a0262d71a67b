"""Each test builds in its own graph and can import the helpers of this folder."""

from __future__ import annotations

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture(autouse=True)
def _fresh_graph():
    from classifier_fixtures import graph

    with graph():
        yield
