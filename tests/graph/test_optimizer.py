"""Learning-rate schedules, clipping, the norm of gradients, and the optimizers of tf.train."""

from __future__ import annotations

import math

import numpy as np
import pytest
from graph_fixtures import make_run, session
from update_fixtures import INF, ONLY_2, SGD, create_variable, descend, train

from toolkit import UsageError, tf
from toolkit.compat import compile_with_xla
from toolkit.graph.optimizers import names, schedules
from toolkit.graph.step_strategy import PLAIN, XLA

pytestmark = pytest.mark.usefixtures("graph")


# ---------------------------------------------------------------------------------------- schedules


def learning_rates(steps, total_steps=None, **options):
    """The learning rate in each of the steps, where the full rate is 1."""
    run_options = make_run(**dict({"learning_rate": 1.0}, **options)).options
    with tf.Session() as tf_session:
        tensors = [
            schedules.learning_rate(run_options, tf.constant(s, tf.int64), total_steps)
            for s in steps
        ]
        rates = tf_session.run(tensors)
    # The rate in the graph and the share that is computed without one agree.
    assert rates == pytest.approx(
        [schedules.rate_share(run_options, s, total_steps) for s in steps], abs=1e-6
    )
    return pytest.approx(rates, abs=1e-6)


def test_a_constant_rate_does_not_change():
    assert learning_rates([0, 1000]) == [1, 1]


def test_cosine_decay_falls_from_one_over_a_half_to_zero_and_stays_there():
    assert learning_rates([0, 50, 100, 150], schedule="cosine", decay_steps=100) == [1, 0.5, 0, 0]


def test_cosine_decay_starts_after_the_warm_up_and_ends_with_the_run():
    assert learning_rates([10, 60, 110], 110, schedule="cosine", warmup_steps=10) == [1, 0.5, 0]


@pytest.mark.parametrize("schedule", ["cosine", "step", "exponential"])
def test_a_schedule_without_a_length_is_refused(schedule):
    with pytest.raises(UsageError, match=f"The {schedule} schedule has no length"):
        learning_rates([0], schedule=schedule)


@pytest.mark.parametrize(
    "total_steps, options, rates",
    [
        (1, {"schedule": "cosine"}, [1]),
        (2, {"schedule": "cosine"}, [1, 0.5]),
        (1, {"schedule": "step"}, [1]),  # a tenth of one step: it decays in each
        (2, {"schedule": "exponential", "decay_rate": 0.1}, [1, 0.1]),
        (3, {"warmup_steps": 1}, [1, 1, 1]),
        (3, {"warmup_steps": 6}, [1 / 6, 2 / 6, 3 / 6]),  # a warm-up longer than the run
        (3, {"warmup_steps": 3, "schedule": "cosine"}, [1 / 3, 2 / 3, 1]),
        (4, {"warmup_steps": 2, "schedule": "cosine"}, [1 / 2, 1, 1, 0.5]),
        (4, {"schedule": "cosine", "decay_steps": 1}, [1, 0, 0, 0]),
        (3, {"schedule": "step", "decay_rate": 1.0}, [1, 1, 1]),
    ],
)
def test_schedules_of_very_short_runs(total_steps, options, rates):
    assert learning_rates(range(total_steps), total_steps, **options) == rates


def test_the_step_schedule_decays_at_every_tenth_step():
    rates = learning_rates([0, 9, 10, 19, 20], schedule="step", decay_steps=10, decay_rate=0.1)
    assert rates == [1, 1, 0.1, 0.1, 0.01]


def test_the_step_schedule_decays_ten_times_in_a_run_by_default():
    assert learning_rates([9, 10, 95], 100, schedule="step", decay_rate=0.5) == [1, 0.5, 0.5**9]


def test_exponential_decay_halfway_is_the_square_root_of_its_rate():
    rates = learning_rates([0, 5, 10], schedule="exponential", decay_steps=10, decay_rate=0.25)
    assert rates == [1, 0.5, 0.25]


def test_a_warm_up_of_four_steps_rises_by_quarters():
    assert learning_rates([0, 1, 2, 3, 4], warmup_steps=4) == [0.25, 0.5, 0.75, 1, 1]


def test_the_schedule_counts_from_the_end_of_the_warm_up():
    rates = learning_rates(
        [3, 4, 13, 14], schedule="step", warmup_steps=4, decay_steps=10, decay_rate=0.5
    )
    assert rates == [1, 1, 1, 0.5]


def test_a_step_uses_the_rate_at_the_global_step_before_it():
    # Warm-up over two steps: 1/2, then 1, of a gradient of 1.
    assert descend([1.0], 2, warmup_steps=2) == [-1.5]


