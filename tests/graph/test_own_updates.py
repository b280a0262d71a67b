"""Train ops that a plugin builds itself: the guard covers every variable that they write."""

from __future__ import annotations

import json

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars

from toolkit import DivergedError, ToolkitError, UsageError, hookimpl, testing, tf

pytestmark = pytest.mark.usefixtures("graph")


class Own(Linear):
    """Trains by an optimizer of its own, with momentum."""

    explodes_at = None

    @hookimpl
    def loss(self, labels, outputs, run):
        loss = Linear.loss(self, labels, outputs)
        if run.mode != "train" or self.explodes_at is None:
            return loss
        is_bad = tf.equal(run.step_index, self.explodes_at)
        return loss * tf.where(is_bad, tf.constant(float("nan")), tf.ones([]))

    @hookimpl
    def optimize(self, losses, run):
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        return optimizer.minimize(losses, global_step=run.global_step)


class OwnExploding(Own):
    """Its loss is NaN in the third step."""

    explodes_at = 2


class OwnAddsNan(Own):
    """Its loss is NaN in the third step, and its gradient is not."""

    @hookimpl
    def loss(self, labels, outputs, run):
        is_bad = tf.equal(run.step_index, 2)
        nan = tf.where(is_bad, tf.constant(float("nan")), tf.zeros([]))
        return Linear.loss(self, labels, outputs) + nan


class WithoutStep(OwnExploding):
    """Its op does not advance the global step."""

    @hookimpl
    def optimize(self, losses):
        return tf.train.MomentumOptimizer(0.1, 0.9).minimize(losses)


class Adopted(WithoutStep):
    """It declares its op."""

    @hookimpl
    def optimize(self, losses, run):
        return run.adopt(tf.train.MomentumOptimizer(0.1, 0.9).minimize(losses), [losses])


class Decays(OwnExploding):
    """It halves the bias after the update of the core, by an op of its own."""

    @hookimpl
    def optimize(self, model, losses, run):
        step = run.minimize(losses)
        with tf.control_dependencies([step]):
            return tf.group(step, model[1].assign(model[1].read_value() * 0.5))


class Beside(OwnExploding):
    """It counts its steps by an op that waits for nothing."""

    @hookimpl
    def build(self, run):
        self.count = tf.get_variable("count", trainable=False, initializer=0)
        return Linear.build(self, run)

    @hookimpl
    def optimize(self, losses, run):
        return tf.group(run.minimize(losses), self.count.assign_add(1, read_value=False))


def train(plugin, folder, **options):
    data = str(folder.parent / "bars.npz")
    values = {"steps": 6, "evaluate": "no", "log_steps": 1, "data": write_bars(data)}
    values["checkpoint_steps"] = 100  # so that a run that diverges saves what it is left with
    return testing.train(plugin, str(folder), **dict(values, **options))


def tensors_of(folder, step="last"):
    return testing.tensors(str(folder), step)


@pytest.mark.parametrize("per_call", [1, None], ids=["single steps", "loop"])
@pytest.mark.parametrize("plugin", [OwnExploding, WithoutStep, Adopted, Decays])
def test_a_step_that_is_not_finite_is_skipped_as_a_whole(tmp_path, plugin, per_call):
    options = {"on_nonfinite": "skip", "steps_per_call": per_call, "checkpoint_steps": 1}
    train(plugin, tmp_path / "run", steps=4, **options)
    before, after = tensors_of(tmp_path / "run", "2"), tensors_of(tmp_path / "run", "3")
    assert after["toolkit/skipped_steps"] == 1
    changes = [name for name in before if not np.array_equal(before[name], after[name])]
    assert sorted(changes) == ["global_step", "toolkit/skipped_steps"]
    last = tensors_of(tmp_path / "run")
    assert last["global_step"] == 4
    assert not np.array_equal(last["linear/w"], after["linear/w"])


@pytest.mark.parametrize("per_call", [1, None], ids=["single steps", "loop"])
@pytest.mark.parametrize("plugin", [OwnExploding, WithoutStep, Decays])
def test_a_step_that_is_not_finite_stops_the_run_before_it(tmp_path, plugin, per_call):
    message = "Training diverged in step 3: "
    message += "loss nan" if plugin is Decays else "own update: loss nan, norm of the change nan"
    with pytest.raises(DivergedError, match=message):
        train(plugin, tmp_path / "run", steps_per_call=per_call)
    last = tensors_of(tmp_path / "run")
    assert last["global_step"] == 2
    assert all(np.isfinite(value).all() for value in last.values())


def test_a_loss_that_is_not_finite_stops_the_run_even_if_its_update_is_finite(tmp_path):
    with pytest.raises(DivergedError, match=r"own update: loss nan, norm of the change 0\.\d"):
        train(OwnAddsNan, tmp_path / "run")
    assert tensors_of(tmp_path / "run")["global_step"] == 2


