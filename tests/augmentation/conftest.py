"""Each test builds in its own graph and can import the helpers of this folder."""

from __future__ import annotations

import os
import sys

import pytest

from toolkit import tf

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield
