"""Train ops that a plugin builds itself are behind the guard; no read races with a write."""

import types

import numpy as np
import pytest
from graph_fixtures import make_run
from linear_fixtures import Linear, spoiled, write_bars
from run_fixtures import records
from update_fixtures import (
    ONLY_2,
    SGD,
    Own,
    WithBatchNorm,
    WithInfiniteLoss,
    changes,
    create_variable,
    train_batch_norm,
)

from toolkit import DivergedError, ToolkitError, UsageError, hookimpl, testing, tf
from toolkit.graph import adoption
from toolkit.graph.guard import run_behind_guard
from toolkit.graph.ops import root_handle, upstream
from toolkit.graph.run import step_builder_of

pytestmark = pytest.mark.usefixtures("here")


def exploding(update):
    """A plugin that trains by `update(model, losses, run)`; its loss is NaN in the third step."""

    class Exploding(spoiled("nan", 3)):
        @hookimpl
        def optimize(self, model, losses, run):
            return update(model, losses, run)

    return Exploding


def momentum(model, losses, run):
    return Own().optimize(losses, run)


def without_step(model, losses, run):
    return tf.train.MomentumOptimizer(0.1, 0.9).minimize(losses)


def adopted(model, losses, run):
    return run.adopt(without_step(model, losses, run), losses)


def halve(bias):
    return bias.assign(bias.read_value() * 0.5)


def decaying(model, losses, run):
    """An op of its own after the update of the core."""
    step = run.minimize(losses)
    with tf.control_dependencies([step]):
        return tf.group(step, halve(model[1]))


def in_function(model, losses, run):
    """An update of the variables within a `tf.function`."""
    gradients = tf.gradients(losses, list(model))

    @tf.function(autograph=False)
    def update(*gradients):
        for variable, gradient in zip(model, gradients):
            variable.assign_sub(0.1 * gradient)

    with tf.control_dependencies([gradient.op for gradient in gradients]):
        update(*gradients)
    calls = [op for op in tf.get_default_graph().get_operations() if "Call" in op.type]
    return tf.group(calls[-1])


class OwnAddsNan(Own):
    """Its loss is NaN in the third step, and its gradient is not."""

    @hookimpl
    def loss(self, labels, outputs, run):
        nan = tf.where(tf.equal(run.step_index, 2), float("nan"), 0.0)
        return Linear.loss(self, labels, outputs) + nan


class Beside(exploding(None)):
    """It counts its steps and keeps the lowest loss, which begins as infinity, beside the step."""

    @hookimpl
    def build(self, run):
        infinity = tf.constant(float("inf"))
        self.count = tf.get_variable("count", trainable=False, initializer=0)
        self.best = tf.get_variable("best", trainable=False, initializer=infinity)
        return Linear.build(self, run)

    @hookimpl
    def optimize(self, losses, run):
        best = self.best.assign(tf.minimum(self.best.read_value(), losses))
        return tf.group(run.minimize(losses), self.count.assign_add(1, read_value=False), best)


def train(plugin, run="run", **options):
    values = {"steps": 6, "evaluate": "no", "log_steps": 1, "data": write_bars("bars.npz")}
    values["checkpoint_steps"] = 100  # so that a run that diverges saves what it is left with
    testing.train(plugin, run, **dict(values, **options))


@pytest.mark.parametrize(
    "update, per_call", [(momentum, 1), (without_step, None), (adopted, None), (decaying, None)]
)
def test_a_step_that_is_not_finite_is_skipped_as_a_whole(update, per_call):
    options = {"on_nonfinite": "skip", "steps_per_call": per_call, "checkpoint_steps": 1}
    train(exploding(update), steps=4, **options)
    tensors = [testing.tensors("run", n) for n in ("2", "3", "last")]
    before, after, last = ({k: value.tolist() for k, value in each.items()} for each in tensors)
    assert changes(before, after) == {"global_step": 3, "toolkit/skipped_steps": 1}
    assert last["global_step"] == 4 and last["linear/w"] != after["linear/w"]


