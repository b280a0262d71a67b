"""The plugin `sequences`: texts of different lengths."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit import open_trained, testing


@pytest.fixture
def plugin(reference):
    return reference("sequences")


def test_a_run_resumes_exactly(plugin, tmp_path):
    testing.check_resume(plugin, str(tmp_path / "run"), batch_size=8)


def test_it_is_evaluated_predicts_and_exports(plugin, tmp_path):
    testing.check_inference(plugin, str(tmp_path / "run"), batch_size=8)


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_most_reviews_get_their_class(plugin, tmp_path, reader):
    summary = testing.train(plugin, str(tmp_path / "run"), reader=reader, steps=80)
    assert summary["test"]["metrics"]["accuracy"] > 0.9  # one class for all: about 0.5


def test_the_padding_of_a_review_changes_no_prediction(plugin, tmp_path):
    testing.train(plugin, str(tmp_path / "run"), steps=20)
    short, long = np.array([1, 20]), np.arange(11, 30)
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        alone = trained.predict({"words": [short]})["probabilities"][0]
        beside = trained.predict({"words": [short, long]})["probabilities"][0]
    assert alone == pytest.approx(beside, abs=1e-6)
