"""The non-finite guard: a step whose loss or gradient is not finite changes no variable."""

from __future__ import annotations

import numpy as np
import pytest
from graph_fixtures import Spec, make_plugin, make_run, session
from update_fixtures import (
    INF,
    ONLY_2,
    SGD,
    WithBatchNorm,
    WithInfiniteLoss,
    create_variable,
    read_variables,
    train,
    train_batch_norm,
)

from toolkit import Run, Split, tf
from toolkit.compat import compile_with_xla
from toolkit.data.readers.resident import ResidentReader
from toolkit.graph.build import build_compiled, build_training
from toolkit.graph.guard import NOT_FINITE, GuardValues, describe_refusal, read_refusal
from toolkit.graph.run import step_builder_of
from toolkit.graph.step_strategy import PLAIN, XLA
from toolkit.plugins import Plugins

pytestmark = pytest.mark.usefixtures("graph")
policies = pytest.mark.parametrize("policy", ["stop", "skip"])


def changes(before, after):
    """Name -> value after of the variables whose values differ."""
    return {name: value for name, value in after.items() if value != before[name]}


# ------------------------------------------------------------------------------------- by condition


def half_infinite_loss():
    """The loss a + sqrt(b) = 1 at a = 1, b = 0: finite, but its gradient in b is infinite."""
    a, b = create_variable("a", [1.0]), create_variable("b", [0.0])
    return tf.reduce_sum(a + tf.sqrt(b))


def test_an_infinite_gradient_stops_training_and_leaves_weights_slots_and_step_unchanged():
    op = make_run(optimizer="adam", on_nonfinite="stop").minimize(half_infinite_loss())
    with session() as tf_session:
        before = read_variables(tf_session)
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
            tf_session.run(op)
        assert read_variables(tf_session) == before
    assert {"a/Adam", "b/Adam_1", "global_step"} <= set(before)


def test_a_step_with_an_infinite_gradient_is_skipped_and_counted():
    run = make_run(optimizer="adam", on_nonfinite="skip")
    op = run.minimize(half_infinite_loss())
    with session() as tf_session:
        before = read_variables(tf_session)
        tf_session.run(op)
        tf_session.run(op)
        after = read_variables(tf_session)
        assert tf_session.run(step_builder_of(run).counters) == {"skipped_steps": 2}
    assert changes(before, after) == {"global_step": 2, "toolkit/skipped_steps": 2}


def test_a_skipped_step_adds_nothing_to_accumulated_gradients():
    op = make_run(on_nonfinite="skip", accumulate=3).minimize(half_infinite_loss())
    with session() as tf_session:
        tf_session.run(op)
        assert read_variables(tf_session)["toolkit/accumulated/a"] == [0]


def test_training_continues_after_a_skipped_step():
    # In step 0 the loss is log(0); from step 1 on its gradient is 1.
    w = create_variable("w", [0.0])
    step = tf.cast(tf.train.get_or_create_global_step().read_value(), tf.float32)
    assert train(tf.reduce_sum(w) + tf.log(step), 3, on_nonfinite="skip") == {"w": [-2]}


@policies
def test_batch_statistics_do_not_change_in_a_step_that_is_not_finite(policy):
    assert train_batch_norm(WithInfiniteLoss, 1, on_nonfinite=policy) == ([0, 0], policy == "stop")


# ---------------------------------------------------------------------- several updates in one step


def product_update(run, name, factor):
    """An update for the loss factor * w of its own variable w, which starts at 1, and w."""
    with tf.init_scope():
        w = create_variable(name, 1.0)
    return run.gradients(factor * w, [w], name), w


def test_updates_that_are_applied_together_are_all_refused_if_one_is_not_finite():
    run = make_run(**dict(SGD, on_nonfinite="skip"))
    first, a = product_update(run, "a", 1.0)
    second, b = product_update(run, "b", INF)
    op = run.apply([first, second])
    with session() as tf_session:
        tf_session.run(op)
        assert tf_session.run([a, b]) == [1, 1]
        assert tf_session.run(step_builder_of(run).counters) == {"skipped_steps": 1}


