"""`--with ema` and `--with swa`: the averages and where they are used."""

import extension_fixtures
import numpy as np
import pytest
from linear_fixtures import Linear
from run_fixtures import records

import toolkit
from toolkit import UsageError, hookimpl, testing, tf

SETTINGS = {"steps": 10, "log_steps": 1, "checkpoint_steps": 1, "keep_checkpoints": 20}


def train(data, name="run", extensions=("swa",), **options):
    return extension_fixtures.train(data, name, extensions, **{**SETTINGS, **options})


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
    run = train(data, extensions=["ema"], steps=6, ema_decay=decay, ema_warmup=warmup)
    average = testing.tensors(run)["state/ema/linear/w"]
    expected = averages_of([weights(run, step) for step in range(1, 7)], decay, warmup)
    assert np.allclose(average, expected, atol=1e-6)
    assert not np.allclose(average, weights(run, 6), atol=1e-5)
    assert testing.tensors(run)["state/ema/count"] == 6


def test_evaluation_prediction_and_export_use_the_average_and_training_does_not(data, cli):
    run = train(data, extensions=["ema"], steps=6, ema_decay=0.9)
    plain = train(data, "plain", extensions=[], steps=6)
    tensors, expected = testing.tensors(run), testing.tensors(plain)
    assert all(np.array_equal(tensors[name], expected[name]) for name in expected)
    with toolkit.open_trained(run) as trained:
        images = trained.split("test").features[:]
        logits = trained.predict(images)["logits"]
    flat = images.reshape(len(images), -1) / 255.0
    w, b = tensors["state/ema/linear/w"], tensors["state/ema/linear/b"]
    assert np.allclose(logits, flat.dot(w) + b, atol=1e-5)
    assert not np.allclose(logits, flat.dot(tensors["linear/w"]) + tensors["linear/b"], atol=1e-4)
    losses = [cli("evaluate", each, "--json").json()["metrics"]["loss"] for each in (run, plain)]
    assert losses[0] != losses[1]
    cli.succeed("export", run, "model")  # which compares it with these predictions


class WithMoments(Linear):
    """Has a variable like those of batch norm."""

    @hookimpl
    def build(self, run):
        tf.get_variable("moving_mean", [3], trainable=False, initializer=tf.zeros_initializer())
        return Linear.build(self, run)


def rates(run):
    return [record["learning_rate"] for record in records(run)]


def test_the_mean_is_that_of_the_weights_at_the_ends_of_the_cycles(data, here):
    # Six of ten steps are three cycles.
    run = train(data, swa_share=0.65, swa_cycle=2, steps_per_call=3)
    average = testing.tensors(run)["state/swa/linear/w"]
    assert np.allclose(average, np.mean([weights(run, k) for k in (6, 8, 10)], 0), atol=1e-6)
    assert testing.tensors(run)["state/swa/count"] == 3
    assert not np.allclose(average, weights(run, 10), atol=1e-4)


def test_a_cycle_ends_with_the_weights_of_the_last_update_of_accumulated_gradients(data, here):
    # Updates in steps 4 and 8; the cycles, eight of ten steps, end at 6 and 10.
    run = train(data, swa_share=0.8, swa_cycle=4, accumulate=4)
    average = testing.tensors(run)["state/swa/linear/w"]
    assert np.allclose(average, np.mean([weights(run, k) for k in (4, 8)], 0), atol=1e-6)
    assert testing.tensors(run)["state/swa/count"] == 2


def test_prediction_uses_the_mean_once_there_is_one(data, here):
    run = train(data, swa_share=0.4, swa_cycle=2)
    for step, name in ((6, "linear/w"), (10, "state/swa/linear/w")):
        with toolkit.open_trained(run, str(step)) as trained:
            tensors = testing.tensors(run, str(step))
            zeros = trained.predict(np.zeros([1, 6, 6, 1], np.uint8))["logits"][0]
            ones = trained.predict(np.full([1, 6, 6, 1], 255, np.uint8))["logits"][0]
        assert np.allclose(ones - zeros, tensors[name].sum(0), atol=1e-4)


def test_the_rate_is_constant_or_falls_within_each_cycle(data, here):
    more = {"swa_share": 0.4, "swa_cycle": 2, "swa_rate": 0.25, "learning_rate": 0.04}
    constant = rates(train(data, schedule="cosine", **more))
    assert constant[0] == pytest.approx(0.04) and constant[5] < 0.03
    assert constant[6:] == pytest.approx([0.01] * 4)
    cyclic = rates(train(data, "cyclic", swa_schedule="cyclic", **more))
    assert cyclic[:6] == pytest.approx([0.04] * 6)
    assert cyclic[6:] == pytest.approx([0.01 * 0.505, 0.01 * 0.01] * 2)
    own = rates(train(data, "own", swa_schedule="run", **more))
    assert own == pytest.approx([0.04] * 10)


class WithFittedMoments(WithMoments):
    """It reads its weights and moments from a file, as a network that was trained before."""

    @hookimpl
    def build(self, run):
        model = WithMoments.build(self, run)
        variables = [v for v in tf.global_variables() if v is not run.global_step]
        run.fit_initial_values(variables, lambda split: [np.zeros(v.shape) for v in variables])
        return model


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "25 % of 10 steps are fewer than a cycle of 100"),
        ({"plugin": WithMoments, "swa_cycle": 1}, "swa does not support models with moments"),
        ({"plugin": WithFittedMoments, "swa_cycle": 1}, "models with moments: 'moving_mean'"),
    ],
)
def test_a_run_without_a_whole_cycle_or_of_moments_is_refused(data, here, options, message):
    with pytest.raises(UsageError, match=message):
        train(data, **options)


def test_a_regressor_of_numbers_is_averaged_whatever_moments_it_measures(here):
    data = testing.write_table(here / "rows.csv", count=60, numbers=2)
    train(data, plugin="regressor", swa_share=0.4, swa_cycle=2)
    assert testing.tensors("run")["state/swa/count"] == 2
