"""The non-finite guard: a step whose loss or gradient is not finite changes no variable."""

import pytest
from graph_fixtures import Spec, make_run, session
from update_fixtures import (
    INF,
    ONLY_2,
    SGD,
    WithInfiniteLoss,
    after_steps,
    changed_by,
    changes,
    create_variable,
    read_variables,
    train_batch_norm,
)

from toolkit import Run, tf
from toolkit.compat import compile_with_xla
from toolkit.graph.guard import NOT_FINITE, GuardValues, describe_refusal, read_refusal
from toolkit.graph.run import step_builder_of
from toolkit.graph.step_strategy import XLA

# ------------------------------------------------------------------------------------- by condition


def half_infinite_loss():
    """The loss a + sqrt(b) = 1 at a = 1, b = 0: finite, but its gradient in b is infinite."""
    a, b = create_variable("a", [1.0]), create_variable("b", [0.0])
    return tf.reduce_sum(a + tf.sqrt(b))


def check_stop(op):
    """A step is refused and changes nothing; returns the variables."""
    with session() as tf_session:
        before = read_variables(tf_session)
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
            tf_session.run(op)
        assert read_variables(tf_session) == before
    return before


def test_an_infinite_gradient_stops_training_and_leaves_weights_slots_and_step_unchanged():
    op = make_run(optimizer="adam", on_nonfinite="stop").minimize(half_infinite_loss())
    assert {"a/Adam", "b/Adam_1", "global_step"} <= set(check_stop(op))


def test_a_step_with_an_infinite_gradient_is_skipped_and_counted():
    op = make_run(optimizer="adam", on_nonfinite="skip").minimize(half_infinite_loss())
    assert changed_by(op, 2) == {"global_step": 2, "toolkit/skipped_steps": 2}


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_batch_statistics_do_not_change_in_a_step_that_is_not_finite(policy):
    assert train_batch_norm(WithInfiniteLoss, 1, on_nonfinite=policy) == ([0, 0], policy == "stop")


# ---------------------------------------------------------------------- several updates in one step


def product_update(run, name, factor):
    """An update for the loss factor * w of its own variable w, which starts at 1, and w."""
    with tf.init_scope():
        w = create_variable(name, 1.0)
    return run.gradients(factor * w, [w], name), w


def apply_together(run, factors):
    """A step with one product update per name, all at once; returns its op and the variables."""
    updates, variables = zip(*(product_update(run, *pair) for pair in factors.items()))
    return run.apply(list(updates)), list(variables)


def apply_in_sequence(run, factors):
    """A step with one product update per factor, each after the one before it."""
    ops, variables = [], []
    for number, factor in enumerate(factors):
        with tf.control_dependencies(ops[-1:]):
            update, w = product_update(run, f"w{number}", factor)
            ops.append(run.apply([update], advance_step=number == len(factors) - 1))
            variables.append(w)
    return ops[-1], variables


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_later_update_that_is_not_finite_rolls_the_earlier_ones_back(optimizer):
    run = make_run(optimizer=optimizer, on_nonfinite="stop")
    check_stop(apply_in_sequence(run, [1.0, 2.0, INF])[0])


@pytest.mark.parametrize(
    "apply, factors",
    [
        (apply_together, {"a": 1.0, "b": INF}),
        (apply_in_sequence, [INF, 1.0, 1.0]),
        (apply_in_sequence, [1.0, INF, 1.0]),
        (apply_in_sequence, [INF, 1.0, INF]),
    ],
)
def test_a_skipped_step_refuses_all_its_updates_and_counts_once(apply, factors):
    run = make_run(**dict(SGD, on_nonfinite="skip"))
    op, variables = apply(run, factors)
    values = after_steps(op, [variables, step_builder_of(run).counters])
    assert values == [[1] * len(factors), {"skipped_steps": 1}]


@pytest.mark.parametrize("accumulate", [2, 1])
def test_state_updates_sums_and_what_runs_after_an_update_are_rolled_back_too(accumulate):
    run = make_run(**dict(SGD, on_nonfinite="skip", accumulate=accumulate))
    a, seen, statistic = create_variable("a", 1.0), *[create_variable(n, 0.0) for n in "st"]
    state_update = statistic.assign(7.0, read_value=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, state_update)
    first = run.minimize(2.0 * a, [a], "a", advance_step=False, after=lambda: seen.assign(7.0))
    with tf.control_dependencies([first]):
        op = run.apply([product_update(run, "b", INF)[0]])
    assert changed_by(op) == {"global_step": 1, "toolkit/skipped_steps": 1}


