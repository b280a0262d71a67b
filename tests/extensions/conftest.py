"""Data for runs with extensions."""

import pytest
from linear_fixtures import write_bars

from toolkit import testing


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A source of 40 training images of bars, in three classes."""
    return write_bars(tmp_path_factory.mktemp("extensions") / "bars.npz")


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """A source of images that are large enough for a convolutional network."""
    return testing.write_digits(str(tmp_path_factory.mktemp("digits") / "digits.npz"))
