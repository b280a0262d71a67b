"""Data for runs in a working directory of their own."""

import pytest
from linear_fixtures import write_bars


@pytest.fixture
def data(here):
    return write_bars("bars.npz")
