"""`--with ema`: the average and where it is used."""

import numpy as np
import pytest
from linear_fixtures import LINEAR

import toolkit
from toolkit import testing

SETTINGS = {"evaluate": "no", "batch_size": 4, "best_metric": "none", "log_steps": 1}
SETTINGS.update(checkpoint_steps=1, keep_checkpoints=20, steps_per_call=1)


def train(data, name="run", extensions=("ema",), **options):
    options = {**SETTINGS, "data": data, "steps": 6, **options}
    testing.train(LINEAR, name, list(extensions), **options)
    return name


def weights(run, step):
    return testing.tensors(run, str(step))["linear/w"]


def averages_of(weights, decay, warmup=10):
    """The average after each of the weights in turn."""
    average = None
    for t, weight in enumerate(weights):
        d = min(decay, t / (t + warmup))
        average = weight if average is None else d * average + (1 - d) * weight
    return average


@pytest.mark.parametrize("decay, warmup", [(0.1, 10), (0.999, 1)])
def test_the_average_is_that_of_the_weights_after_each_step(data, here, decay, warmup):
    run = train(data, ema_decay=decay, ema_warmup=warmup)
    average = testing.tensors(run)["state/ema/linear/w"]
    expected = averages_of([weights(run, step) for step in range(1, 7)], decay, warmup)
    assert np.allclose(average, expected, atol=1e-6)
    assert not np.allclose(average, weights(run, 6), atol=1e-5)
    assert testing.tensors(run)["state/ema/count"] == 6


def test_evaluation_prediction_and_export_use_the_average_and_training_does_not(data, cli):
    run = train(data, ema_decay=0.9)
    plain = train(data, "plain", extensions=[])
    tensors, expected = testing.tensors(run), testing.tensors(plain)
    assert all(np.array_equal(tensors[name], expected[name]) for name in expected)
    with toolkit.open_trained(run) as trained:
        images = trained.split("test").features[:]
        logits = trained.predict(images)["logits"]
    flat = images.reshape(len(images), -1) / 255.0
    w, b = tensors["state/ema/linear/w"], tensors["state/ema/linear/b"]
    assert np.allclose(logits, flat.dot(w) + b, atol=1e-5)
    assert not np.allclose(logits, flat.dot(tensors["linear/w"]) + tensors["linear/b"], atol=1e-4)
    result = cli("export", run, "model")  # which compares it with these predictions
    assert result.code == 0, result.err
