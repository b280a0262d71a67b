"""Penalties against closed forms: for D(x) = w.x the gradient at each point is w itself."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import LinearDiscriminator, Logits, evaluate, images_of, make_run
from graph_fixtures import session
from toolkit_gan import forward_pass, losses, networks, penalties
from toolkit_gan.discriminator import Discriminator

from toolkit import UsageError, tf

# -------------------------------------------------------------- the linear discriminator in a step


class LinearImageDiscriminator(LinearDiscriminator):
    """A discriminator w . x of images, whose gradient at images is w everywhere."""

    def __call__(self, images, labels, weights):
        return Logits(tf.reduce_sum(weights.values[0] * images, axis=[1, 2, 3]))


def make_grey(z, labels):
    return tf.zeros([tf.shape(z)[0], 2, 2, 3])


W = np.zeros([2, 2, 3], np.float32)
W[0, 0, 0], W[1, 1, 2] = 0.6, 0.8  # norm 1


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize(
    "penalty, norm, value, slope",
    [
        # 10 (|w| - 1)^2 and its slope along w / |w|, 20 (|w| - 1)
        ("wgan-gp", 3.0, 40.0, 40.0),
        ("wgan-gp", 0.5, 2.5, -10.0),
        ("dragan", 3.0, 40.0, 40.0),
        ("dragan", 0.5, 2.5, -10.0),
        # the same above one, nothing below
        ("lp", 3.0, 40.0, 40.0),
        ("lp", 0.5, 0.0, 0.0),
        # 0.1 / 2 |w|^2 and 0.1 |w|; R1 + R2, with as many fakes as reals
        ("r1", 3.0, 0.45, 0.3),
        ("r1r2", 3.0, 0.9, 0.6),
        # a discriminator of zeros: a norm has 1e-8 under the root, for a finite slope
        ("wgan-gp", 0.0, 9.998, 0.0),
        ("dragan", 0.0, 9.998, 0.0),
        ("lp", 0.0, 0.0, 0.0),
        ("r1", 0.0, 0.0, 0.0),
        ("r1r2", 0.0, 0.0, 0.0),
    ],
)
def test_a_step_adds_the_closed_form_for_a_linear_discriminator(penalty, norm, value, slope, count):
    run = make_run(shape=(2, 2, 3), penalty=penalty, batch_size=count, loss="wasserstein")
    model = networks.Gan(make_grey, LinearImageDiscriminator(norm * W), None)
    outputs, _ = forward_pass.discriminator_pass(model, run, tf.ones([count, 2, 2, 3]), None, 0)
    penalty = losses.named_losses(outputs, run)["penalty"]
    result, gradient = evaluate(penalty, tf.gradients(penalty, model.discriminator.variables)[0])
    assert result == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(gradient, slope * W, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "penalise, weight, gradients, expected",
    [
        # Gradients of norm 3 and 1: of one norm over the batch, sqrt(10), it would be 46.75.
        (penalties.gradient_penalty, 10.0, [[3.0, 0.0], [0.0, -1.0]], 20.0),
        (penalties.gradient_penalty, 30.0, [[3.0, 0.0], [0.0, -1.0]], 60.0),
        (penalties.zero_centred_penalty, 0.1, [[3.0, 0.0], [0.0, -1.0]], 0.25),
        (penalties.zero_centred_penalty, 0.3, [[3.0, 0.0], [0.0, -1.0]], 0.75),
        # A slope of 0.2 costs nothing.
        (penalties.one_sided_penalty, 10.0, [[3.0, 0.0], [0.0, -0.2]], 20.0),
        (penalties.one_sided_penalty, 30.0, [[3.0, 0.0], [0.0, -0.2]], 60.0),
    ],
)
def test_samples_of_different_slope_cost_the_mean_of_their_penalties(
    penalise, weight, gradients, expected
):
    assert evaluate(penalise(tf.constant(gradients), weight)) == pytest.approx(expected)


def test_a_norm_is_taken_over_all_axes_of_a_sample():
    # 2 x 2 x 4 ones have the norm 4; by pixel it were 2, over the batch of three 4 sqrt(3).
    np.testing.assert_allclose(evaluate(penalties.gradient_norms(tf.ones([3, 2, 2, 4]))), [4, 4, 4])


# --------------------------------------------------------------- discriminators without a gradient


def sum_of_squares(x):
    return tf.reduce_sum(tf.square(x), axis=[1, 2, 3])


def square_in_a_loop(x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * y), [0, x])[1]


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda x: images_of(2, 4, 4, 3, seed=3), "do not depend on the images"),
        # These have a first derivative alone,
        (tf.nn.lrn, "none of op 'critic/LRN' .*LRNGrad"),
        (
            lambda x: tf.image.resize_nearest_neighbor(x, [8, 8]),
            "none of op 'critic/ResizeNearestNeighbor' .*ResizeNearestNeighborGrad",
        ),
        # this one not even that.
        (lambda x: tf.image.adjust_hue(x, 0.1), "AdjustHue"),
        (square_in_a_loop, "none of a while loop"),
    ],
    ids=["other images", "LRN", "resize", "hue", "while loop"],
)
def test_what_cannot_be_differentiated_twice_is_refused_by_name(act, message):
    x = images_of(2, 4, 4, 3)
    with tf.name_scope("critic"):
        logits = sum_of_squares(act(tf.ones([4, 4, 3]) * x))
    with pytest.raises(UsageError, match=message):
        penalties.input_gradients(logits, x)


def test_an_error_of_another_kind_passes_through():
    with pytest.raises(LookupError, match="another matter"), penalties.derivative_errors():
        raise LookupError("another matter")


@pytest.mark.parametrize(
    "act",
    [
        tf.nn.softplus,
        lambda x: tf.nn.space_to_depth(x, 2),
        lambda x: tf.nn.max_pool(x, 2, 2, "SAME"),
    ],
    ids=["softplus", "space_to_depth", "max_pool"],
)
def test_ops_that_a_discriminator_of_others_may_have_are_accepted(act):
    w, x = tf.ones([4, 4, 1]), images_of(3, 4, 4, 1)
    gradients = penalties.input_gradients(sum_of_squares(act(w * x)), x)
    penalty = penalties.gradient_penalty(gradients, 10.0)
    assert np.isfinite(evaluate(tf.gradients(penalty, w)[0])).all()


# ------------------------------------------------------------------------------------------- points


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


def test_points_between_lie_on_each_samples_own_line():
    a = tf.reshape(tf.constant([0.0, 0.25, 1.0]), [3, 1, 1, 1])
    points = penalties.interpolate(tf.zeros([3, 2, 2, 1]), 4.0 * tf.ones([3, 2, 2, 1]), a)
    np.testing.assert_allclose(evaluate(points)[:, 1, 1, 0], [0, 1, 4])


def perturb(reals, u):
    return penalties.perturb(reals, u, penalties.batch_variance(reals, make_run()))


def test_points_around_move_each_number_by_half_the_deviation_of_the_whole_batch():
    # Two images of five pixels, their mean is 1, the variance (2 * 16 + 8 * 1) / 10 and the
    # deviation 2. Of each image alone it is sqrt(6) and 0, of each pixel alone 2.5 or 0.
    reals = np.zeros([2, 1, 5, 1], np.float32)
    reals[0, 0, :2] = 5
    u = np.linspace(0, 1, 10, dtype=np.float32).reshape(2, 1, 5, 1)
    points = perturb(tf.constant(reals), tf.constant(u))
    np.testing.assert_allclose(evaluate(points), reals + u, rtol=1e-6, atol=1e-6)


def test_points_around_a_blank_batch_have_a_finite_gradient():
    reals = tf.ones([2, 4, 4, 1])
    points = perturb(reals, 0.5 * reals)
    value, gradient = evaluate(points, tf.gradients(points, reals)[0])
    np.testing.assert_allclose(value, 1.0, atol=1e-5)
    assert np.isfinite(gradient).all()


# ----------------------------------------------------------------------------------------- clipping


def test_clipping_bounds_each_number_and_changes_none_within():
    arrays = np.float32([[0.5, -0.005], [-2.0, 0.01]]), np.float32([0.5, -0.5, 0.002])
    variables = [tf.Variable(array, use_resource=True) for array in arrays]
    with session() as tf_session:
        tf_session.run(penalties.clip_weights(variables, 0.01))
        kernel, scale = tf_session.run(variables)
    np.testing.assert_allclose(kernel, [[0.01, -0.005], [-0.01, 0.01]])
    np.testing.assert_allclose(scale, [0.01, -0.01, 0.002])


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