@pytest.mark.parametrize(
    "plugin, options, text",
    [
        (exploding(momentum), {}, "own update: loss nan, norm of the change nan"),
        (exploding(decaying), {"steps_per_call": 1}, "loss nan"),
        (OwnAddsNan, {}, r"own update: loss nan, norm of the change 0\.\d"),
        (exploding(in_function), {"steps_per_call": 1, "xla": "off"}, "own update: loss nan"),
        (Beside, {"xla": "off"}, "loss nan"),
    ],
)
def test_a_step_that_is_not_finite_stops_the_run_before_it(plugin, options, text):
    with pytest.raises(DivergedError, match=f"Training diverged in step 3: {text}"):
        train(plugin, **options)
    last = testing.tensors("run")
    assert last["global_step"] == last.get("count", 2) == 2 and 0 < last.get("best", 1) < 2
    assert all(np.isfinite(value).all() for value in last.values())


def test_finite_own_updates_are_those_of_the_optimizer():
    train(Own, "own")
    options = {"optimizer": "momentum", "learning_rate": 0.1, "clip": "none", "xla": "off"}
    train(Linear, "core", **options)
    own, core = testing.tensors("own"), testing.tensors("core")
    np.testing.assert_allclose(own["linear/w"], core["linear/w"], rtol=1e-6)


def test_own_updates_resume_exactly_and_in_a_loop(data):
    testing.check_resume(Own, "resume", data=data)
    testing.check_step_in_a_loop(exploding(without_step), data=data)


def test_the_norm_of_the_change_is_logged():
    train(Own, steps=1)
    tensors = testing.tensors("run")
    slots = [tensors[f"linear/{name}/Momentum"] for name in "wb"]  # the gradients, after one step
    expected = np.sqrt(sum((1 + 0.1**2) * np.square(slot).sum() for slot in slots))
    assert records("run")[0]["update_norm"] == pytest.approx(expected, rel=1e-5)


class OwnNorm(WithBatchNorm):
    """Batch norm of `run.keras`, trained by an optimizer of its own."""

    optimize = Own.optimize

    @hookimpl
    def build(self, run):
        norm, linear = WithBatchNorm.build(self, run)
        return run.keras(norm), linear


class OwnNormWithInfiniteLoss(OwnNorm, WithInfiniteLoss):
    pass


@pytest.mark.parametrize(
    "plugin, mean, is_refused", [(OwnNorm, 0.38, False), (OwnNormWithInfiniteLoss, 0, True)]
)
def test_batch_statistics_move_with_own_updates(plugin, mean, is_refused):
    # After two steps on the mean 2: 0.9 x 0 + 0.1 x 2 = 0.2, then 0.9 x 0.2 + 0.2 = 0.38.
    moving_mean, has_refusal = train_batch_norm(plugin, 2)
    assert moving_mean == pytest.approx([mean, mean]) and has_refusal == is_refused


@ONLY_2
def test_xla_is_refused_for_own_updates():
    with pytest.raises(UsageError, match="updates 'linear/b' by an op of its own"):
        train(Own, xla="on")


class WaitsForBatchNorm(WithBatchNorm):
    """It puts the updates of batch norm before the train op, as programs for TensorFlow 1 do."""

    @hookimpl
    def optimize(self, model, losses, run):
        with tf.control_dependencies(model[0].updates):
            return run.minimize(losses)


class HalvesAtTimes(Linear):
    @hookimpl
    def call(self, model, features, run):
        w, bias = model
        tf.cond(features[0, 0, 0, 0] > 0, lambda: halve(bias) + 0, lambda: bias + 0)
        return Linear.call(self, model, features, run)


def minimizing_at_times(model, losses, run):
    return tf.cond(losses > 0, lambda: run.minimize(losses), tf.no_op).op


def halving_first(model, losses, run):
    with tf.control_dependencies([halve(model[1]).op]):
        return run.minimize(losses)


@pytest.mark.parametrize(
    "plugin, message",
    [
        (WaitsForBatchNorm, "run.minimize waits for '.*', which it also runs"),
        (exploding(halving_first), "updates 'linear/b' by an op of its own"),
        (HalvesAtTimes, "^'linear/b' is updated in a tf.cond or tf.while_loop"),
        (exploding(minimizing_at_times), "^run.minimize is called in a tf.cond or tf.while_loop"),
    ],
)
def test_an_update_before_that_of_the_core_is_refused(plugin, message):
    with pytest.raises(ToolkitError, match=message):
        train(plugin)


def writes_of(variable):
    """The ops of the graph that write a variable, but for its initializer."""
    ops = tf.get_default_graph().get_operations()
    writes = [op for op in ops if variable.handle.name in adoption.written_handles(op, set())]
    return [op for op in writes if op is not variable.initializer]


def reads_of(variable, ops):
    """The ops among some that read a variable."""
    reads = [op for op in ops if op.type == "ReadVariableOp"]
    return {op for op in reads if root_handle(op.inputs[0]) is variable.handle}


