"""The updates of a step: the global step, accumulation, weight decay and state updates."""

from __future__ import annotations

import pytest
from graph_fixtures import make_run, session
from update_fixtures import INF, SGD, WithBatchNorm, create_variable, train, train_batch_norm

from toolkit import ToolkitError, tf
from toolkit.graph.replica import Replica
from toolkit.graph.run import Run, step_builder_of

pytestmark = pytest.mark.usefixtures("graph")


# --------------------------------------------------------------------------------------- one update


def test_the_global_step_advances_by_one():
    run = make_run(**SGD)
    op = run.minimize(tf.reduce_sum(create_variable("w", [0.0])))
    with session() as tf_session:
        tf_session.run([op, op])
        tf_session.run(op)
        assert tf_session.run(run.global_step) == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_replica_is_the_chief(rank):
    options = make_run(**SGD).options
    assert Run("train", options, replica=Replica(rank, 2, 64)).is_chief is (rank == 0)


def test_the_index_of_a_step_is_the_number_of_steps_before_it():
    run = make_run(**SGD)
    step_builder_of(run).begin_step()
    index = run.step_index
    op = run.minimize(tf.reduce_sum(create_variable("w", [0.0])))
    with session() as tf_session:
        values = [tf_session.run([index, op])[0] for _ in range(3)]  # although the op advances it
    assert (index.dtype, values) == (tf.int64, [0, 1, 2])


def test_the_first_of_two_updates_can_leave_the_global_step_unchanged():
    run = make_run(**SGD)
    a, b = create_variable("a", [0.0]), create_variable("b", [0.0])
    first = run.minimize(tf.reduce_sum(a), [a], advance_step=False)
    with tf.control_dependencies([first]):
        both = run.minimize(tf.reduce_sum(b), [b])
    with session() as tf_session:
        tf_session.run(both)
        assert tf_session.run([run.global_step, a, b]) == [1, [-1], [-1]]


def test_a_loss_that_depends_on_no_variable_is_refused():
    with pytest.raises(ToolkitError, match="depends on none of the variables"):
        make_run(**SGD).minimize(tf.constant(1.0), [create_variable("w", [0.0])])


def test_a_variable_that_the_loss_does_not_depend_on_does_not_change():
    w, other = create_variable("w", [0.0]), create_variable("other", [5.0])
    assert train(tf.reduce_sum(w)) == {"w": [-1], "other": [5]}
    assert other is not None


def test_minimize_is_refused_outside_of_training():
    with pytest.raises(ToolkitError, match="minimize was called in mode 'eval'"):
        make_run("eval").minimize(tf.constant(1.0))


def test_after_runs_after_the_update_and_not_in_a_skipped_step():
    for factor, expected in ((1.0, 5.0), (INF, 1.0)):
        with tf.Graph().as_default():
            run = make_run(**dict(SGD, on_nonfinite="skip"))
            w = create_variable("w", 1.0)
            # The update changes w from 1 to 0; then 5 is added.
            op = run.minimize(factor * w, [w], after=lambda w=w: w.assign(w.read_value() + 5))
            with session() as tf_session:
                tf_session.run(op)
                assert tf_session.run(w) == expected


# ----------------------------------------------------------------------- accumulation, weight decay


def rising_loss(w):
    """A loss whose gradient is 1 in step 0, 3 in step 1, 5 in step 2, 7 in step 3."""
    step = tf.cast(tf.train.get_or_create_global_step().read_value(), tf.float32)
    return tf.reduce_sum(w * (2 * step + 1))


@pytest.mark.parametrize("steps, w", [(1, 0), (2, -2), (3, -2), (4, -8)])
def test_two_accumulated_steps_make_one_update_by_the_mean_gradient(steps, w):
    # Means: (1 + 3) / 2 = 2, then (5 + 7) / 2 = 6.
    assert train(rising_loss(create_variable("w", [0.0])), steps, accumulate=2) == {"w": [w]}


