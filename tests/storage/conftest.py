"""A run without any training."""

import pytest
from folder_fixtures import begin


@pytest.fixture
def run(tmp_path):
    """A run that was started and has committed nothing."""
    folder = begin(tmp_path / "run")
    yield folder
    folder.unlock()