def apply_in_sequence(run, factors):
    """A step with one product update per factor, each after the one before it.

    Returns:
        The op of the last update, and the variables in the order of the factors.
    """
    ops, variables = [], []
    for number, factor in enumerate(factors):
        with tf.control_dependencies(ops[-1:]):
            update, w = product_update(run, f"w{number}", factor)
            ops.append(run.apply([update], advance_step=number == len(factors) - 1))
            variables.append(w)
    return ops[-1], variables


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "momentum", "rmsprop", "adagrad", "ftrl"])
def test_a_later_update_that_is_not_finite_rolls_the_earlier_ones_back(optimizer):
    run = make_run(optimizer=optimizer, on_nonfinite="stop")
    op, _ = apply_in_sequence(run, [1.0, 2.0, INF])
    with session() as tf_session:
        before = read_variables(tf_session)
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
            tf_session.run(op)
        assert read_variables(tf_session) == before


@pytest.mark.parametrize("factors", [[INF, 1.0, 1.0], [1.0, INF, 1.0], [INF, 1.0, INF]])
def test_a_skipped_step_counts_once_however_many_updates_it_has(factors):
    run = make_run(**dict(SGD, on_nonfinite="skip"))
    op, variables = apply_in_sequence(run, factors)
    with session() as tf_session:
        tf_session.run(op)
        assert tf_session.run(variables) == [1, 1, 1]
        assert tf_session.run(step_builder_of(run).counters) == {"skipped_steps": 1}


def test_sequential_updates_all_happen_if_all_are_finite():
    run = make_run(**SGD)
    op, variables = apply_in_sequence(run, [1.0, 2.0, 3.0])
    with session() as tf_session:
        tf_session.run(op)
        assert tf_session.run(variables) == [0, -1, -2]
        assert tf_session.run(run.global_step) == 1


def test_state_updates_and_accumulated_gradients_are_rolled_back_too():
    run = make_run(**dict(SGD, on_nonfinite="skip", accumulate=2))
    a, statistic = create_variable("a", 1.0), create_variable("statistic", 0.0)
    state_update = statistic.assign(7.0, read_value=False)
    first = run.minimize(2.0 * a, [a], "a", advance_step=False, updates=[state_update])
    with tf.control_dependencies([first]):
        update, _ = product_update(run, "b", INF)
        op = run.apply([update])
    with session() as tf_session:
        before = read_variables(tf_session)
        tf_session.run(op)
        after = read_variables(tf_session)
    assert changes(before, after) == {"global_step": 1, "toolkit/skipped_steps": 1}


# -------------------------------------------------------------------------- the text of a refusal


def error_message(op):
    """The message of the error that an op raises in a session."""
    with session() as tf_session, pytest.raises(tf.errors.InvalidArgumentError) as error:
        tf_session.run(op)
    return error.value.message


def test_the_error_of_a_refusal_is_read_back_with_name_loss_and_norm_of_each_update():
    run = make_run(**dict(SGD, on_nonfinite="stop"))
    first, _ = product_update(run, "generator", 3.0)
    second, _ = product_update(run, "discriminator", INF)
    refusal = read_refusal(error_message(run.apply([first, second])))
    assert refusal == [
        GuardValues("generator", "3", "3"),
        GuardValues("discriminator", "inf", "inf"),
    ]
    assert describe_refusal(refusal) == "discriminator: loss inf, gradient norm inf"


def test_the_error_of_a_refused_loss_that_is_not_a_number_is_read_back():
    run = make_run(**dict(SGD, on_nonfinite="stop"))
    update, _ = product_update(run, "player", float("nan"))
    refusal = read_refusal(error_message(run.apply([update])))
    assert refusal == [GuardValues("player", "nan", "nan")]
    assert describe_refusal(refusal) == "player: loss nan, gradient norm nan"