class InFunction(OwnExploding):
    """It updates its variables within a `tf.function`."""

    @hookimpl
    def optimize(self, model, losses, run):
        gradients = tf.gradients(losses, list(model))

        @tf.function(autograph=False)
        def update(*gradients):
            for variable, gradient in zip(model, gradients):
                variable.assign_sub(0.1 * gradient)

        with tf.control_dependencies([gradient.op for gradient in gradients]):
            update(*gradients)
        calls = [op for op in tf.get_default_graph().get_operations() if "Call" in op.type]
        return tf.group(calls[-1])


def test_own_updates_within_a_function_are_put_back(tmp_path):
    with pytest.raises(DivergedError, match="own update: loss nan"):
        train(InFunction, tmp_path / "run", xla="off", steps_per_call=1)
    last = tensors_of(tmp_path / "run")
    assert last["global_step"] == 2
    assert all(np.isfinite(value).all() for value in last.values())


class BestLoss(Linear):
    """It keeps the lowest loss so far, which begins as infinity."""

    @hookimpl
    def build(self, run):
        start = tf.constant_initializer(float("inf"))
        self.best = tf.get_variable("best", [], trainable=False, initializer=start)
        return Linear.build(self, run)

    @hookimpl
    def optimize(self, losses, run):
        step = run.minimize(losses)
        with tf.control_dependencies([step]):
            return tf.group(self.best.assign(tf.minimum(self.best.read_value(), losses)))


def test_an_own_variable_may_begin_as_infinity(tmp_path):
    train(BestLoss, tmp_path / "run", xla="off")
    assert 0 < tensors_of(tmp_path / "run")["best"] < 2


def test_an_own_update_beside_one_of_the_core_waits_for_its_guard(tmp_path):
    with pytest.raises(DivergedError, match="step 3: loss nan"):
        train(Beside, tmp_path / "run", xla="off")
    assert tensors_of(tmp_path / "run")["count"] == 2


def test_finite_own_updates_are_those_of_the_optimizer(tmp_path):
    train(Own, tmp_path / "own")
    options = {"optimizer": "momentum", "learning_rate": 0.1, "clip": "none", "xla": "off"}
    train(Linear, tmp_path / "core", **options)
    own, core = tensors_of(tmp_path / "own"), tensors_of(tmp_path / "core")
    np.testing.assert_allclose(own["linear/w"], core["linear/w"], rtol=1e-6)


def test_own_updates_resume_exactly_and_in_a_loop(tmp_path):
    data = write_bars(str(tmp_path / "bars.npz"))
    testing.check_resume(Own, str(tmp_path / "resume"), data=data)
    testing.check_step_in_a_loop(WithoutStep, steps=2, data=data)


def test_the_norm_of_the_change_is_logged(tmp_path):
    train(Own, tmp_path / "run", steps=1)
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    tensors = tensors_of(tmp_path / "run")
    slots = [tensors[f"linear/{name}/Momentum"] for name in "wb"]  # the gradients, after one step
    expected = np.sqrt(sum((1 + 0.1**2) * np.square(slot).sum() for slot in slots))
    assert first["update_norm"] == pytest.approx(expected, rel=1e-5)


def test_an_own_update_before_one_of_the_core_is_refused(tmp_path):
    class Before(Linear):
        @hookimpl
        def optimize(self, model, losses, run):
            with tf.control_dependencies([model[1].assign(model[1].read_value() * 0.5).op]):
                return run.minimize(losses)

    with pytest.raises(ToolkitError, match="updates 'linear/b' by an op of its own"):
        train(Before, tmp_path / "run")


@pytest.mark.parametrize(
    "flag, value",
    [
        ("optimizer", "adam"),
        ("learning_rate", 0.5),
        ("schedule", "cosine"),
        ("clip", "norm"),
        ("accumulate", 2),
        ("weight_decay", 0.1),
    ],
)
def test_an_option_without_effect_on_own_updates_is_refused(tmp_path, flag, value):
    with pytest.raises(UsageError) as caught:
        train(Own, tmp_path / "run", **{flag: value})
    assert caught.value.message == (
        f"--{flag.replace('_', '-')} has no effect: the plugin 'own' updates its variables by ops "
        "of its own, not by run.minimize."
    )


@pytest.mark.skipif(not tf.__version__.startswith("2."), reason="XLA needs TensorFlow 2.x")
def test_xla_is_refused_for_own_updates(tmp_path):
    with pytest.raises(UsageError, match="updates 'linear/b' by an op of its own"):
        train(Own, tmp_path / "run", xla="on")


class WaitsForBatchNorm(Linear):
    """It puts the updates of batch norm before the train op, as programs for TensorFlow 1 do."""

    @hookimpl
    def build(self, run):
        self.moment = tf.get_variable("moment", trainable=False, initializer=0.0)
        return Linear.build(self, run)

    @hookimpl
    def call(self, model, features, run):
        if run.mode == "train":
            self.update = self.moment.assign_add(1.0, read_value=False)
        return Linear.call(self, model, features, run)

    @hookimpl
    def optimize(self, losses, run):
        with tf.control_dependencies([self.update]):
            return run.minimize(losses)


def test_a_state_update_is_not_made_twice(tmp_path):
    with pytest.raises(ToolkitError, match="run.minimize waits for '.*', which it also runs"):
        train(WaitsForBatchNorm, tmp_path / "run")
