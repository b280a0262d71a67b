"""Optimizers that a plugin chooses itself: by name, by a function, or as an object of tf.train or
Keras.
"""

import pytest
from graph_fixtures import make_run, session
from update_fixtures import (
    INF,
    ONLY_2,
    SGD,
    after_steps,
    by_object,
    changes,
    create_variable,
    read_variables,
    train_by_both,
)

from toolkit import Group, ToolkitError, UsageError, testing, tf

keras_decay = tf.keras.optimizers.schedules.ExponentialDecay


def values_after(steps=1, gradient=1.0, options=(), **settings):
    """The value of a variable that starts at 0 after the steps, and the logged learning rates."""
    run = make_run(**dict(SGD, **dict(options)))
    w = create_variable("w", 0.0)
    op = run.minimize(gradient * w, **settings)
    rate, rates = run.logged.get("learning_rate"), []
    with session() as tf_session:
        for _ in range(steps):
            rates.append(tf_session.run([op] if rate is None else [op, rate])[-1])
        return tf_session.run(w), rates


@pytest.mark.parametrize(
    "options, settings",
    [
        ({}, {"optimizer": "momentum", "optimizer_args": {"momentum": 0.5}}),
        ({"optimizer": "momentum"}, {"optimizer_args": {"momentum": 0.5}}),
    ],
)
def test_a_plugin_may_set_the_optimizer_and_arguments_or_these_alone(options, settings):
    # Two steps of gradient 1 with half the momentum: 1, then 1.5.
    assert values_after(2, options=options, **settings)[0] == -2.5


def test_a_named_optimizer_has_no_arguments_of_the_options():
    options = {"optimizer": "adam", "optimizer_args": {"beta1": 0.5}}
    assert values_after(2, options=options, optimizer="momentum")[0] == pytest.approx(-2.9)
    with tf.Graph().as_default(), pytest.raises(UsageError, match="'sgd' has no argument 'beta1'"):
        values_after(options=options, optimizer="sgd", optimizer_args={"beta1": 0.5})


def test_a_schedule_is_a_name_or_a_function_and_a_rate_may_be_a_tensor():
    # 1, 1/2, 1/4 of the rate 0.5.
    def halve(step, total_steps):
        assert total_steps is None
        return tf.pow(0.5, tf.cast(step, tf.float32))

    value, rates = values_after(3, learning_rate=tf.constant(0.5), schedule=halve)
    assert rates == [0.5, 0.25, 0.125] and value == -0.875
    with tf.Graph().as_default():
        options = {"decay_steps": 1, "decay_rate": 0.5}
        assert values_after(3, options=options, schedule="step")[1] == [1, 0.5, 0.25]


def test_a_schedule_that_is_not_finite_stops_before_the_update():
    with pytest.raises(tf.errors.InvalidArgumentError, match="The learning rate's schedule"):
        values_after(schedule=lambda step, total_steps: 1 / tf.cast(step, tf.float32))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"schedule": "linear"}, "There is no schedule 'linear'"),
        ({"schedule": lambda step, total: "half"}, "A schedule returned 'half', expected a number"),
        ({"schedule": lambda step, total: [1.0, 2.0]}, "returned the shape \\(2,\\), expected a"),
        ({"optimizer": 3}, "The optimizer builtins.int is no optimizer that works in a graph"),
        ({"optimizer": lambda rate: rate}, "function 'optimizer' of the update returned .*Tensor"),
        ({"learning_rate": "fast"}, "For the update, learning_rate is 'fast'"),
        ({"learning_rate": -0.1}, "For the update, learning_rate is -0.1"),
        ({"groups": ["*:frozen"]}, "For the update, groups is \\['\\*:frozen'\\]"),
    ],
)
def test_settings_that_contradict_are_refused_in_one_sentence(settings, message):
    with pytest.raises(UsageError, match=message):
        values_after(**settings)


class OwnDescent(tf.train.Optimizer):
    """Plain descent at the rate 0.5, which it does not say."""

    def __init__(self):
        super().__init__(False, "OwnDescent")

    def _resource_apply_dense(self, gradient, handle):
        return handle.assign_sub(0.5 * gradient)