def test_the_error_of_a_refused_gradient_without_a_name_is_read_back():
    op = make_run(**dict(SGD, on_nonfinite="stop")).minimize(half_infinite_loss())
    refusal = read_refusal(error_message(op))
    assert refusal == [GuardValues("", "1", "inf")]
    assert describe_refusal(refusal) == "loss 1, gradient norm inf"


def test_a_nan_with_a_sign_is_read_as_a_nan():
    message = f"assertion failed: [{NOT_FINITE}] [player] [-nan] [-inf]"
    assert read_refusal(message) == [GuardValues("player", "nan", "-inf")]


def test_the_message_of_another_op_is_no_refusal():
    never = tf.constant(False)
    op = tf.raw_ops.Assert(condition=never, data=["not finite", "player", INF, INF], summarize=3)
    message = error_message(op)
    assert "[not finite] [player] [inf] [inf]" in message
    assert read_refusal(message) is None


def test_a_refusal_describes_all_updates_that_are_not_finite_and_no_others():
    values = [
        GuardValues("a", "nan", "2"),
        GuardValues("b", "1", "2"),
        GuardValues("c", "1", "-inf"),
    ]
    assert describe_refusal(values) == (
        "a: loss nan, gradient norm 2; c: loss 1, gradient norm -inf"
    )
    assert describe_refusal(values[1:2]) == NOT_FINITE


# ---------------------------------------------------------------------------- by selection, for XLA


class CompiledStep:
    """A step that XLA compiles, and a session with its variables.

    Args:
        build_updates: build_updates(run, validity) adds the updates of the step and returns the op
            of the last one; `validity` is a float32 scalar: 1, or 0 in a step that the guard has
            to refuse.
        options: change those of Adam at rate 0.1.
    """

    def __init__(self, build_updates, **options):
        options = dict({"optimizer": "adam", "learning_rate": 0.1}, **options)
        self.run = Run("train", make_run(**options).options, Spec(), strategy=XLA)
        self.run.global_step  # noqa: B018 - created before the step, as the core does
        self._validity = tf.placeholder(tf.float32, [])

        def build_step(validity):
            builder = step_builder_of(self.run)
            builder.begin_step()
            with tf.control_dependencies([build_updates(self.run, validity)]):
                finite = builder.all_finite
                return [tf.identity(tf.constant(True) if finite is None else finite)]

        (self._continues,) = compile_with_xla(build_step, [self._validity])
        self._session = tf.Session()
        self._session.run(tf.global_variables_initializer())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session.close()

    def make_step(self, validity=1.0):
        """Make a step; return whether training continues after it."""
        return bool(self._session.run(self._continues, {self._validity: validity}))

    @property
    def variables(self):
        """Name -> present value of every variable."""
        return read_variables(self._session)


def fallible_loss(w, validity, value=None):
    """The loss sum(w * (1, 2, 3)), with a fault where `validity` is 0.

    Args:
        w: float32 [3].
        validity: float32 scalar, 1 or 0.
        value: what the faulty loss adds; None for an infinite element of the gradient.
    """
    loss = tf.reduce_sum(w * [1.0, 2.0, 3.0])
    if value is not None:
        return loss + tf.where(validity > 0, 0.0, value)
    # sqrt(0) is 0, and its slope there is infinite.
    last = w[2] - tf.stop_gradient(w[2]) + validity
    return loss + tf.sqrt(last) - tf.sqrt(validity)


def single_update(value=None):
    """The `build_updates` of one update with a moving average of the weights after it."""
    w = create_variable("w", [1.0, 1.0, 1.0])
    average = create_variable("average", [0.0, 0.0, 0.0])

    def build_updates(run, validity):
        def move():
            return average.assign(0.5 * average.read_value() + 0.5 * w.read_value()).op

        return run.minimize(fallible_loss(w, validity, value), [w], after=move)

    return build_updates


