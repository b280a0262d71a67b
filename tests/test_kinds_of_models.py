"""Models on data of many kinds train, resume, evaluate, predict and export."""

import pytest
from model_fixtures import MODELS, Converted, TwoHeads, Video

from toolkit import testing


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))


def name_of(model):
    return f"model_fixtures:{model.__name__}"


@pytest.mark.parametrize("model", MODELS)
def test_a_model_resumes_exactly(model, tmp_path):
    testing.check_resume(name_of(model), str(tmp_path / "run"), steps=4, batch_size=8)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_evaluated_predicts_and_exports(model, tmp_path):
    testing.check_inference(name_of(model), str(tmp_path / "run"), batch_size=8)


@pytest.mark.parametrize("model", [TwoHeads, Video, Converted])
def test_a_model_is_the_same_in_a_loop(model):
    testing.check_step_in_a_loop(name_of(model), batch_size=8)


@pytest.mark.parametrize("model", [TwoHeads, Video, Converted])
def test_a_model_resumes_exactly_from_a_stream(model, tmp_path):
    options = {"batch_size": 8, "reader": "stream", "steps": 4}
    testing.check_resume(name_of(model), str(tmp_path / "run"), **options)
