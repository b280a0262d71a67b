"""The updates of a step: the global step, accumulation, decay, and what a wrapper may change."""

import numpy as np
import pytest
from graph_fixtures import make_run, session
from update_fixtures import (
    INF,
    SGD,
    Own,
    WithBatchNorm,
    after_steps,
    by_object,
    changed_by,
    create_variable,
    train,
    train_batch_norm,
)

from toolkit import ToolkitError, UsageError, testing, tf
from toolkit.graph.run import step_builder_of


def test_the_index_of_a_step_is_the_number_of_steps_before_it():
    run = make_run(**SGD)
    step_builder_of(run).begin_step()
    index = run.step_index
    op = run.minimize(tf.reduce_sum(create_variable("w", [0.0])))
    with session() as tf_session:
        values = [tf_session.run([index, op])[0] for _ in range(3)]  # although the op advances it
    assert (index.dtype, values) == (tf.int64, [0, 1, 2])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda run: run.maximise, "a run has no 'maximise'. Did you mean 'minimize'?"),
        (
            lambda run: run.minimize(1.0, learning_rates=1.0),
            "run.minimize has no argument 'learning_rates'. Did you mean 'learning_rate'?",
        ),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(call, message):
    with pytest.raises((AttributeError, TypeError)) as error:
        call(make_run(**SGD))
    assert str(error.value) == message


@pytest.mark.parametrize("factor, expected", [(1.0, 5.0), (INF, 1.0)])
def test_after_runs_after_the_update_and_not_in_a_skipped_step(factor, expected):
    run, w = make_run(**dict(SGD, on_nonfinite="skip")), create_variable("w", 1.0)
    # The update changes w from 1 to 0, once; then 5 is added.
    op = run.minimize(factor * w, iter([w, w]), after=lambda: w.assign(w.read_value() + 5))
    assert after_steps(op, w) == expected


@pytest.mark.parametrize("accumulate", [1, 2])
def test_after_reads_what_the_state_updates_of_the_step_wrote(accumulate):
    run = make_run(**dict(SGD, accumulate=accumulate))
    w, average, seen = (create_variable(name, 0.0) for name in ("w", "average", "seen"))
    one = tf.reduce_max(tf.linalg.expm(tf.zeros([300, 300])))  # which takes a while
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, average.assign_add(one, read_value=False))
    op = run.minimize(w, [w], after=lambda: seen.assign(average.read_value()))
    assert after_steps(op, seen, steps=accumulate) == accumulate


# The gradients are 1, 3, 5, 7; their means (1 + 3) / 2 = 2, then (5 + 7) / 2 = 6. Clipped alone, 1
# and 3 would be 1 and 1.5, with the mean 1.25.
@pytest.mark.parametrize(
    "steps, clip, w",
    [*[(n, "none", w) for n, w in enumerate([0, -2, -2, -8], 1)], (2, "value", -1.5)],
)
def test_two_accumulated_steps_make_one_update_by_the_mean_gradient_that_is_clipped(steps, clip, w):
    options = {"accumulate": 2, "clip": clip, "clip_limit": 1.5}
    step = tf.cast(tf.train.get_or_create_global_step().read_value(), tf.float32)
    loss = tf.reduce_sum(create_variable("w", [0.0]) * (2 * step + 1))
    assert train(loss, steps, **options) == {"w": [w]}


def test_state_is_updated_in_each_step_that_changes_a_variable_and_does_not_only_accumulate():
    a, b, state = (create_variable(name, 0.0) for name in ("a", "b", "state"))
    run = make_run(**dict(SGD, accumulate=3))
    run.update_state(lambda: state.assign_add(1.0, read_value=False))
    op = tf.no_op()
    for _ in range(2):  # a changes in the steps 2, 3, 5, 6, and b in 3 and 6
        with tf.control_dependencies([op]):
            op = run.minimize(a.read_value(), [a], "a", advance_step=False)
    with tf.control_dependencies([op]):
        op = run.minimize(b.read_value(), [b], "b")
    op = step_builder_of(run).finish(op, {})
    assert [after_steps(op, state, steps) for steps in (1, 2, 3, 6)] == [0, 1, 2, 4]


