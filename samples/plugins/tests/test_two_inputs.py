"""The plugin `two_inputs`: an image and a number for each crate."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit import open_trained, testing


@pytest.fixture
def plugin(reference):
    return reference("two_inputs")


def test_a_run_resumes_exactly(plugin, tmp_path):
    testing.check_resume(plugin, str(tmp_path / "run"), batch_size=8)


def test_it_is_evaluated_predicts_and_exports(plugin, tmp_path):
    testing.check_inference(plugin, str(tmp_path / "run"), batch_size=8)


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_both_inputs_are_used(plugin, tmp_path, reader):
    testing.train(plugin, str(tmp_path / "run"), reader=reader, steps=60)
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        features, labels = trained.split("test").take(slice(None))
        complete = trained.predict(features)["label"]
        without_weight = trained.predict(dict(features, weight=np.zeros(len(labels))))["label"]
        without_photo = trained.predict(dict(features, photo=0 * features["photo"]))["label"]
    assert np.mean(complete == labels) > 0.95
    assert np.mean(without_weight == labels) < 0.7  # one input alone: 0.5
    assert np.mean(without_photo == labels) < 0.7
