"""Penalties, their schedule, weight clipping and LeCam's averages against closed forms.

For D(x) = w.x the gradient at each point is w itself.
"""

import math

import numpy as np
import pytest
from gan_fixtures import (
    DESCENT,
    LinearDiscriminator,
    LinearImageDiscriminator,
    Point,
    assignments_of,
    build_image_game,
    build_step,
    evaluate,
    make_run,
    session,
)
from toolkit_gan import losses, penalties
from toolkit_gan import model as models
from toolkit_gan.discriminator import Discriminator, DiscriminatorOutputs

from toolkit import UsageError, tf

W = np.zeros([2, 2, 3], np.float32)
W[0, 0, 0], W[1, 1, 2] = 0.6, 0.8  # norm 1


@pytest.mark.parametrize(
    "penalty, norm, value, slope",
    [
        # 10 (|w| - 1)^2 and its slope along w / |w|, 20 (|w| - 1)
        ("wgan-gp", 3.0, 40.0, 40.0),
        ("wgan-gp", 0.5, 2.5, -10.0),
        ("dragan", 3.0, 40.0, 40.0),
        # the same above one, nothing below
        ("lp", 3.0, 40.0, 40.0),
        ("lp", 0.5, 0.0, 0.0),
        # 0.1 / 2 |w|^2 and 0.1 |w|; R1 + R2, with as many fakes as reals
        ("r1", 3.0, 0.45, 0.3),
        ("r1r2", 3.0, 0.9, 0.6),
        # a discriminator of zeros: a norm has 1e-8 under the root, for a finite slope
        ("wgan-gp", 0.0, 9.998, 0.0),
        ("lp", 0.0, 0.0, 0.0),
    ],
)
def test_a_step_adds_the_closed_form_for_a_linear_discriminator(penalty, norm, value, slope):
    run = make_run(shape=(2, 2, 3), penalty=penalty, batch_size=4, loss="wasserstein")
    discriminator = LinearImageDiscriminator(norm * W)
    model = models.Gan(lambda z, labels: tf.zeros([4, 2, 2, 3]), discriminator, None)
    outputs = models.discriminator_pass(model, tf.ones([4, 2, 2, 3]), None, 0, run)
    penalty = losses.named_losses(outputs, run)["penalty"]
    result, gradient = evaluate(penalty, tf.gradients(penalty, discriminator.variables)[0])
    assert result == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(gradient, slope * W, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "penalise, weight, gradients, expected",
    [
        # Gradients of norm 3 and 1: of one norm over the batch, sqrt(10), it would be 46.75.
        (penalties.gradient_penalty, 10.0, [[3.0, 0.0], [0.0, -1.0]], 20.0),
        (penalties.zero_centred_penalty, 0.3, [[3.0, 0.0], [0.0, -1.0]], 0.75),
        # A slope of 0.2 costs nothing.
        (penalties.one_sided_penalty, 30.0, [[3.0, 0.0], [0.0, -0.2]], 60.0),
    ],
)
def test_samples_cost_the_mean_of_their_penalties(penalise, weight, gradients, expected):
    assert evaluate(penalise(tf.constant(gradients), weight)) == pytest.approx(expected)


@pytest.mark.parametrize("penalty, shape", [("wgan-gp", [4, 1, 1, 1]), ("dragan", [4, 2, 2, 3])])
def test_points_are_random_per_sample_or_per_number(penalty, shape):
    run = make_run(shape=(2, 2, 3), penalty=penalty)
    reals = tf.constant(np.random.RandomState(0).uniform(0.5, 1, [4, 2, 2, 3]), tf.float32)
    points, _ = penalties.penalty_points(run, "critic0", reals, None, 0 * reals, None)
    deviation = tf.sqrt(tf.reduce_mean((reals - tf.reduce_mean(reals)) ** 2))
    # Solve the formula of `interpolate` or of `perturb` for its random numbers.
    u = (reals - points) / reals if penalty == "wgan-gp" else 2 * (points - reals) / deviation
    u = evaluate(u)
    assert u.min() > -1e-4 and u.max() < 1 + 1e-4
    if penalty == "wgan-gp":
        np.testing.assert_allclose(u, np.broadcast_to(u[:, :1, :1, :1], u.shape), atol=1e-4)
        u = u[:, :1, :1, :1]
    assert list(u.shape) == shape and len(np.unique(u)) == u.size