def sequential_updates(invalid, names):
    """The `build_updates` of several updates, each after the one before it.

    Args:
        invalid: the number of the update that is not finite where validity is 0, or None.
        names: the variable that each update changes.
    """
    variables = {name: create_variable(name, [1.0, 1.0, 1.0]) for name in sorted(set(names))}

    def build_updates(run, validity):
        ops = []
        for number, name in enumerate(names):
            is_last = number == len(names) - 1
            with tf.control_dependencies(ops[-1:]):
                w = variables[name]
                loss = fallible_loss(
                    w.read_value(), validity if number == invalid else tf.constant(1.0)
                )
                update = run.gradients(loss, [w], name)
                ops.append(run.apply([update], advance_step=is_last))
        return ops[-1]

    return build_updates


def check_refusal(step, policy):
    """A refused step changes nothing but counters, and the step after it is made."""
    assert step.make_step()
    before = step.variables
    assert step.make_step(0.0) == (policy == "skip")
    after = step.variables
    if policy == "stop":
        assert not changes(before, after)
    else:
        assert set(changes(before, after)) == {"global_step", "toolkit/skipped_steps"}
        assert (after["global_step"], after["toolkit/skipped_steps"]) == (2, 1)
    assert step.make_step()
    assert step.variables["global_step"] == after["global_step"] + 1
    assert step.variables != after


def check_changes_of_invalid_step(step, policy):
    """A refused step changes the counters if steps are skipped, and nothing else."""
    before = step.variables
    step.make_step(0.0)
    expected = set() if policy == "stop" else {"global_step", "toolkit/skipped_steps"}
    assert set(changes(before, step.variables)) == expected


@ONLY_2
@policies
@pytest.mark.parametrize("value", [None, INF, float("nan")], ids=["gradient", "inf", "nan"])
def test_a_compiled_step_that_is_not_finite_changes_no_weight_slot_or_average(policy, value):
    with CompiledStep(single_update(value), on_nonfinite=policy) as step:
        check_refusal(step, policy)


@ONLY_2
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "rmsprop", "adagrad", "ftrl", "adadelta"])
def test_a_compiled_step_is_refused_as_a_whole_with_any_optimizer(optimizer):
    with CompiledStep(single_update(), on_nonfinite="skip", optimizer=optimizer) as step:
        check_refusal(step, "skip")


@ONLY_2
@policies
@pytest.mark.parametrize("options", [{"accumulate": 2}, {"weight_decay": 0.1, "clip": "norm"}])
def test_a_compiled_step_that_is_not_finite_changes_no_sum_of_gradients(policy, options):
    with CompiledStep(single_update(), on_nonfinite=policy, **options) as step:
        if "accumulate" in options:
            assert step.make_step()
            step.make_step()  # so that the sums are not zero
            assert step.make_step()
            assert any(step.variables["toolkit/accumulated/w"])
        check_changes_of_invalid_step(step, policy)


@ONLY_2
@pytest.mark.parametrize(
    "validity, updates", [((1, 1, 1), (0, 1, 1)), ((0, 1, 1), (0, 0, 1)), ((1, 0, 1), (0, 0, 1))]
)
def test_a_compiled_step_that_is_skipped_does_not_change_the_accumulated_mean(validity, updates):
    options = {"optimizer": "sgd", "learning_rate": 1.0, "clip": "none", "accumulate": 2}
    with CompiledStep(single_update(INF), on_nonfinite="skip", **options) as step:
        for is_valid, count in zip(validity, updates):
            step.make_step(float(is_valid))
            # From (1, 1, 1) by the gradient (1, 2, 3).
            assert step.variables["w"] == [1 - count, 1 - 2 * count, 1 - 3 * count]


@ONLY_2
@policies
def test_compiled_updates_that_are_applied_together_are_all_refused_if_one_is_not_finite(policy):
    a, b = create_variable("a", [1.0, 1.0, 1.0]), create_variable("b", [1.0, 1.0, 1.0])

    def build_updates(run, validity):
        updates = [
            run.gradients(fallible_loss(a, tf.constant(1.0)), [a], "a"),
            run.gradients(fallible_loss(b, validity), [b], "b"),
        ]
        return run.apply(updates)

    with CompiledStep(build_updates, on_nonfinite=policy) as step:
        check_refusal(step, policy)


