"""Learning-rate schedules, clipping, the norm of gradients, and the optimizers of tf.train."""

import math

import numpy as np
import pytest
from graph_fixtures import make_run
from update_fixtures import INF, ONLY_2, SGD, after_steps, create_variable, descend, train

from toolkit import UsageError, tf
from toolkit.compat import compile_with_xla
from toolkit.graph.optimizers import objects, schedules
from toolkit.graph.step_strategy import PLAIN, XLA

STEP = {"schedule": "step", "decay_steps": 10, "decay_rate": 0.5}


def check_rates(steps, rates, total_steps=None, **options):
    """The steps have these learning rates, where the full rate is 1."""
    run_options = make_run(**dict({"learning_rate": 1.0}, **options)).options
    with tf.Session() as tf_session:
        step = tf.placeholder(tf.int64, [])  # TensorFlow computes constants in another way
        rate = schedules.learning_rate(run_options, step, total_steps)
        found = [tf_session.run(rate, {step: each}) for each in steps]
        assert found == pytest.approx(rates, abs=1e-6)


@pytest.mark.parametrize(
    "options, steps, total_steps, rates",
    [
        ({}, [0, 1000], None, [1, 1]),
        ({"warmup_steps": 4}, [0, 1, 2, 3, 4], None, [0.25, 0.5, 0.75, 1, 1]),
        # Cosine decay falls from one over a half to zero, and stays there.
        ({"schedule": "cosine", "decay_steps": 100}, [0, 50, 100, 150], None, [1, 0.5, 0, 0]),
        # It starts after the warm-up and ends with the run.
        ({"schedule": "cosine", "warmup_steps": 10}, [10, 60, 110], 110, [1, 0.5, 0]),
        ({**STEP, "decay_rate": 0.1}, [0, 9, 10, 19, 20], None, [1, 1, 0.1, 0.1, 0.01]),
        ({**STEP, "warmup_steps": 4}, [3, 4, 13, 14], None, [1, 1, 1, 0.5]),
        # TensorFlow multiplies by 1 / 41, which is rounded down: 41 times that is less than one.
        ({**STEP, "decay_steps": 41}, [40, 41], None, [1, 0.5]),
        # By default it decays ten times in a run.
        ({"schedule": "step", "decay_rate": 0.5}, [9, 10, 95], 100, [1, 0.5, 0.5**9]),
        # Halfway, the square root of the rate of decay.
        ({**STEP, "schedule": "exponential", "decay_rate": 0.25}, [0, 5, 10], None, [1, 0.5, 0.25]),
        # Very short runs.
        ({"schedule": "step"}, [0], 1, [1]),  # a tenth of one step: it decays in each
        ({"schedule": "cosine", "decay_steps": 1}, [0, 1, 2, 3], 4, [1, 0, 0, 0]),
        ({"warmup_steps": 6}, [0, 1, 2], 3, [1 / 6, 2 / 6, 3 / 6]),  # longer than the run
        ({"warmup_steps": 3, "schedule": "cosine"}, [0, 1, 2], 3, [1 / 3, 2 / 3, 1]),
    ],
)
def test_a_schedule_has_known_rates(options, steps, total_steps, rates):
    check_rates(steps, rates, total_steps, **options)


@pytest.mark.parametrize("schedule", ["cosine", "step", "exponential"])
def test_a_schedule_without_a_length_is_refused(schedule):
    with pytest.raises(UsageError, match=f"The {schedule} schedule has no length"):
        check_rates([0], [1], schedule=schedule)


@pytest.mark.parametrize("clip, weights", [("value", [-1, 0.5, 1]), ("none", [-3, 0.5, 2])])
def test_clip_by_value_cuts_each_element(clip, weights):
    assert descend([3.0, -0.5, -2.0], clip=clip, clip_limit=1.0) == weights


def test_clip_by_norm_scales_each_variable_alone():
    a, b = create_variable("a", [0.0, 0.0]), create_variable("b", [0.0])
    loss = tf.reduce_sum(a * [3.0, 4.0]) + tf.reduce_sum(b * 0.5)
    weights = train(loss, clip="norm", clip_limit=1.0)
    assert weights["a"] == pytest.approx([-0.6, -0.8])  # 3-4-5, scaled to norm 1
    assert weights["b"] == [-0.5]  # within the limit


@pytest.mark.parametrize("dtype, size", [(tf.float64, 1.0), (tf.float16, 100.0)])
def test_gradients_of_two_types_are_clipped_by_their_common_norm(dtype, size):
    a, b = create_variable("a", [0.0]), tf.get_variable("b", [1], dtype, tf.zeros_initializer())
    loss = tf.reduce_sum(3 * size * a) + tf.cast(tf.reduce_sum(4 * size * b), tf.float32)
    weights = train(loss, clip="global-norm", clip_limit=1.0)  # 400 squared is no float16
    assert weights == {"a": pytest.approx([-0.6]), "b": pytest.approx([-0.8], rel=1e-3)}


def test_the_logged_norm_is_that_of_all_gradients_before_clipping():
    a, b = create_variable("a", [0.0]), create_variable("b", [0.0])
    run = make_run(**dict(SGD, clip="value", clip_limit=1.0))
    run.minimize(tf.reduce_sum(3 * a + 4 * b), name="discriminator")
    logged = after_steps([], run.logged)
    assert logged == {"discriminator/gradient_norm": 5.0, "discriminator/learning_rate": 1.0}