def test_a_rollback_waits_for_the_update_that_it_undoes():
    run = make_run(**dict(SGD, on_nonfinite="skip"))
    a, b = create_variable("a", 1.0), create_variable("b", 1.0)
    update = run.minimize(2.0 * a, [a], "a", advance_step=False)
    run.minimize(float("inf") * b, [b], "b")  # under no control dependency
    rollbacks = [op for op in writes_of(a) if op.type == "AssignVariableOp"]
    assert rollbacks
    assert all(update in upstream([op]) for op in rollbacks)


def test_a_state_update_reads_the_weights_before_they_change():
    run = make_run(**SGD)
    w, average = create_variable("w", 1.0), create_variable("average", 0.0)
    state_update = average.assign(w.read_value(), read_value=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, state_update)
    run.minimize(3.0 * w, [w])
    reads = reads_of(w, upstream([state_update]))
    writes = writes_of(w)
    assert reads and writes
    assert all(reads <= upstream([op]) for op in writes)


def test_state_updates_of_updates_that_are_applied_together_run_in_order_before_any_after():
    run = make_run(**SGD)
    a, b, average, seen = (create_variable(name, 1.0) for name in ("a", "b", "average", "seen"))
    updates = []

    def copy():
        return seen.assign(average.read_value(), read_value=False)

    for w in (a, b):
        state_update = average.assign_add(1.0, read_value=False)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, state_update)
        updates.append(run.gradients(3.0 * w, [w], w.op.name, after=copy if w is a else None))
    run.apply(updates)
    first, second = [op for op in writes_of(average) if op._get_control_flow_context()]
    assert first in upstream([second])
    (write,) = writes_of(seen)
    (read,) = reads_of(average, upstream([write]))
    assert second in upstream([read])


def test_changed_gradients_read_the_variables_before_any_of_them_is_updated():
    run, reads = make_run(**SGD), []
    a, b = create_variable("a", 1.0), create_variable("b", 1.0)

    def add_variables(gradients, variables, name):
        values = [variable.read_value() for variable in variables]
        reads.extend(value.op for value in values)
        return [gradient + value for gradient, value in zip(gradients, reversed(values))]

    run.change_gradients(add_variables)
    run.minimize(3.0 * a + 2.0 * b, [a, b])
    writes = [*writes_of(a), *writes_of(b)]
    assert len(reads) == len(writes) == 2
    assert all(upstream([op]).issuperset(reads) for op in writes)


def test_functions_that_update_state_follow_each_other():
    run = make_run(**SGD)
    w, copy = create_variable("w", 1.0), create_variable("copy", 0.0)
    step = run.minimize(3.0 * w, [w])
    functions = [
        lambda: w.assign(7.0, read_value=False),
        lambda: copy.assign(w.read_value(), read_value=False),
    ]
    with tf.control_dependencies([step]):
        run_behind_guard(functions, step_builder_of(run)._last, None)
    (write,) = [op for op in writes_of(w) if op.type == "AssignVariableOp"]
    reads = reads_of(w, upstream(writes_of(copy)))
    assert any(write in upstream([op]) for op in reads)


def adopt(step, loss, **settings):
    """Guard an own train op that has only this loss."""
    options = types.SimpleNamespace(on_nonfinite="stop")
    return adoption.adopt(step, adoption.find_writes(step, set()), [loss], options, **settings)


def test_the_norm_of_the_change_cannot_be_read_after_a_refusal():
    weight = create_variable("weight", [1.0, 1.0])
    loss = tf.reduce_sum(tf.square(weight))
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    guarded, values = adopt(step, loss)
    ops = upstream([values.gradient_norm.op])
    reads = {op for op in reads_of(weight, ops) if step in upstream([op])}
    assert reads
    assert reads <= upstream([guarded.finite.op])


def test_an_own_update_of_the_global_step_waits_until_its_number_is_read():
    weight = create_variable("weight", 1.0)
    global_step = tf.train.get_or_create_global_step()
    index = global_step.read_value()
    step = tf.train.GradientDescentOptimizer(0.1).minimize(weight, global_step=global_step)
    writes = adoption.find_writes(step, set())
    adopt(step, weight * 1, step_index=index)
    advances = [op for op, handles in writes.foreign.items() if global_step.handle.name in handles]
    assert advances
    assert all(index.op in upstream([op]) for op in advances)