# Nesterov: 0.25 (1 + 0.5), then 0.5 (1 + 0.5 * 1.5) for TensorFlow; Keras' momentum has the rate
# in it: 0.25 * 1.5, then 0.5 + 0.5 (0.5 + 0.5 * 0.25).
@pytest.mark.parametrize(
    "choice, expected",
    [
        (lambda rate: tf.train.MomentumOptimizer(rate, 0.5, use_nesterov=True), -0.375 - 0.875),
        (lambda rate: tf.keras.optimizers.SGD(rate, momentum=0.5, nesterov=True), -0.375 - 0.8125),
    ],
    ids=["tf.train", "keras"],
)
def test_a_function_gets_the_rate_after_its_schedule(choice, expected):
    options = {"warmup_steps": 2, "learning_rate": 0.5}
    value, rates = values_after(2, options=options, optimizer=choice)
    assert rates == [0.25, 0.5] and value == pytest.approx(expected)


@pytest.mark.parametrize(
    "make, value, rates",
    [
        (lambda: tf.train.GradientDescentOptimizer(0.5), -1, [0.5, 0.5]),
        (lambda: tf.train.GradientDescentOptimizer(tf.constant(0.5)), -1, [0.5, 0.5]),
        (lambda: tf.keras.optimizers.SGD(0.5), -1, [0.5, 0.5]),
        (lambda: tf.keras.optimizers.SGD(lambda: 0.5), -1, [0.5, 0.5]),
        # A schedule of Keras counts the updates.
        (lambda: tf.keras.optimizers.SGD(keras_decay(1.0, 1, 0.5)), -1.5, [1, 0.5]),
    ],
    ids=["tf.train", "tensor", "keras", "callable", "schedule"],
)
def test_an_object_has_its_own_rate_which_is_logged(make, value, rates):
    options = {"learning_rate": 4.0, "schedule": "cosine", "decay_steps": 2, "warmup_steps": 1}
    assert values_after(2, options=options, optimizer=make()) == (value, rates)


def test_the_rate_of_an_object_is_read_before_it_has_variables():
    # Nadam's slots ask the first variable for its dtype.
    assert values_after(gradient=0.0, optimizer=tf.keras.optimizers.Nadam(0.5)) == (0, [0.5])


def test_a_decay_follows_the_rate_of_an_object_which_a_class_of_ones_own_need_not_say():
    assert values_after(optimizer=OwnDescent()) == (-0.5, [None])
    with tf.Graph().as_default():
        run, w = make_run(**dict(SGD, weight_decay=0.5)), create_variable("w", [[1.0]])
        op = run.minimize(0 * tf.reduce_sum(w), optimizer=tf.keras.optimizers.SGD(0.5))
        assert after_steps(op, w) == [[0.75]]
        with pytest.raises(UsageError, match="does not say its learning rate"):
            run.minimize(tf.reduce_sum(w), name="own", optimizer=OwnDescent())


OBJECTS = {
    "tf.train": lambda: tf.train.AdamOptimizer(0.1),
    "keras": lambda: tf.keras.optimizers.Adam(0.1),
}
EACH_OBJECT = pytest.mark.parametrize("kind", list(OBJECTS))


@pytest.mark.parametrize("is_first", [True, False], ids=["own", "later"])
@EACH_OBJECT
def test_a_refused_update_or_a_later_one_leaves_an_optimizer_object_as_it_was(kind, is_first):
    run = make_run(on_nonfinite="skip", clip="none")
    a, b, factor = create_variable("a", 0.0), create_variable("b", 0.0), tf.placeholder("float")
    factors = (factor, 1.0) if is_first else (1.0, factor)
    objects = OBJECTS[kind](), OBJECTS[kind]()
    first = run.minimize(factors[0] * a, [a], "a", advance_step=False, optimizer=objects[0])
    with tf.control_dependencies([first]):
        op = run.minimize(factors[1] * b, [b], "b", optimizer=objects[1])
    with session() as tf_session:
        tf_session.run(op, {factor: 1.0})
        before = read_variables(tf_session)
        tf_session.run(op, {factor: INF})
        after = read_variables(tf_session)
    assert changes(before, after) == {"global_step": 2, "toolkit/skipped_steps": 1}
    assert len(before) >= 8