# The gradient is 1 in each step that is good; Good, Bad: whether a step's gradient is finite.
@pytest.mark.parametrize(
    "accumulate, steps, w",
    [
        (1, "BGG", [0, -1, -2]),
        (2, "GGGG", [0, -1, -1, -2]),
        (2, "BGGG", [0, 0, -1, -1]),
        (2, "GBGG", [0, 0, -1, -1]),
        (3, "GGBGGGG", [0, 0, 0, -1, -1, -1, -2]),
        (2, "BBBB", [0, 0, 0, 0]),
        (3, "GBBGBG", [0, 0, 0, 0, 0, -1]),
    ],
)
def test_a_skipped_step_does_not_change_the_mean_of_those_that_accumulate(accumulate, steps, w):
    variable, is_good = create_variable("w", [0.0]), tf.placeholder(tf.float32, [])
    run = make_run(**dict(SGD, accumulate=accumulate, on_nonfinite="skip"))
    op = run.minimize(tf.reduce_sum(variable) + tf.log(is_good))
    with session() as tf_session:
        values = []
        for letter in steps:
            tf_session.run(op, {is_good: float(letter == "G")})
            values.append(tf_session.run(variable)[0])
    assert values == w


def test_two_updates_of_a_name_in_a_step_are_two_gradients_of_its_mean():
    # Each step has the gradients 1 and 3 of "player", and of "pair" those together: every update is
    # by their mean, 2. Those of "other" are 1, one in a step.
    run = make_run(**dict(SGD, accumulate=2))
    w, v, u = (create_variable(name, 0.0) for name in "wvu")
    pair = run.apply([run.gradients(k * u, [u], "pair") for k in (1.0, 3.0)], advance_step=False)
    first = run.minimize(1.0 * w, [w], "player", advance_step=False)
    with tf.control_dependencies([first]):
        second = run.minimize(3.0 * w, [w], "player", advance_step=False)
    with tf.control_dependencies([second, pair]):
        op = run.minimize(1.0 * v, [v], "other")
    assert step_builder_of(run).update_counts == {"pair": 2, "player": 2, "other": 1}
    with session() as tf_session:
        values = [tf_session.run([op, w, v]) and tf_session.run([w, v, u]) for _ in range(4)]
    assert values == [[-2, 0, -2], [-4, -1, -4], [-6, -1, -6], [-8, -2, -8]]


@pytest.mark.parametrize(
    "names, sets, variable", [(("a", "b"), ("wv", "w"), "w"), (("a", "a"), ("w", "wv"), "v")]
)
def test_updates_that_would_mix_their_accumulated_gradients_are_refused(names, sets, variable):
    variables = {name: create_variable(name, 1.0) for name in "wv"}
    loss = variables["w"] * variables["v"]
    run = make_run(**dict(SGD, accumulate=2))
    run.gradients(loss, [variables[name] for name in sets[0]], names[0])
    with pytest.raises(ToolkitError, match=f"would mix .* at the variable '{variable}'"):
        run.gradients(loss, [variables[name] for name in sets[1]], names[1])


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_weight_decay_shrinks_matrices_apart_from_the_gradient_and_no_vectors(dtype):
    ones = {name: tf.ones(shape, dtype) for name, shape in (("w", [1, 1]), ("b", [1]))}
    w, b = (tf.get_variable(name, initializer=value) for name, value in ones.items())
    weights = train(tf.reduce_sum(w) + 0 * tf.reduce_sum(b), learning_rate=0.1, weight_decay=0.5)
    # 1 - 0.1 x 1 = 0.9, and 0.1 x 0.5 of that is subtracted.
    assert weights == {"w": [[pytest.approx(0.855)]], "b": [1]}


@pytest.mark.parametrize("steps, options, mean", [(1, {}, 0.2), (2, {"accumulate": 2}, 0.38)])
def test_batch_statistics_move_once_per_step(steps, options, mean):
    # 0.9 x 0 + 0.1 x 2 = 0.2; after another step 0.9 x 0.2 + 0.2 = 0.38.
    assert train_batch_norm(WithBatchNorm, steps, **options)[0] == pytest.approx([mean, mean])


def test_updates_that_are_applied_together_all_use_the_old_values():
    run = make_run(**SGD)
    a, b = create_variable("a", 1.0), create_variable("b", 2.0)
    # The gradient of each variable is the value of the other.
    op = run.apply([run.gradients(a * b, [a], "a"), run.gradients(a * b, [b], "b")])
    assert after_steps(op, [a, b, run.global_step]) == [1 - 2, 2 - 1, 1]


def test_updates_of_one_name_share_an_optimizer_and_its_slots():
    run = make_run(optimizer="adam")
    w = create_variable("w", 1.0)
    first = run.minimize(3.0 * w, [w], "player", advance_step=False)
    with tf.control_dependencies([first]):
        run.minimize(3.0 * w.read_value(), [w], "player")
    names = {v.op.name for v in tf.global_variables()}
    assert {"w/Adam", "w/Adam_1"} == {n for n in names if n.startswith("w/")}
    assert {n for n in names if "beta1" in n} == {"optimizer/player/beta1_power"}


def negate(gradients, variables, name):
    return [-gradient for gradient in gradients]


