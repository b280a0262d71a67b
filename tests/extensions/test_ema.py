"""`--with ema`: the average, where it is used, and that training stays the same."""

from __future__ import annotations

import numpy as np
import pytest
from linear_fixtures import LINEAR

import toolkit
from toolkit import testing

SETTINGS = {"steps": 6, "evaluate": "no", "batch_size": 4, "best_metric": "none"}
SETTINGS.update(steps_per_call=1)


def train(tmp_path, data, name="run", plugin=LINEAR, extensions=("ema",), **options):
    settings = dict(SETTINGS, data=data, **options)
    testing.train(plugin, str(tmp_path / name), list(extensions), **settings)
    return str(tmp_path / name)


def averages_of(weights, decay, warmup=10):
    """The average after each of the weights in turn."""
    average = None
    for t, weight in enumerate(weights):
        d = min(decay, t / (t + warmup))
        average = weight if average is None else d * average + (1 - d) * weight
    return average


@pytest.mark.parametrize("decay, warmup", [(0.9, 10), (0.1, 10), (0.999, 1), (0.5, 3)])
def test_the_average_is_that_of_the_weights_after_each_step(data, tmp_path, decay, warmup):
    run = train(
        tmp_path,
        data,
        ema_decay=decay,
        ema_warmup=warmup,
        checkpoint_steps=1,
        keep_checkpoints=9,
    )
    weights = [testing.tensors(run, str(step))["linear/w"] for step in range(1, 7)]
    average = testing.tensors(run)["state/ema/linear/w"]
    assert np.allclose(average, averages_of(weights, decay, warmup), atol=1e-6)
    assert not np.allclose(average, weights[-1], atol=1e-5)
    assert testing.tensors(run)["state/ema/count"] == 6


def test_evaluation_and_prediction_use_the_average_and_training_does_not(data, tmp_path):
    run = train(tmp_path, data, ema_decay=0.9)
    plain = train(tmp_path, data, "plain", extensions=())
    tensors, expected = testing.tensors(run), testing.tensors(plain)
    assert all(np.array_equal(tensors[name], expected[name]) for name in expected)
    with toolkit.open_trained(run) as trained:
        images = trained.split("test").features[:]
        logits = trained.predict(images)["logits"]
    flat = images.reshape(len(images), -1) / 255.0
    w, b = tensors["state/ema/linear/w"], tensors["state/ema/linear/b"]
    assert np.allclose(logits, flat.dot(w) + b, atol=1e-5)
    assert not np.allclose(logits, flat.dot(tensors["linear/w"]) + tensors["linear/b"], atol=1e-4)