def squared_norm(value, form):
    """The squared norm of a value by the plain step, or by the form for XLA, compiled or not."""
    value = tf.constant(value, tf.float32)
    norm = PLAIN.squared_norm if form == "plain" else XLA.squared_norm
    is_compiled = form == "compiled"
    tensor = compile_with_xla(lambda x: [norm(x)], [value])[0] if is_compiled else norm(value)
    with tf.Session() as tf_session:
        return tf_session.run(tensor).item()


FORMS = pytest.mark.parametrize("form", ["plain", "xla", pytest.param("compiled", marks=ONLY_2)])


@FORMS
@pytest.mark.parametrize("size", [(), (2,), (64,), (65,), (128, 3), (7, 11), (5, 3, 2, 32), (0, 3)])
def test_a_squared_norm_is_the_sum_of_squares(size, form):
    values = np.random.RandomState(0).uniform(-2, 2, size).astype(np.float32)
    expected = pytest.approx(float((values.astype(float) ** 2).sum()), rel=1e-5)
    assert squared_norm(values, form) == expected


@FORMS
@pytest.mark.parametrize("value", [INF, -INF, float("nan")])
@pytest.mark.parametrize("size, place", [(1000, 0), (1000, 517), (1024, 1023), (7, 3), (1, 0)])
def test_a_squared_norm_is_not_finite_if_an_element_is_not(value, size, place, form):
    values = np.ones(size)
    values[place] = value
    assert not math.isfinite(squared_norm(values, form))
    assert squared_norm([1e18, -1e18, 1e-30], form) == pytest.approx(2e36)


@pytest.mark.parametrize(
    "name", objects.optimizer_names() + ["sgd", "Adam", "RMSProp", "gradient-descent"]
)
def test_each_optimizer_moves_against_the_gradient(name):
    (w,) = descend([1.0], optimizer=name, learning_rate=0.1)
    assert -0.5 < w < 0


@pytest.mark.parametrize(
    "optimizer, arguments, steps, weight",
    [
        ("adam", {}, 1, -1),
        # Two steps of gradient 1: 1, then 1 + 0.9; with half of it: 1, then 1 + 0.5.
        ("momentum", {}, 2, -2.9),
        ("momentum", {"momentum": 0.5}, 2, -2.5),
        # Each update is the gradient and 0.9 times the new momentum: 1.9, then 1 + 0.9 * 1.9.
        ("momentum", {"use_nesterov": True}, 2, -1.9 - 2.71),
        ("momentum", {"use_nesterov": 1.0}, 2, -1.9 - 2.71),
        # The mean square starts at 1 and stays there; the mean is 1/2, and its square 1/4.
        ("rmsprop", {"centered": False, "decay": 0.5}, 1, -1),
        ("rmsprop", {"centered": True, "decay": 0.5}, 1, -(0.75**-0.5)),
    ],
)
def test_arguments_reach_the_optimizer(optimizer, arguments, steps, weight):
    weights = descend([1.0], steps, optimizer=optimizer, optimizer_args=arguments)
    assert weights == [pytest.approx(weight, rel=1e-3)]


def test_a_centered_rmsprop_takes_no_root_of_a_negative_difference():
    # The mean and the mean square fall to 1 from above, up to a rounding r each: 1 + r - (1 + r)^2
    # is less than 0.
    w = create_variable("w", [0.0])
    step = tf.train.get_or_create_global_step().read_value()
    loss = tf.reduce_sum(w * tf.where(step < 30, 2.0, 1.0))
    weights = train(loss, 230, optimizer="rmsprop", optimizer_args={"centered": True})
    assert math.isfinite(weights["w"][0])


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("momentum", {"use_nesterov": "maybe"}, "'use_nesterov' .* 'maybe', but should be true or"),
        ("momentum", {"use_nesterov": 2.0}, "'use_nesterov' .* 2.0, but should be true or false"),
        ("momentum", {"momentum": "much"}, None),
        ("adam", {"use_own_namescope_for_non_slot_vars": True}, "has no argument 'use_own_names"),
        ("adam", {"beta1": "half"}, "'beta1' of optimizer 'adam' is 'half', but should be a numb"),
        ("adam", {"beta1": True}, "'beta1' of optimizer 'adam' is True, but should be a number"),
        ("ftrl", {"learning_rate_power": 1.0}, "Optimizer 'ftrl' refuses its arguments: "),
        ("adam", {"epsilon": 0}, "Optimizer 'adam' divides by zero with epsilon=0."),
        ("RMSProp", {"epsilon": -1e-3}, "Optimizer 'RMSProp' divides by zero with epsilon=-0.001."),
    ],
)
def test_an_argument_of_another_type_or_that_renames_variables_is_refused(name, arguments, message):
    with pytest.raises(UsageError, match=message):
        descend([1.0], optimizer=name, optimizer_args=arguments)


@pytest.mark.parametrize(
    "name, arguments, message, hint",
    [
        ("adamw", {"weight_decay": 0.1}, None, "Set --weight-decay 0.1."),
        ("sgd", {"learning-rate": 0.1}, None, "Set --learning-rate 0.1."),
        ("nesterov", {}, None, "Set --optimizer momentum --optimizer-args use_nesterov=true."),
        ("adm", {}, "There is no optimizer 'adm' in tf.train", "Did you mean 'adam'?"),
        ("adam", {"beta_1": 0.5}, "'adam' has no argument 'beta_1'", "Did you mean 'beta1'?"),
    ],
)
def test_the_hint_names_what_was_meant(name, arguments, message, hint):
    with pytest.raises(UsageError, match=message) as error:
        objects.make_optimizer(name, 1.0, arguments)
    assert error.value.hint == hint
