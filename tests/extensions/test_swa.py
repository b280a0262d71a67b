"""`--with swa`: the mean, the rates while averaging, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from linear_fixtures import LINEAR, Linear

import toolkit
from toolkit import UsageError, hookimpl, testing, tf

SETTINGS = {"steps": 10, "evaluate": "no", "batch_size": 4, "best_metric": "none"}
SETTINGS.update(checkpoint_steps=1, keep_checkpoints=20, log_steps=1, steps_per_call=1)


class WithMoments(Linear):
    """Has a variable like those of batch norm."""

    @hookimpl
    def build(self, run):
        tf.get_variable("moving_mean", [3], trainable=False, initializer=tf.zeros_initializer())
        return Linear.build(self, run)


def train(tmp_path, data, name="run", plugin=LINEAR, extensions=("swa",), **options):
    path = str(tmp_path / name)
    testing.train(plugin, path, list(extensions), **dict(SETTINGS, data=data, **options))
    return path


def weights(run, step):
    return testing.tensors(run, str(step))["linear/w"]


def rates(run):
    with open(run + "/metrics.jsonl") as file:
        records = [json.loads(text) for text in file]
    return [r["learning_rate"] for r in records if "learning_rate" in r]


@pytest.mark.parametrize("steps_per_call", [1, 3])
def test_the_mean_is_that_of_the_weights_at_the_ends_of_the_cycles(data, tmp_path, steps_per_call):
    more = {"swa_share": 0.65, "swa_cycle": 2, "steps_per_call": steps_per_call}
    run = train(tmp_path, data, **more)  # six of ten steps are three cycles
    average = testing.tensors(run)["state/swa/linear/w"]
    assert np.allclose(average, np.mean([weights(run, k) for k in (6, 8, 10)], 0), atol=1e-6)
    assert testing.tensors(run)["state/swa/count"] == 3
    assert not np.allclose(average, weights(run, 10), atol=1e-4)


def test_prediction_uses_the_mean_once_there_is_one(data, tmp_path):
    run = train(tmp_path, data, swa_share=0.4, swa_cycle=2)
    for step, name in ((6, "linear/w"), (10, "state/swa/linear/w")):
        with toolkit.open_trained(run, str(step)) as trained:
            tensors = testing.tensors(run, str(step))
            zeros = trained.predict(np.zeros([1, 6, 6, 1], np.uint8))["logits"][0]
            ones = trained.predict(np.full([1, 6, 6, 1], 255, np.uint8))["logits"][0]
        assert np.allclose(ones - zeros, tensors[name].sum(0), atol=1e-4)


def test_the_rate_is_constant_or_falls_within_each_cycle(data, tmp_path):
    more = {"swa_share": 0.4, "swa_cycle": 2, "swa_rate": 0.25, "learning_rate": 0.04}
    constant = rates(train(tmp_path, data, schedule="cosine", **more))
    assert constant[0] == pytest.approx(0.04) and constant[5] < 0.03
    assert constant[6:] == pytest.approx([0.01] * 4)
    cyclic = rates(train(tmp_path, data, "cyclic", swa_schedule="cyclic", **more))
    assert cyclic[:6] == pytest.approx([0.04] * 6)
    assert cyclic[6:] == pytest.approx([0.01 * 0.505, 0.01 * 0.01] * 2)
    own = rates(train(tmp_path, data, "own", swa_schedule="run", **more))
    assert own == pytest.approx([0.04] * 10)


def test_zero_strength_changes_no_tensor(data, tmp_path):
    zero = train(tmp_path, data, "zero", swa_share=0.0)
    plain = train(tmp_path, data, "plain", extensions=())
    assert testing.fingerprint(zero) == testing.fingerprint(plain)


def test_a_resumed_run_has_the_same_mean(data, tmp_path):
    more = {"swa_share": 0.6, "swa_cycle": 3}
    whole = train(tmp_path, data, "whole", **more)
    train(tmp_path, data, "paused", pause_at=8, **more)
    paused = train(tmp_path, data, "paused", **more)
    assert testing.fingerprint(whole) == testing.fingerprint(paused)


def test_a_run_without_a_whole_cycle_is_refused(data, tmp_path):
    with pytest.raises(UsageError, match="25 % of 10 steps are fewer than a cycle of 100"):
        train(tmp_path, data)


@pytest.mark.parametrize("plugin", [WithMoments, "gan"], ids=["moments", "gan"])
def test_a_model_with_moments_is_refused(data, tmp_path, plugin):
    more = {"network": "mlp", "sample_steps": 0} if plugin == "gan" else {}
    with pytest.raises(UsageError, match="swa does not support models with moments"):
        train(tmp_path, data, plugin=plugin, swa_cycle=1, **more)