@EACH_OBJECT
def test_an_object_accumulates_as_the_optimizer_of_the_options_does(kind):
    options = {"optimizer": "adam", "learning_rate": 0.1, "accumulate": 2}
    values = []
    for make in (lambda: None, OBJECTS[kind]):
        with tf.Graph().as_default():
            values.append(values_after(4, options=options, optimizer=make())[0])
    assert values == [pytest.approx(-0.2, rel=1e-4)] * 2


@pytest.mark.parametrize(
    "first, second, message",
    [
        ({"learning_rate": 0.1}, {"learning_rate": 0.2}, "set learning_rate to 0.1 and to 0.2"),
        ({"optimizer": "adam"}, {}, "set optimizer to 'adam' and to None"),
        ({}, {"groups": [Group("w", frozen=True)]}, "set groups to \\[\\] and to \\[Group"),
    ],
)
def test_two_updates_of_a_name_with_different_settings_are_refused(first, second, message):
    run, w = make_run(**SGD), create_variable("w", 0.0)
    run.gradients(1.0 * w, [w], "a", **first)
    run.gradients(1.0 * w, [w], "a", **dict({"groups": []}, **first))
    with pytest.raises(ToolkitError, match=f"Two calls for the update 'a' {message}"):
        run.gradients(1.0 * w, [w], "a", **second)


@EACH_OBJECT
def test_an_object_that_two_players_share_is_refused(kind):
    run, optimizer = make_run(**SGD), OBJECTS[kind]()
    a, b = create_variable("a", 0.0), create_variable("b", 0.0)
    run.gradients(1.0 * a, [a], "a", optimizer=optimizer)
    run.gradients(1.0 * a, [a], "a", optimizer=optimizer)  # a second update of the same player
    with pytest.raises(UsageError, match="The updates 'a' and 'b' share one optimizer object"):
        run.gradients(1.0 * b, [b], "b", optimizer=optimizer)


BESIDE = "a learning rate, schedule or group's rate is set beside"


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"learning_rate": 0.5}, "For the update, " + BESIDE),
        ({"schedule": "cosine"}, BESIDE),
        ({"optimizer_args": {"beta1": 0.5}}, "optimizer_args is set, but only a named optimizer"),
        ({"groups": [Group("w", learning_rate=0.5)]}, BESIDE),
    ],
)
@EACH_OBJECT
def test_what_has_no_effect_beside_an_object_is_refused(kind, settings, message):
    with pytest.raises(UsageError, match=message):
        values_after(optimizer=OBJECTS[kind](), **settings)


@pytest.mark.parametrize("name", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_clipping_of_keras_is_refused(name):
    optimizer = OBJECTS["keras"]()
    object.__setattr__(optimizer, name, 1.0)
    with pytest.raises(UsageError, match=f"sets {name}, but gradients are clipped before it"):
        values_after(optimizer=optimizer)


def test_an_optimizer_that_waits_for_other_processes_is_refused():
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(0.1), 1)
    with pytest.raises(UsageError, match="SyncReplicasOptimizer waits for other processes"):
        values_after(optimizer=optimizer)


@ONLY_2
def test_an_optimizer_of_newer_keras_is_refused():
    optimizer = pytest.importorskip("tf_keras").optimizers.Adam(0.1)
    with pytest.raises(UsageError, match="tf_keras.Adam is no optimizer that works in a graph"):
        values_after(optimizer=optimizer)


EACH_RUN = pytest.mark.parametrize(
    "plugin", [by_object(make) for make in OBJECTS.values()], ids=list(OBJECTS)
)


@EACH_RUN
def test_a_step_in_a_loop_makes_the_same_updates(data, plugin):
    options = {"schedule": "cosine", "clip": "global-norm", "clip_limit": 0.1}
    testing.check_step_in_a_loop(plugin, data=data, **options)


@EACH_RUN
def test_a_resumed_run_ends_with_the_same_bits(data, plugin):
    testing.check_resume(plugin, "run", data=data, accumulate=2)


@ONLY_2
@EACH_RUN
def test_a_compiled_step_makes_the_same_updates(tmp_path, plugin):
    train_by_both(tmp_path, plugin)