def add_one(gradients, variables, name):
    return [gradients[0] + 1]


@pytest.mark.parametrize(
    "options, functions, steps, value",
    [
        # After they are clipped.
        ({"clip": "value", "clip_limit": 1.0}, [lambda g, v, name: [5 * g[0]]], 1, [-5, 2.5]),
        # One function after the other.
        ({}, [negate, add_one], 1, [2, -1.5]),
        # The mean of accumulated gradients, once.
        ({"accumulate": 2}, [add_one], 4, [-8, -1]),
    ],
)
def test_gradients_are_changed_after_they_are_clipped(options, functions, steps, value):
    w = create_variable("w", [0.0, 0.0])
    run = make_run(**dict(SGD, **options))
    for function in functions:
        run.change_gradients(function)
    assert train(tf.reduce_sum(w * [3.0, -0.5]), steps, run)["w"] == value


def test_each_update_of_a_step_has_a_name_of_its_own():
    names, w = [], create_variable("w", [0.0])

    def note(gradients, variables, name):
        names.append(name)
        assert [v.op.name for v in variables] == ["w"]
        return gradients

    run, loss = make_run(**SGD), tf.reduce_sum(w)
    run.change_gradients(note)
    run.apply([run.gradients(loss, name="a"), run.gradients(loss, name="a")], advance_step=False)
    run.minimize(loss, name="b")
    assert sorted(set(names)) == ["a", "a/1", "b"]


def test_the_guard_judges_the_gradients_of_the_loss():
    w = create_variable("w", [0.0])
    run = make_run(**dict(SGD, on_nonfinite="skip"))
    run.change_gradients(lambda g, v, name: [tf.zeros_like(g[0])])
    assert changed_by(run.minimize(tf.reduce_sum(w) * INF))["toolkit/skipped_steps"] == 1


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda g, v, name: g[0], "expected a list of 1 tensors"),
        (lambda g, v, name: [], "expected a list of 1 tensors"),
        (lambda g, v, name: [tf.zeros([3])], r"returned a gradient \(3,\) for 'w' \(1,\)"),
    ],
)
def test_other_results_are_refused(function, message):
    run, w = make_run(**SGD), create_variable("w", [0.0])
    run.change_gradients(function)
    with pytest.raises(ToolkitError, match=message):
        run.minimize(tf.reduce_sum(w))


def test_the_rate_is_changed_with_the_full_rate_and_the_step():
    w = create_variable("w", [0.0])
    options = {"learning_rate": 0.5, "schedule": "step", "decay_steps": 1, "decay_rate": 0.5}

    def sum_of_all(rate, full_rate, step):
        return rate + 10 * full_rate + 100 * tf.cast(step, tf.float32)

    run = make_run(**dict(SGD, **options))
    run.change_learning_rate(sum_of_all)
    assert np.allclose(train(tf.reduce_sum(w), 2, run)["w"], -(5.5 + (0.25 + 5 + 100)))
    run = make_run(**SGD)
    run.change_learning_rate(lambda rate, full_rate, step: 2 * full_rate)
    op = run.minimize(tf.reduce_sum(w), learning_rate=0.25)  # that of one player
    assert after_steps(op, w) == [-0.5]


@pytest.mark.parametrize("method", ["change_gradients", "change_learning_rate"])
def test_a_change_after_the_updates_or_in_another_mode_is_refused(method):
    run = make_run(**SGD)
    run.minimize(tf.reduce_sum(create_variable("w", [0.0])))
    with pytest.raises(ToolkitError, match=f"run.{method} was called after the step's updates"):
        getattr(run, method)(negate)
    with pytest.raises(ToolkitError, match=f"{method} was called in mode 'eval'"):
        getattr(make_run("eval"), method)(negate)
    with pytest.raises(ToolkitError, match="minimize was called in mode 'eval'"):
        make_run("eval").minimize(tf.constant(1.0), tf.trainable_variables())
    with pytest.raises(ToolkitError, match="after_restore was called in mode 'train'"):
        run.after_restore(tf.no_op)


by_descent = by_object(lambda: tf.train.GradientDescentOptimizer(0.1))


@pytest.mark.parametrize(
    "extension, plugin, message",
    [
        ("lr-finder", by_descent, "'optimize.rise' of toolkit_extensions.lr_finder has no effect"),
        ("gradient-noise", Own, "of toolkit_extensions.gradient_noise has no effect"),
    ],
)
def test_a_change_that_no_update_takes_is_refused(data, extension, plugin, message):
    options = {"data": data, "steps": 100, "batch_size": 8, "evaluate": "no"}
    with pytest.raises(UsageError, match=message):
        testing.train(plugin, "run", [extension], **options)