def error_message(op):
    """The message of the error that an op raises in a session."""
    with session() as tf_session, pytest.raises(tf.errors.InvalidArgumentError) as error:
        tf_session.run(op)
    return error.value.message


@pytest.mark.parametrize(
    "build, refusal, text",
    [
        (
            lambda run: apply_together(run, {"generator": 3.0, "discriminator": INF})[0],
            [GuardValues("generator", "3", "3"), GuardValues("discriminator", "inf", "inf")],
            "discriminator: loss inf, gradient norm inf",
        ),
        (
            lambda run: apply_together(run, {"player": float("nan")})[0],
            [GuardValues("player", "nan", "nan")],
            "player: loss nan, gradient norm nan",
        ),
        (
            lambda run: run.minimize(half_infinite_loss()),
            [GuardValues("", "1", "inf")],
            "loss 1, gradient norm inf",
        ),
    ],
    ids=["two updates", "nan", "no name"],
)
def test_the_error_of_a_refusal_is_read_back_with_name_loss_and_norm(build, refusal, text):
    op = build(make_run(**dict(SGD, on_nonfinite="stop")))
    assert read_refusal(error_message(op)) == refusal
    assert describe_refusal(refusal) == text


def test_a_nan_with_a_sign_is_read_as_a_nan():
    message = f"assertion failed: [{NOT_FINITE}] [player] [-nan] [-inf]"
    assert read_refusal(message) == [GuardValues("player", "nan", "-inf")]


def test_the_message_of_another_op_is_no_refusal():
    never = tf.constant(False)
    op = tf.raw_ops.Assert(condition=never, data=["not finite", "player", INF, INF], summarize=3)
    message = error_message(op)
    assert "[not finite] [player] [inf] [inf]" in message
    assert read_refusal(message) is None


# ---------------------------------------------------------------------------- by selection, for XLA


