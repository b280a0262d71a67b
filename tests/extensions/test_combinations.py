"""Extensions with each other, with the plugins that ship, under the guard, and in a loop."""

from __future__ import annotations

import io

import numpy as np
import pytest
from linear_fixtures import LINEAR, Linear

import toolkit
from toolkit import UsageError, hookimpl, testing, tf
from toolkit.compat import VERSION_FAMILY
from toolkit.display.console import Console

SETTINGS = {"steps": 4, "evaluate": "no", "batch_size": 4, "best_metric": "none"}
SWA = {"swa_share": 0.5, "swa_cycle": 1}
OFF = {"swa_share": 0.0}
ZERO = {"ema_decay": 0.0, "swa_share": 0.0, "smoothing": 0.0, "noise_eta": 0.0}
ALL = ["ema", "swa", "label-smoothing", "gradient-noise", "profiler"]
GAN = {
    "network": "mlp",
    "width": 4,
    "sample_steps": 0,
    "norm_samples": 10,
    "features": "pixels",
    "quick_samples": 100,
    "score_samples": 100,
    "score_seeds": 1,
    "two_sample": False,
}
ONLY_2 = pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone")


class Refused(Linear):
    """Every other loss is not finite."""

    @hookimpl
    def loss(self, labels, outputs, run):
        is_odd = tf.equal(run.step_index % 2, 1)
        return Linear.loss(self, labels, outputs) * tf.where(is_odd, float("inf"), 1.0)


def train(tmp_path, data, name, plugin=LINEAR, extensions=ALL, **options):
    """Train, and return the folder of the run and its log."""
    path, log = str(tmp_path / name), io.StringIO()
    settings = dict(SETTINGS, data=data, **options)
    trainer = testing.open_trainer(plugin, path, extensions, Console(log), **settings)
    try:
        trainer.train_and_test()
    finally:
        trainer.close()
    return path, log.getvalue()