@ONLY_2
@policies
@pytest.mark.parametrize(
    "names, invalid", [("abc", 0), ("abc", 1), ("abc", 2), ("aab", 2), ("aba", 2), ("aaa", 1)]
)
def test_compiled_sequential_updates_are_all_rolled_back_whichever_is_not_finite(
    policy, names, invalid
):
    with CompiledStep(sequential_updates(invalid, names), on_nonfinite=policy) as step:
        check_refusal(step, policy)


@ONLY_2
@policies
def test_compiled_state_updates_and_sums_are_rolled_back_by_a_later_update(policy):
    a, b, statistic = (create_variable(n, [1.0, 1.0, 1.0]) for n in ("a", "b", "statistic"))

    def build_updates(run, validity):
        state_update = statistic.assign_add(a.read_value(), read_value=False)
        loss = fallible_loss(a, tf.constant(1.0))
        first = run.minimize(loss, [a], "a", advance_step=False, updates=[state_update])
        with tf.control_dependencies([first]):
            return run.minimize(fallible_loss(b.read_value(), validity), [b], "b", updates=[])

    with CompiledStep(build_updates, on_nonfinite=policy, accumulate=2) as step:
        check_changes_of_invalid_step(step, policy)


def train_compiled_batch_norm(plugin, steps, **options):
    """`train_batch_norm` with XLA.

    Returns:
        The moving mean after the steps, and whether a step was refused.
    """
    plugins = Plugins(make_plugin(plugin))
    run_options = make_run(data=Spec((2,)), classes=plugins.options(), **options).options
    split = Split(np.array([[1.0, 1.0], [3.0, 3.0]], np.float32), np.array([0, 1]))

    def build(by_xla):
        with tf.Graph().as_default() as graph:
            reader = ResidentReader(split, 2)
        run = Run("train", run_options, Spec((2,)), strategy=XLA if by_xla else PLAIN)
        if not by_xla:
            return build_training(plugins, run, reader, graph, in_loop=True), reader
        plain, _ = build(by_xla=False)
        return build_compiled(plugins, run, reader, graph, plain.step_specs, max_steps=1), reader

    training, reader = build(by_xla=True)
    with training.tf_graph.as_default(), session() as tf_session:
        reader.initialize(tf_session)
        all_finite = [
            tf_session.run([training.train_op, training.loop.all_finite])[1] for _ in range(steps)
        ]
        moving_mean = tf_session.run(training.model[0].moving_mean)
        return moving_mean.tolist(), not all(all_finite)


@ONLY_2
@pytest.mark.parametrize("steps, mean", [(1, 0.2), (2, 0.38)])
def test_compiled_batch_statistics_move_once_per_step(steps, mean):
    assert train_compiled_batch_norm(WithBatchNorm, steps) == (pytest.approx([mean, mean]), False)


@ONLY_2
@policies
def test_compiled_batch_statistics_do_not_change_in_a_step_that_is_not_finite(policy):
    moving_mean, has_refusal = train_compiled_batch_norm(WithInfiniteLoss, 1, on_nonfinite=policy)
    assert (moving_mean, has_refusal) == ([0, 0], policy == "stop")


@ONLY_2
@pytest.mark.parametrize("names", ["a", "ab", "aab"])
@pytest.mark.parametrize("options", [{}, {"optimizer": "momentum", "accumulate": 2}])
def test_compiled_updates_equal_those_without_xla(names, options):
    with CompiledStep(sequential_updates(None, names), **options) as step:
        for _ in range(4):
            assert step.make_step()
        compiled_variables = step.variables
    with tf.Graph().as_default():
        run = make_run(**dict({"optimizer": "adam", "learning_rate": 0.1}, **options))
        run.global_step  # noqa: B018
        op = sequential_updates(None, names)(run, tf.constant(1.0))
        with session() as tf_session:
            for _ in range(4):
                tf_session.run(op)
            expected = read_variables(tf_session)
    assert sorted(compiled_variables) == sorted(expected)
    for name, value in expected.items():
        assert compiled_variables[name] == pytest.approx(value, rel=1e-5), name
