"""Data for runs with extensions."""

import pytest
from linear_fixtures import write_bars


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A source of 40 training images of bars, in three classes."""
    return write_bars(tmp_path_factory.mktemp("extensions") / "bars.npz")