# The gradient is 1 in each step that is good; Good, Bad: whether a step's gradient is finite.
@pytest.mark.parametrize(
    "accumulate, steps, w",
    [
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
    # Each step has the gradients 1 and 3 of "player": every update is by their mean, 2. Those of
    # "other" are 1, one in a step.
    run = make_run(**dict(SGD, accumulate=2))
    w, v = create_variable("w", 0.0), create_variable("v", 0.0)
    first = run.minimize(1.0 * w, [w], "player", advance_step=False)
    with tf.control_dependencies([first]):
        second = run.minimize(3.0 * w, [w], "player", advance_step=False)
    with tf.control_dependencies([second]):
        op = run.minimize(1.0 * v, [v], "other")
    assert step_builder_of(run).update_counts == {"player": 2, "other": 1}
    with session() as tf_session:
        values = [tf_session.run([op, w, v]) and tf_session.run([w, v]) for _ in range(4)]
    assert values == [[-2, 0], [-4, -1], [-6, -1], [-8, -2]]


def test_a_smaller_number_of_steps_applies_the_mean_of_all_that_were_added():
    # As if a run continued with --accumulate 2 after three steps of --accumulate 4.
    op = make_run(**dict(SGD, accumulate=2)).minimize(rising_loss(create_variable("w", [0.0])))
    variables = {v.op.name: v for v in tf.global_variables()}
    with session() as tf_session:
        variables["toolkit/accumulated/w"].load([8.0], tf_session)
        variables["toolkit/accumulated_count"].load(3, tf_session)
        tf_session.run(op)
        values = tf_session.run([variables["w"], variables["toolkit/accumulated_count"]])
    assert values == [[-9 / 4], 0]


@pytest.mark.parametrize(
    "names, sets, variable",
    [(("a", "b"), ("wv", "w"), "w"), (("a", "a"), ("w", "wv"), "v")],
)
def test_updates_that_would_mix_their_accumulated_gradients_are_refused(names, sets, variable):
    variables = {name: create_variable(name, 1.0) for name in "wv"}
    loss = variables["w"] * variables["v"]
    run = make_run(**dict(SGD, accumulate=2))
    run.gradients(loss, [variables[name] for name in sets[0]], names[0])
    with pytest.raises(ToolkitError, match=f"would mix .* at the variable '{variable}'"):
        run.gradients(loss, [variables[name] for name in sets[1]], names[1])


def test_the_mean_gradient_is_clipped_not_its_parts():
    # Clipped alone, the gradients 1 and 3 would be 1 and 1.5, with the mean 1.25.
    weights = train(
        rising_loss(create_variable("w", [0.0])), 2, accumulate=2, clip="value", clip_limit=1.5
    )
    assert weights == {"w": [-1.5]}


def test_accumulated_gradients_are_in_the_checkpoint():
    make_run(**dict(SGD, accumulate=2)).minimize(tf.reduce_sum(create_variable("w", [0.0])))
    names = {v.op.name for v in tf.global_variables()}
    assert {"toolkit/accumulated/w", "toolkit/accumulated_count"} <= names


def test_weight_decay_shrinks_matrices_and_leaves_vectors_unchanged():
    w, b = create_variable("w", [[1.0]]), create_variable("b", [1.0])
    loss = 0 * tf.reduce_sum(w) + 0 * tf.reduce_sum(b)
    weights = train(loss, learning_rate=0.1, weight_decay=0.5)
    assert weights == {"w": [[pytest.approx(0.95)]], "b": [1]}  # 1 - 0.1 x 0.5 x 1


def test_weight_decay_is_separate_from_the_gradient():
    # 1 - 0.1 x 1 = 0.9, and 0.1 x 0.5 of that is subtracted.
    weights = train(
        tf.reduce_sum(create_variable("w", [[1.0]])), learning_rate=0.1, weight_decay=0.5
    )
    assert weights == {"w": [[pytest.approx(0.855)]]}


# ------------------------------------------------------------------------------------ state updates


def test_batch_statistics_move_once_per_step():
    # 0.9 x 0 + 0.1 x 2 = 0.2; after another step 0.9 x 0.2 + 0.2 = 0.38.
    assert train_batch_norm(WithBatchNorm, 1)[0] == pytest.approx([0.2, 0.2])


def test_batch_statistics_move_twice_in_two_steps():
    assert train_batch_norm(WithBatchNorm, 2)[0] == pytest.approx([0.38, 0.38])


def test_batch_statistics_move_in_each_step_of_an_accumulation():
    assert train_batch_norm(WithBatchNorm, 2, accumulate=2)[0] == pytest.approx([0.38, 0.38])


# ---------------------------------------------------------------------- several updates in one step


def test_updates_that_are_applied_together_all_use_the_old_values():
    run = make_run(**SGD)
    a, b = create_variable("a", 1.0), create_variable("b", 2.0)
    # The gradient of each variable is the value of the other.
    updates = [run.gradients(a * b, [a], "a"), run.gradients(a * b, [b], "b")]
    op = run.apply(updates)
    with session() as tf_session:
        tf_session.run(op)
        assert tf_session.run([a, b, run.global_step]) == [1 - 2, 2 - 1, 1]


def test_updates_of_one_name_share_an_optimizer_and_its_slots():
    run = make_run(optimizer="adam")
    w = create_variable("w", 1.0)
    first = run.minimize(3.0 * w, [w], "player", advance_step=False)
    with tf.control_dependencies([first]):
        run.minimize(3.0 * w.read_value(), [w], "player")
    names = {v.op.name for v in tf.global_variables()}
    assert {"w/Adam", "w/Adam_1"} == {n for n in names if n.startswith("w/")}
    assert {n for n in names if "beta1" in n} == {"optimizer/player/beta1_power"}


def test_an_update_can_have_its_own_learning_rate():
    run = make_run(**SGD)
    a, b = create_variable("a", 0.0), create_variable("b", 0.0)
    updates = [
        run.gradients(1.0 * a, [a], "a"),
        run.gradients(1.0 * b, [b], "b", learning_rate=0.5),
    ]
    op = run.apply(updates)
    with session() as tf_session:
        tensors = [run.logged["a/learning_rate"], run.logged["b/learning_rate"]]
        assert tf_session.run(tensors) == [1.0, 0.5]
        tf_session.run(op)
        assert tf_session.run([a, b]) == [-1, -0.5]
