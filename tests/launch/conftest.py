"""Fixtures for the tests of the launcher."""

import process_fixtures
import pytest


@pytest.fixture
def turn():
    """Wait until the processes of few other tests run."""
    process_fixtures.take_turn()
