"""Models on data of many kinds train, resume, evaluate, predict and export."""

import pytest
from model_fixtures import MODELS

from toolkit import testing


@pytest.mark.parametrize("model", MODELS)
def test_a_model_passes_the_checks_of_the_test_kit(model, tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    testing.check_plugin(f"model_fixtures:{model.__name__}", tmp_path)
