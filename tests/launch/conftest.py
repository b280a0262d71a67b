"""Makes the fixtures of this folder importable, also in the processes that its tests start."""

import os
import sys

import process_fixtures
import pytest

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture
def turn():
    """Wait until the processes of few other tests run."""
    process_fixtures.take_turn()
