"""Settings of the tests; run them with `pytest samples/plugins`."""

from __future__ import annotations

import os

import pytest

PLUGINS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """Keep what a run caches out of the user's folder."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def reference():
    """A function from the name of a plugin to its path, as `--plugin` takes it."""
    return lambda name: os.path.join(PLUGINS, name + ".py")