# ----------------------------------------------------------------------------------------- clipping


def test_clip_by_value_cuts_each_element():
    assert descend([3.0, -0.5, -2.0], clip="value", clip_limit=1.0) == [-1, 0.5, 1]


def test_clip_by_norm_scales_each_variable_alone():
    a, b = create_variable("a", [0.0, 0.0]), create_variable("b", [0.0])
    loss = tf.reduce_sum(a * [3.0, 4.0]) + tf.reduce_sum(b * 0.5)
    weights = train(loss, clip="norm", clip_limit=1.0)
    assert weights["a"] == pytest.approx([-0.6, -0.8])  # 3-4-5, scaled to norm 1
    assert weights["b"] == [-0.5]  # within the limit


def test_clip_by_global_norm_scales_all_variables_alike():
    a, b = create_variable("a", [0.0]), create_variable("b", [0.0])
    weights = train(tf.reduce_sum(3 * a + 4 * b), clip="global-norm", clip_limit=1.0)
    assert weights == {"a": pytest.approx([-0.6]), "b": pytest.approx([-0.8])}


def test_no_clipping_leaves_a_gradient_unchanged():
    assert descend([30.0], clip="none", clip_limit=1.0) == [-30]


def test_the_logged_norm_is_that_of_all_gradients_before_clipping():
    a, b = create_variable("a", [0.0]), create_variable("b", [0.0])
    run = make_run(**dict(SGD, clip="value", clip_limit=1.0))
    run.minimize(tf.reduce_sum(3 * a + 4 * b), name="discriminator")
    with session() as tf_session:
        logged = tf_session.run(run.logged)
    assert logged == {"discriminator/gradient_norm": 5.0, "discriminator/learning_rate": 1.0}


# ------------------------------------------------------------------------------------- squared norm


def squared_norm(value):
    """The squared norm of a value by the plain step."""
    with tf.Session() as tf_session:
        return float(tf_session.run(PLAIN.squared_norm(tf.constant(value, tf.float32))))


def test_squared_norm_of_3_and_4_is_25_in_any_shape():
    assert squared_norm([3.0, 4.0]) == squared_norm([[3.0], [4.0]]) == 25
    assert squared_norm(-2.0) == 4
    assert squared_norm(np.zeros([0, 3])) == 0


@pytest.mark.parametrize("value", [INF, -INF, float("nan")])
@pytest.mark.parametrize("place", [0, 517, 999])
def test_squared_norm_is_not_finite_if_an_element_is_not(value, place):
    values = np.ones(1000)
    values[place] = value
    assert not math.isfinite(squared_norm(values))


def test_squared_norm_of_finite_elements_is_finite():
    assert squared_norm([1e18, -1e18, 1e-30]) == pytest.approx(2e36)


def xla_squared_norm(value, by_xla=False):
    """The squared norm of a value by the form for XLA, compiled or not."""
    value = tf.constant(value, tf.float32)
    with tf.Session() as tf_session:
        norm = XLA.squared_norm
        tensor = compile_with_xla(lambda x: [norm(x)], [value])[0] if by_xla else norm(value)
        return float(tf_session.run(tensor))


FORMS = pytest.mark.parametrize("by_xla", [False, pytest.param(True, marks=ONLY_2)])


@FORMS
@pytest.mark.parametrize(
    "shape", [(), (2,), (64,), (65,), (128, 3), (7, 11), (5, 3, 2, 32), (0, 3)]
)
def test_both_squared_norms_are_the_sum_of_squares(shape, by_xla):
    values = np.random.RandomState(0).uniform(-2, 2, shape).astype(np.float32)
    expected = pytest.approx(float((values.astype(float) ** 2).sum()), rel=1e-5)
    assert xla_squared_norm(values, by_xla) == expected
    assert squared_norm(values) == expected


@FORMS
@pytest.mark.parametrize("value", [INF, -INF, float("nan")])
@pytest.mark.parametrize("size, place", [(1000, 0), (1000, 517), (1024, 1023), (7, 3), (1, 0)])
def test_the_compiled_norm_is_not_finite_if_an_element_is_not(value, size, place, by_xla):
    values = np.ones(size)
    values[place] = value
    assert not math.isfinite(xla_squared_norm(values, by_xla))


@FORMS
def test_the_compiled_norm_of_large_finite_elements_is_finite(by_xla):
    assert xla_squared_norm([1e18, -1e18, 1e-30], by_xla) == pytest.approx(2e36)


# --------------------------------------------------------------------------------------- optimizers