def are_equal(one, other):
    """Whether all tensors of `other` are in `one`, to the bit."""
    tensors, expected = testing.tensors(one), testing.tensors(other)
    return all(np.array_equal(tensors[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    "plugin, more",
    [
        (LINEAR, {}),
        ("classifier", {"network": "cnn"}),
    ],
    ids=["linear", "cnn"],
)
def test_all_at_zero_strength_change_nothing(digits, tmp_path, plugin, more):
    zero, _ = train(tmp_path, digits, "zero", plugin, **dict(ZERO, profile_steps="2", **more))
    plain, _ = train(tmp_path, digits, "plain", plugin, [], **more)
    assert are_equal(zero, plain)


@pytest.fixture(scope="module")
def plain_gan(data, tmp_path_factory):
    """A GAN without extensions."""
    return train(tmp_path_factory.mktemp("gan"), data, "plain", "gan", [], **GAN)[0]


@pytest.fixture(scope="module")
def averaged_gan(data, tmp_path_factory):
    """The same GAN, of which the extension ema averages the weights."""
    folder = tmp_path_factory.mktemp("gan")
    return train(folder, data, "averaged", "gan", ["ema"], ema_decay=0.5, **GAN)[0]


def test_noise_of_zero_strength_leaves_a_gan_the_same(data, tmp_path, plain_gan):
    noisy, _ = train(tmp_path, data, "noisy", "gan", ["gradient-noise"], noise_eta=0.0, **GAN)
    assert are_equal(noisy, plain_gan)


def test_an_average_of_its_weights_leaves_a_gan_the_same(averaged_gan, plain_gan):
    assert are_equal(averaged_gan, plain_gan)


def test_a_run_prints_the_order_of_the_wrappers(data, tmp_path):
    _, log = train(tmp_path, data, "run", extensions=["ema", "gradient-noise", "label-smoothing"])
    lines = [" ".join(line.split()) for line in log.splitlines()]
    assert any("loss: label-smoothing > linear" in line.lower() for line in lines), log
    assert any("optimize: gradient-noise > ema > linear" in line.lower() for line in lines), log


@pytest.mark.parametrize("strength", [OFF, dict(SWA, ema=False)], ids=["ema", "swa"])
def test_all_together_are_the_same_in_a_loop_and_after_a_resume(data, tmp_path, strength):
    more = dict(strength, profile_steps="2")
    extensions = ALL if more.pop("ema", True) else ALL[1:]
    more["extensions"] = extensions
    single, _ = train(tmp_path, data, "single", steps_per_call="1", **more)
    loop, _ = train(tmp_path, data, "loop", steps_per_call="4", **more)
    assert testing.fingerprint(single) == testing.fingerprint(loop)
    train(tmp_path, data, "paused", pause_at=3, **more)
    paused, _ = train(tmp_path, data, "paused", **more)
    assert testing.fingerprint(single) == testing.fingerprint(paused)


@ONLY_2
def test_all_together_train_under_xla(data, tmp_path):
    compiled, _ = train(tmp_path, data, "compiled", xla="on", **OFF)
    tensors = testing.tensors(compiled)
    assert tensors["state/ema/count"] == 4
    assert all(np.isfinite(value).all() for value in tensors.values())


@ONLY_2
@pytest.mark.parametrize("extension, more", [("ema", {}), ("swa", SWA)], ids=["ema", "swa"])
def test_an_average_under_xla_is_that_without(data, tmp_path, extension, more):
    plain, _ = train(tmp_path, data, "plain", extensions=[extension], xla="off", **more)
    compiled, _ = train(tmp_path, data, "compiled", extensions=[extension], xla="on", **more)
    tensors, expected = testing.tensors(compiled), testing.tensors(plain)
    assert all(np.allclose(tensors[name], expected[name], atol=1e-5) for name in expected)


@pytest.mark.parametrize("xla", ["off", pytest.param("on", marks=ONLY_2)])
def test_a_refused_step_moves_no_average(data, tmp_path, xla):
    run, _ = train(tmp_path, data, "run", Refused, ["ema"], on_nonfinite="skip", xla=xla, steps=6)
    tensors = testing.tensors(run)
    assert tensors["state/ema/count"] == 3
    assert all(np.isfinite(value).all() for value in tensors.values())


def test_an_average_moves_once_for_each_update_of_accumulated_steps(data, tmp_path):
    run, _ = train(tmp_path, data, "run", extensions=["ema"], accumulate="2", steps=6)
    assert testing.tensors(run)["state/ema/count"] == 3


def test_a_classifier_evaluates_and_exports_its_average(digits, tmp_path, cli):
    more = {"network": "cnn", "steps": 6}
    run, _ = train(
        tmp_path, digits, "run", "classifier", ["ema"], ema_decay=0.5, evaluate="yes", **more
    )
    plain, _ = train(tmp_path, digits, "plain", "classifier", [], **more)
    assert are_equal(run, plain)
    with toolkit.open_trained(run, "last") as one, toolkit.open_trained(plain, "last") as other:
        images = one.split("test").features[:]
        assert not np.allclose(
            one.predict(images)["probabilities"], other.predict(images)["probabilities"], atol=1e-5
        )
    result = cli("export", run, str(tmp_path / "model"))
    assert result.code == 0, result.err


def test_a_gan_evaluates_the_average_of_its_discriminator(averaged_gan, plain_gan):
    with toolkit.open_trained(averaged_gan) as one, toolkit.open_trained(plain_gan) as other:
        # Samples are of the GAN's own average, which the extension does not touch.
        assert np.array_equal(one.sample(4)["images"], other.sample(4)["images"])


def test_two_averages_are_refused(data, tmp_path):
    with pytest.raises(UsageError, match="Both 'ema' and 'swa' average the weights"):
        train(tmp_path, data, "run", extensions=["ema", "swa"], **SWA)