def test_points_around_move_each_number_by_half_the_deviation_of_the_whole_batch():
    # Two images of five pixels, their mean is 1, the variance (2 * 16 + 8 * 1) / 10 and the
    # deviation 2. Of each image alone it is sqrt(6) and 0, of each pixel alone 2.5 or 0.
    reals = np.zeros([2, 1, 5, 1], np.float32)
    reals[0, 0, :2] = 5
    u = np.linspace(0, 1, 10, dtype=np.float32).reshape(2, 1, 5, 1)
    variance = penalties.batch_variance(tf.constant(reals), make_run())
    points = penalties.perturb(tf.constant(reals), tf.constant(u), variance)
    np.testing.assert_allclose(evaluate(points), reals + u, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_clipping_bounds_all_of_the_discriminator_but_learned_inputs(norm):
    values = {"network": "mlp", "conditional": "concat", "spectral_norm": True}
    discriminator = Discriminator(make_run(classes=2, discriminator_norm=norm, **values))
    with session() as tf_session:
        tf_session.run(penalties.clip_weights(discriminator.slope_variables, 1e-9))
        values = tf_session.run({v.op.name: v for v in tf.global_variables()})
    is_large = {name for name, value in values.items() if abs(value).max() > 1e-8}
    assert any(name.endswith("/gamma") for name in values)
    assert is_large == {n for n in values if n.endswith(("/u", "label/images"))}


AVERAGES = ["discriminator/average_logit/real", "discriminator/average_logit/fake"]


def test_the_penalty_is_that_of_the_paper_where_reals_are_above_and_fakes_below():
    real, fake = np.float32([2, 3, -1]), np.float32([-2, 0, 4])
    inputs = [tf.constant(real), tf.constant(fake)]
    penalty = penalties.lecam_penalty(*inputs, tf.constant(1.5), tf.constant(-0.5))
    value, slopes = evaluate(penalty, tf.gradients(penalty, inputs))
    # Squares (D(x) - average_fake)^2 and (average_real - D(G(z)))^2; none of -1 and of 4.
    assert value == pytest.approx((2.5**2 + 3.5**2) / 3 + (3.5**2 + 1.5**2) / 3)
    np.testing.assert_allclose(slopes, [[5 / 3, 7 / 3, 0], [-7 / 3, -1, 0]], rtol=1e-6)


def play(steps, weight=1.0, theta=-1.0, start=0, **values):
    """(psi, average real, average fake) after each step; reals are 0.5, fakes are theta."""
    values = dict(DESCENT, network="mlp", lecam=weight, lecam_start=start, **values)
    run = make_run(shape=(1,), **values)
    averages = penalties.AverageLogits(run)
    generator = Point(theta)
    model = models.Gan(generator, LinearDiscriminator(1.0), generator, average_logits=averages)
    count = run.options.batch_size * run.options.discriminator_steps
    game = build_step(model, tf.fill([count, 1], 0.75), run)
    names = [v for name in AVERAGES for v in tf.global_variables() if v.op.name == name]
    rows = []
    with session() as tf_session:
        for _ in range(steps):
            tf_session.run(game.op)
            rows.append(tf_session.run(model.discriminator.variables + names))
    return np.array(rows)


def expect(steps, weight=1.0, theta=-1.0, start=0, discriminator_steps=1, rate=0.1):
    """The same numbers by hand; the logits are psi / 2 and psi * theta."""
    psi, averages, rows = 1.0, np.zeros(2), []
    for step in range(steps):
        for _ in range(discriminator_steps):
            count = max(step - start, 0)
            means = np.array([psi / 2, psi * theta])
            averages = averages + (1 - min(0.99, count / (count + 1))) * (means - averages)
            above, below = max(0, means[0] - averages[1]), max(0, averages[0] - means[1])
            slope = theta - 0.5  # of the Wasserstein loss
            slope += (step >= start) * weight * 2 * (above * 0.5 - below * theta)
            psi -= rate * slope
        theta += rate * psi
        rows.append([psi, *averages])
    return np.array(rows)


@pytest.mark.parametrize(
    "case",
    [{}, {"weight": 0.3, "discriminator_steps": 2}, {"start": 2}],
    ids=["first", "discriminator", "start"],
)
def test_steps_and_averages_are_those_of_the_formula(case):
    expected = expect(5, **case)
    np.testing.assert_allclose(play(5, **case), expected, rtol=1e-5)
    assert not np.allclose(expected[:, 0], expect(5, weight=0)[:, 0])


def test_the_averages_are_state_of_the_training_alone():
    game = build_image_game(lecam=0.3, discriminator_steps=2, spectral_norm=True)
    assignments = assignments_of(game.op)  # behind the guard, once per update
    assert [assignments.pop(name) for name in AVERAGES] == [2, 2]
    assert all(name.endswith("/u") for name in assignments)
    with tf.Graph().as_default():
        model = models.build(make_run(mode="eval", lecam=0.3))
        assert model.average_logits is None
        assert not {v.op.name for v in tf.global_variables()} & set(AVERAGES)


# R1 of w.x is weight / 2 |w|^2 and its gradient weight * w.
SLOPE = np.float32([3.0, 4.0])


class CountingDiscriminator:
    """w.x, and a variable that counts how often w is used."""

    def __init__(self):
        self.w = tf.get_variable("w", initializer=tf.constant(SLOPE), use_resource=True)
        self.calls = tf.get_variable("calls", initializer=0, use_resource=True, trainable=False)

    def __call__(self, images, labels, values):
        with tf.control_dependencies([self.calls.assign_add(1, read_value=False)]):
            w = tf.identity(values["w"])
        return DiscriminatorOutputs(tf.reduce_sum(w * images, axis=1), None)


def build_scheduled(**options):
    """A run, a counting discriminator, its penalty, and the gradient w.r.t. w."""
    run = make_run(shape=(2,), network="mlp", penalty="r1", penalty_weight=0.1, **options)
    discriminator = CountingDiscriminator()
    points = tf.constant([[1.0, 2.0], [0.5, 0.1], [0.0, 0.0]])
    values = {"w": discriminator.w.read_value()}
    penalty = penalties.scheduled_penalty(discriminator, points, None, values, run)
    return run, discriminator, penalty, tf.gradients(penalty, discriminator.w)[0]


def test_every_third_step_has_three_times_the_penalty_and_the_others_do_not_compute_it():
    run, discriminator, penalty, gradient = build_scheduled(penalty_steps=3)
    with session() as tf_session:
        for step in range(7):
            value, slope = tf_session.run([penalty, gradient])
            is_due = step % 3 == 2
            assert value == pytest.approx(3 * 0.05 * 25 * is_due)
            np.testing.assert_allclose(slope, 3 * 0.1 * SLOPE * is_due, rtol=1e-6)
            assert tf_session.run(discriminator.calls) == (step + 1) // 3
            tf_session.run(run.global_step.assign_add(1))


@pytest.mark.parametrize(
    "decay, steps, step, factor",
    [
        # of 100 steps, in a cosine from 1 to the last share, where it stays
        (0.1, 1, 0, 1.0),
        (0.1, 1, 25, 0.1 + 0.45 * (1 + math.sqrt(0.5))),
        (0.1, 1, 100, 0.1),
        (0.1, 1, 1000, 0.1),
        (0.0, 2, 49, 2 * 0.5 * (1 + math.cos(math.pi * 0.49))),  # a lazy penalty falls, too
    ],
)
def test_a_weight_falls_in_a_cosine_to_its_last_share(decay, steps, step, factor):
    run, _, penalty, gradient = build_scheduled(penalty_decay=decay, penalty_steps=steps)
    with session() as tf_session:
        tf_session.run(run.global_step.assign(step))
        value, slope = tf_session.run([penalty, gradient])
    assert value == pytest.approx(factor * 0.05 * 25, rel=1e-5)
    np.testing.assert_allclose(slope, factor * 0.1 * SLOPE, rtol=1e-5)


def test_a_decay_needs_the_length_of_the_run():
    with pytest.raises(UsageError, match="penalty_decay.* has no length"):
        penalties.weight_factor(make_run(total_steps=None, penalty_decay=0.5))
