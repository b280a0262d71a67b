"""The non-finite guard: a step whose loss or gradient is not finite changes no variable."""

import contextlib
import functools

import pytest
from graph_fixtures import Spec, make_run, session
from update_fixtures import (
    INF,
    ONLY_2,
    SGD,
    WithInfiniteLoss,
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


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_batch_statistics_do_not_change_in_a_step_that_is_not_finite(policy):
    assert train_batch_norm(WithInfiniteLoss, 1, on_nonfinite=policy) == ([0, 0], policy == "stop")


def two_players(run):
    a, b = create_variable("a", 1.0), create_variable("b", 1.0)
    losses = {"generator": (3.0 * a, a), "discriminator": (INF * b, b)}
    return run.apply([run.gradients(loss, [w], name) for name, (loss, w) in losses.items()])


def error_message(op):
    """The message of the error that an op raises in a session."""
    with session() as tf_session, pytest.raises(tf.errors.InvalidArgumentError) as error:
        tf_session.run(op)
    return error.value.message


@pytest.mark.parametrize(
    "build, refusal, text",
    [
        (
            two_players,
            [GuardValues("generator", "3", "3"), GuardValues("discriminator", "inf", "inf")],
            "discriminator: loss inf, gradient norm inf",
        ),
        (
            lambda run: run.minimize(tf.sqrt(create_variable("w", 0.0))),
            [GuardValues("", "0", "inf")],
            "loss 0, gradient norm inf",
        ),
    ],
    ids=["two updates", "no name"],
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


ADAM = {"optimizer": "adam", "learning_rate": 0.1}


@contextlib.contextmanager
def plain_step(build_updates, **options):
    """A function that makes a step of Adam, and returns whether training goes on and the variables.

    `build_updates(run, validity)` adds the updates of the step and returns the op of the last one;
    `validity`, which the function takes, is 1, or 0 in a step that the guard has to refuse.
    """
    run = make_run(**dict(ADAM, **options))
    run.global_step  # noqa: B018 - created before the step, as the core does
    fed_validity = tf.placeholder(tf.float32, [])
    op = build_updates(run, fed_validity)
    with session() as tf_session:

        def make_step(validity=1.0):
            try:
                tf_session.run(op, {fed_validity: validity})
            except tf.errors.InvalidArgumentError as error:
                assert NOT_FINITE in error.message
                return False, read_variables(tf_session)
            return True, read_variables(tf_session)

        yield make_step


@contextlib.contextmanager
def compiled_step(build_updates, **options):
    """The same with a step that XLA compiles, whose guard selects values."""
    run = Run("train", make_run(**dict(ADAM, **options)).options, Spec(), strategy=XLA)
    run.global_step  # noqa: B018
    fed_validity = tf.placeholder(tf.float32, [])

    def build_step(validity):
        builder = step_builder_of(run)
        builder.begin_step()
        with tf.control_dependencies([build_updates(run, validity)]):
            finite = builder.all_finite
            return [tf.identity(tf.constant(True) if finite is None else finite)]

    (continues,) = compile_with_xla(build_step, [fed_validity])
    with session() as tf_session:

        def make_step(validity=1.0):
            value = tf_session.run(continues, {fed_validity: validity})
            return bool(value), read_variables(tf_session)

        yield make_step


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

    `invalid` are the numbers of the updates that are not finite where validity is 0.
    """
    variables = {name: create_variable(name, [1.0, 1.0, 1.0]) for name in sorted(set(names))}

    def build_updates(run, validity):
        ops = []
        for number, name in enumerate(names):
            is_last = number == len(names) - 1
            with tf.control_dependencies(ops[-1:]):
                w = variables[name]
                fault = validity if number in invalid else tf.constant(1.0)
                update = run.gradients(fallible_loss(w.read_value(), fault), [w], name)
                ops.append(run.apply([update], advance_step=is_last))
        return ops[-1]

    return build_updates


def updates_with_state(has_after=True):
    """The `build_updates` of two updates; the first has a state update, and one after it or not."""
    a, b, statistic, seen = (create_variable(n, [1.0, 1.0, 1.0]) for n in "abcd")

    def build_updates(run, validity):
        state_update = statistic.assign_add(a.read_value(), read_value=False)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, state_update)
        loss = fallible_loss(a, tf.constant(1.0))
        after = functools.partial(seen.assign, [7.0, 7.0, 7.0], read_value=False)
        options = {"advance_step": False, "after": after if has_after else None}
        first = run.minimize(loss, [a], "a", **options)
        with tf.control_dependencies([first]):
            return run.minimize(fallible_loss(b.read_value(), validity), [b], "b")

    return build_updates


REFUSALS = {
    "gradient": (lambda: single_update(), "skip", 1),
    "nan": (lambda: single_update(float("nan")), "stop", 1),
    "together": (updates_together, "skip", 1),
    "abc": (lambda: sequential_updates([1], "abc"), "skip", 1),
    "aab": (lambda: sequential_updates([2], "aab"), "skip", 1),
    "aba": (lambda: sequential_updates([2], "aba"), "stop", 1),
    "two of abc": (lambda: sequential_updates([0, 2], "abc"), "skip", 1),
    "state": (lambda: updates_with_state(has_after=False), "skip", 1),
    "state and sums": (updates_with_state, "skip", 2),
}


def check_refusal(form, build, policy, accumulate):
    """A refused step changes nothing but counters, once, and the step after it is made."""
    with form(build(), on_nonfinite=policy, accumulate=accumulate) as make_step:
        (is_first_made, before), (goes_on, after) = make_step(), make_step(0.0)
        assert is_first_made and goes_on == (policy == "skip")
        counters = {"global_step": 2, "toolkit/skipped_steps": 1} if goes_on else {}
        assert changes(before, after) == counters
        is_made, variables = make_step()
        assert is_made and variables["global_step"] == after["global_step"] + 1


@pytest.mark.parametrize("name", REFUSALS)
def test_a_step_is_refused_as_a_whole_whichever_update_is_not_finite(name):
    check_refusal(plain_step, *REFUSALS[name])


@ONLY_2
@pytest.mark.parametrize("name", REFUSALS)
def test_a_compiled_step_is_refused_as_a_whole_whichever_update_is_not_finite(name):
    check_refusal(compiled_step, *REFUSALS[name])


@ONLY_2
@pytest.mark.parametrize("valid, updates", [((1, 1, 0, 1), (0, 1, 1, 1)), ((0, 1, 1), (0, 0, 1))])
def test_a_compiled_step_that_is_skipped_does_not_change_the_accumulated_mean(valid, updates):
    options = dict(SGD, accumulate=2, on_nonfinite="skip")
    with compiled_step(single_update(INF), **options) as make_step:
        for is_valid, count in zip(valid, updates):
            # From (1, 1, 1) by the gradient (1, 2, 3).
            assert make_step(float(is_valid))[1]["w"] == [1 - count, 1 - 2 * count, 1 - 3 * count]


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
@pytest.mark.parametrize("build", [lambda: sequential_updates([], "aab"), two_passes])
def test_compiled_updates_equal_those_without_xla(build):
    last = []
    for form in (plain_step, compiled_step):
        with tf.Graph().as_default(), form(build()) as make_step:
            last.append([make_step()[1] for _ in range(4)][-1])
    expected, compiled_variables = last
    assert sorted(compiled_variables) == sorted(expected)
    for name, value in expected.items():
        assert compiled_variables[name] == pytest.approx(value, rel=1e-5), name