NAMES = [
    "adadelta",
    "adagrad",
    "adagradda",
    "adam",
    "adamw",
    "ftrl",
    "gradientdescent",
    "momentum",
    "proximaladagrad",
    "proximalgradientdescent",
    "rmsprop",
]


def test_the_optimizers_are_those_of_tf_train_and_adamw():
    assert names.optimizer_names() == NAMES


@pytest.mark.parametrize("name", NAMES + ["sgd", "Adam", "RMSProp", "gradient-descent"])
def test_each_optimizer_moves_against_the_gradient(name):
    (w,) = descend([1.0], optimizer=name, learning_rate=0.1)
    assert -0.5 < w < 0


def test_adam_moves_by_the_rate_in_its_first_step():
    assert descend([0.3], optimizer="adam", learning_rate=0.1) == [pytest.approx(-0.1, rel=1e-4)]


def test_momentum_is_nine_tenths_by_default():
    # Two steps of gradient 1: 1, then 1 + 0.9; with half of it: 1, then 1 + 0.5.
    assert descend([1.0], 2, optimizer="momentum") == [pytest.approx(-2.9)]


def test_arguments_reach_the_optimizer():
    weights = descend([1.0], 2, optimizer="momentum", optimizer_args={"momentum": 0.5})
    assert weights == [pytest.approx(-2.5)]


@pytest.mark.parametrize("value", [True, 1, 1.0])
def test_nesterov_momentum_looks_ahead(value):
    # Each update is the gradient and 0.9 times the new momentum: 1.9, then 1 + 0.9 * 1.9.
    arguments = {"use_nesterov": value}
    weights = descend([1.0], 2, optimizer="momentum", optimizer_args=arguments)
    assert weights == [pytest.approx(-1.9 - 2.71)]


@pytest.mark.parametrize("centered, update", [(False, 1.0), (True, 0.75**-0.5)])
def test_rmsprop_may_be_centered(centered, update):
    # The mean square starts at 1 and stays there; the mean is 1/2, and its square 1/4.
    arguments = {"centered": centered, "decay": 0.5}
    weights = descend([1.0], optimizer="rmsprop", optimizer_args=arguments)
    assert weights == [pytest.approx(-update, rel=1e-3)]


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("momentum", {"use_nesterov": "maybe"}, "'use_nesterov' .* 'maybe', but should be true or"),
        ("momentum", {"use_nesterov": 2.0}, "'use_nesterov' .* 2.0, but should be true or false"),
        ("momentum", {"momentum": "much"}, None),
        ("adam", {"beta1": "half"}, "'beta1' of optimizer 'adam' is 'half', but should be a numb"),
        ("adam", {"beta1": True}, "'beta1' of optimizer 'adam' is True, but should be a number"),
        ("ftrl", {"learning_rate_power": 1.0}, "Optimizer 'ftrl' refuses its arguments: "),
    ],
)
def test_an_argument_of_another_type_is_refused_in_one_sentence(name, arguments, message):
    with pytest.raises(UsageError, match=message):
        descend([1.0], optimizer=name, optimizer_args=arguments)


def test_the_error_for_an_unknown_optimizer_suggests_the_nearest_name():
    with pytest.raises(UsageError, match="There is no optimizer 'adm' in tf.train") as error:
        names.make_optimizer("adm", 1.0, {})
    assert error.value.hint == "Did you mean 'adam'?"


@pytest.mark.parametrize(
    "name, arguments, hint",
    [
        ("adamw", {"weight_decay": 0.1}, "Set --weight-decay 0.1."),
        ("sgd", {"learning-rate": 0.1}, "Set --learning-rate 0.1."),
        ("nesterov", {}, "Set --optimizer momentum --optimizer-args use_nesterov=true."),
    ],
)
def test_the_hint_names_the_option_that_was_meant(name, arguments, hint):
    with pytest.raises(UsageError) as error:
        names.make_optimizer(name, 1.0, arguments)
    assert error.value.hint == hint


def test_an_argument_that_renames_variables_is_reserved():
    with pytest.raises(UsageError, match="has no argument 'use_own_namescope_for_non_slot_vars'"):
        names.make_optimizer("adam", 1.0, {"use_own_namescope_for_non_slot_vars": True})


def test_the_error_for_an_unknown_optimizer_argument_suggests_the_nearest_name():
    with pytest.raises(UsageError, match="Optimizer 'adam' has no argument 'beta_1'") as error:
        names.make_optimizer("adam", 1.0, {"beta_1": 0.5})
    assert error.value.hint == "Did you mean 'beta1'?"