class CompiledStep:
    """A step of Adam that XLA compiles, and a session with its variables.

    `build_updates(run, validity)` adds the updates of the step and returns the op of the last one;
    `validity` is a float32 scalar: 1, or 0 in a step that the guard has to refuse.
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
    """The loss sum(w * (1, 2, 3)); where `validity` is 0 and not 1, it has a fault.

    The fault adds `value`, or, if that is None, makes an element of the gradient infinite.
    """
    loss = tf.reduce_sum(w * [1.0, 2.0, 3.0])
    if value is not None:
        return loss + tf.where(validity > 0, 0.0, value)
    # sqrt(0) is 0, and its slope there is infinite.
    last = w[2] - tf.stop_gradient(w[2]) + validity
    return loss + tf.sqrt(last) - tf.sqrt(validity)


def single_update(value=None):
    """The `build_updates` of one update with a state update, and a moving average after it."""
    w, average, count = (create_variable(n, [x] * 3) for n, x in zip("wac", (1.0, 0.0, 0.0)))

    def build_updates(run, validity):
        def move():
            return average.assign(0.5 * average.read_value() + 0.5 * w.read_value()).op

        state_update = count.assign_add([1.0, 1.0, 1.0], read_value=False)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, state_update)
        return run.minimize(fallible_loss(w, validity, value), [w], after=move)

    return build_updates


def updates_together():
    """The `build_updates` of two updates that are applied at once."""
    a, b = create_variable("a", [1.0, 1.0, 1.0]), create_variable("b", [1.0, 1.0, 1.0])

    def build_updates(run, validity):
        finite, fallible = fallible_loss(a, tf.constant(1.0)), fallible_loss(b, validity)
        return run.apply([run.gradients(finite, [a], "a"), run.gradients(fallible, [b], "b")])

    return build_updates


def sequential_updates(invalid, names):
    """The `build_updates` of an update of each named variable after the one before it.

    `invalid` is the number of the update that is not finite where validity is 0, or None.
    """
    variables = {name: create_variable(name, [1.0, 1.0, 1.0]) for name in sorted(set(names))}

    def build_updates(run, validity):
        ops = []
        for number, name in enumerate(names):
            is_last = number == len(names) - 1
            with tf.control_dependencies(ops[-1:]):
                w = variables[name]
                fault = validity if number == invalid else tf.constant(1.0)
                update = run.gradients(fallible_loss(w.read_value(), fault), [w], name)
                ops.append(run.apply([update], advance_step=is_last))
        return ops[-1]

    return build_updates


def check_changes_of_invalid_step(step, policy):
    """A refused step changes the counters if steps are skipped, and nothing else."""
    before = step.variables
    assert step.make_step(0.0) == (policy == "skip")
    expected = set() if policy == "stop" else {"global_step", "toolkit/skipped_steps"}
    assert set(changes(before, step.variables)) == expected


def check_refusal(step, policy):
    """A refused step changes nothing but counters, and the step after it is made."""
    assert step.make_step()
    check_changes_of_invalid_step(step, policy)
    after, skipped = step.variables, int(policy == "skip")
    counts = after["global_step"], after.get("toolkit/skipped_steps", 0)
    assert counts == (1 + skipped, skipped)
    assert step.make_step()
    assert step.variables["global_step"] == after["global_step"] + 1


@ONLY_2
@pytest.mark.parametrize(
    "build, policy",
    [
        (lambda: single_update(), "skip"),
        (lambda: single_update(float("nan")), "stop"),
        (updates_together, "skip"),
        (lambda: sequential_updates(1, "abc"), "skip"),
        (lambda: sequential_updates(2, "aab"), "skip"),
        (lambda: sequential_updates(2, "aba"), "stop"),
    ],
    ids=["gradient", "nan", "together", "abc", "aab", "aba"],
)
def test_a_compiled_step_is_refused_as_a_whole_whichever_update_is_not_finite(build, policy):
    with CompiledStep(build(), on_nonfinite=policy) as step:
        check_refusal(step, policy)


@ONLY_2
@pytest.mark.parametrize("valid, updates", [((1, 1, 0, 1), (0, 1, 1, 1)), ((0, 1, 1), (0, 0, 1))])
def test_a_compiled_step_that_is_skipped_does_not_change_the_accumulated_mean(valid, updates):
    options = dict(SGD, accumulate=2, on_nonfinite="skip")
    with CompiledStep(single_update(INF), **options) as step:
        for is_valid, count in zip(valid, updates):
            step.make_step(float(is_valid))
            # From (1, 1, 1) by the gradient (1, 2, 3).
            assert step.variables["w"] == [1 - count, 1 - 2 * count, 1 - 3 * count]


@ONLY_2
def test_compiled_state_updates_and_sums_are_rolled_back_by_a_later_update():
    a, b, statistic = (create_variable(n, [1.0, 1.0, 1.0]) for n in ("a", "b", "statistic"))

    def build_updates(run, validity):
        state_update = statistic.assign_add(a.read_value(), read_value=False)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, state_update)
        loss = fallible_loss(a, tf.constant(1.0))
        first = run.minimize(loss, [a], "a", advance_step=False)
        with tf.control_dependencies([first]):
            return run.minimize(fallible_loss(b.read_value(), validity), [b], "b")

    with CompiledStep(build_updates, on_nonfinite="skip", accumulate=2) as step:
        check_changes_of_invalid_step(step, "skip")


def two_passes():
    """An update of a weight in a step of two passes, each of which updates two averages."""
    w, mean, norm = (create_variable(name, [1.0]) for name in ("w", "mean", "norm"))

    def build_updates(run, validity):
        for row in (2.0, 5.0):
            updates = [
                mean.assign_sub(0.5 * (mean.read_value() - row), read_value=False),
                norm.assign(0.5 * norm.read_value() + row, read_value=False),
            ]
            tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS).extend(updates)
        return run.minimize(tf.reduce_sum(w * mean.read_value() / norm.read_value()), [w])

    return build_updates


@ONLY_2
@pytest.mark.parametrize("build", [lambda: sequential_updates(None, "aab"), two_passes])
def test_compiled_updates_equal_those_without_xla(build):
    with CompiledStep(build()) as step:
        for _ in range(4):
            assert step.make_step()
        compiled_variables = step.variables
    with tf.Graph().as_default():
        run = make_run(optimizer="adam", learning_rate=0.1)
        run.global_step  # noqa: B018
        op = build()(run, tf.constant(1.0))
        with session() as tf_session:
            for _ in range(4):
                tf_session.run(op)
            expected = read_variables(tf_session)
    assert sorted(compiled_variables) == sorted(expected)
    for name, value in expected.items():
        assert compiled_variables[name] == pytest.approx(value, rel=1e-5), name
