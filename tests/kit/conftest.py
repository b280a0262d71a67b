"""The modules beside the tests, and an environment whose disabled plugins are those of a test."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture
def state_folder(tmp_path, monkeypatch):
    """An empty state folder of the user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"
