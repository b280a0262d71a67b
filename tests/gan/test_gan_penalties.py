"""Penalties against closed forms: for D(x) = w.x the gradient at each point is w itself."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import LinearDiscriminator, Logits, Weights, evaluate, make_run
from graph_fixtures import session
from toolkit_gan import forward_pass, losses, networks, penalties
from toolkit_gan.discriminator import Discriminator
from toolkit_gan.options import GanOptions
from typing_extensions import get_args

from toolkit import UsageError, tf


def images(count, channels, seed=0, size=4):
    values = np.random.RandomState(seed).uniform(-1, 1, [count, size, size, channels])
    return tf.constant(values, tf.float32)


def uniform(shape, seed=9):
    return tf.constant(np.random.RandomState(seed).uniform(0, 1, shape), tf.float32)


def perturb(reals, u):
    variance = penalties.batch_variance(reals, make_run())
    return penalties.perturb(reals, u, variance)


def points_of(name, reals, fakes):
    if name in ("wgan-gp", "lp"):
        return penalties.interpolate(reals, fakes, uniform([int(reals.shape[0]), 1, 1, 1]))
    return perturb(reals, uniform(reals.shape.as_list())) if name == "dragan" else reals


def penalty_of(name, gradients, weight):
    if name in ("wgan-gp", "dragan"):
        return penalties.gradient_penalty(gradients, weight)
    if name == "lp":
        return penalties.one_sided_penalty(gradients, weight)
    return penalties.zero_centred_penalty(gradients, weight)


def penalise(name, discriminator, count=3, channels=2, weight=None):
    """The penalty of a discriminator: images [N, ...] -> logits [N]."""
    reals, fakes = images(count, channels, 1), images(count, channels, 2)
    points = points_of(name, reals, fakes)
    gradients = penalties.input_gradients(discriminator(points), points)
    default = penalties.DEFAULT_WEIGHT[name]
    return penalty_of(name, gradients, default if weight is None else weight)


# ------------------------------------------------------------------------- the linear discriminator


def linear(channels, norm):
    """w [4, 4, C] with |w| = norm, and the discriminator D(x) = w.x."""
    start = np.random.RandomState(5).normal(size=[4, 4, channels])
    start *= norm / np.sqrt((start**2).sum())
    w = tf.constant(start, tf.float32)
    return w, lambda x: tf.reduce_sum(w * x, axis=[1, 2, 3])


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "name, norm, value, slope",
    [
        # l (|w| - 1)^2 and its slope along w / |w|, 2 l (|w| - 1)
        ("wgan-gp", 3.0, 40.0, 40.0),
        ("wgan-gp", 0.5, 2.5, -10.0),
        ("dragan", 3.0, 40.0, 40.0),
        ("dragan", 0.5, 2.5, -10.0),
        # the same above one, nothing below
        ("lp", 3.0, 40.0, 40.0),
        ("lp", 0.5, 0.0, 0.0),
        # gamma / 2 |w|^2 and gamma |w|
        ("r1", 3.0, 0.45, 0.3),
    ],
)
def test_a_linear_discriminator_costs_its_closed_form(name, norm, value, slope, count, channels):
    w, discriminator = linear(channels, norm)
    penalty = penalise(name, discriminator, count, channels)
    value_now, gradient, start = evaluate(penalty, tf.gradients(penalty, w)[0], w)
    assert value_now == pytest.approx(value, rel=1e-4, abs=1e-7)
    np.testing.assert_allclose(gradient, slope * start / norm, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", sorted(penalties.DEFAULT_WEIGHT))
def test_a_penalty_is_proportional_to_its_weight(name):
    _, discriminator = linear(2, 3.0)
    once, thrice = [penalise(name, discriminator, weight=weight) for weight in (1.0, 3.0)]
    once, thrice = evaluate(once, thrice)
    assert once > 0 and thrice == pytest.approx(3 * once)


def test_samples_of_different_slope_cost_the_mean_of_their_penalties():
    # Gradients of norm 3 and 1: of one norm over the batch, sqrt(10), it would be 46.75.
    gradients = tf.constant([[3.0, 0.0], [0.0, -1.0]])
    assert evaluate(penalties.gradient_penalty(gradients, 10.0)) == pytest.approx(20.0)
    assert evaluate(penalties.zero_centred_penalty(gradients, 0.1)) == pytest.approx(0.25)


def test_the_one_sided_penalty_ignores_slopes_below_one():
    gradients = tf.constant([[3.0, 0.0], [0.0, -0.2]])
    assert evaluate(penalties.one_sided_penalty(gradients, 10.0)) == pytest.approx(20.0)


def test_a_norm_is_taken_over_all_axes_of_a_sample():
    # 2 x 2 x 4 ones have the norm 4; by pixel it were 2, over the batch of three 4 sqrt(3).
    np.testing.assert_allclose(evaluate(penalties.gradient_norms(tf.ones([3, 2, 2, 4]))), [4, 4, 4])


def test_a_norm_has_the_epsilon_under_the_root():
    np.testing.assert_allclose(evaluate(penalties.gradient_norms(tf.zeros([2, 3]))), [1e-4, 1e-4])


def test_input_gradients_are_each_samples_own_and_not_a_share_of_the_mean():
    x = tf.constant([[1.0], [2.0], [3.0]])
    gradients = penalties.input_gradients(tf.squeeze(x**2, 1), x)
    assert evaluate(gradients).tolist() == [[2.0], [4.0], [6.0]]


# -------------------------------------------------------------- the linear discriminator in a step


class LinearImageDiscriminator(LinearDiscriminator):
    """A discriminator w . x of images, whose gradient at images is w everywhere."""

    def __init__(self, w):
        super().__init__()
        self.variables = [tf.get_variable("w", initializer=tf.constant(w), use_resource=True)]

    def weights(self, iterate):
        return Weights([v.read_value() for v in self.variables])

    def __call__(self, images, labels, weights):
        self.calls.append(images)
        return Logits(tf.reduce_sum(weights.values[0] * images, axis=[1, 2, 3]))


class GreyGenerator:
    """A generator of grey images."""

    variables = ()

    def __call__(self, z, labels=None, statistics=None):
        return tf.zeros([tf.shape(z)[0], 2, 2, 3])


W = np.zeros([2, 2, 3], np.float32)
W[0, 0, 0], W[1, 1, 2] = 3.0, 4.0  # norm 5


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize(
    "penalty, value, slope",
    [
        # with the default weights, 10 for norms and 0.1 for squares
        ("wgan-gp", 160, 16),  # 10 (5 - 1)^2 and 20 (5 - 1) w / 5
        ("lp", 160, 16),
        ("dragan", 160, 16),
        ("r1", 1.25, 0.1),  # 0.1 / 2 * 25 and 0.1 w
        ("r1r2", 2.5, 0.2),  # R1 + R2, with as many fakes as reals
    ],
)
def test_a_step_adds_the_closed_form_for_a_linear_discriminator(penalty, value, slope, count):
    run = make_run(shape=(2, 2, 3), penalty=penalty, batch_size=count, loss="wasserstein")
    model = networks.Gan(GreyGenerator(), LinearImageDiscriminator(W), None)
    reals = tf.ones([count, 2, 2, 3])
    outputs, _ = forward_pass.discriminator_pass(model, run, reals, None, 0)
    penalty = losses.named_losses(outputs, run)["penalty"]
    result, gradient = evaluate(penalty, tf.gradients(penalty, model.discriminator.variables)[0])
    assert result == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(gradient, slope * W, rtol=1e-4)


def test_every_penalty_of_the_options_has_a_default_weight_and_the_reverse():
    choices = set(get_args(GanOptions.model_fields["penalty"].annotation))
    assert choices - {"none"} == set(penalties.DEFAULT_WEIGHT)


# --------------------------------------------------------------- discriminators without a gradient


@pytest.mark.parametrize("name", sorted(penalties.DEFAULT_WEIGHT))
def test_a_constant_discriminator_has_finite_gradients(name):
    w = tf.zeros([4, 4, 2])
    penalty = penalise(name, lambda x: 7.0 + tf.reduce_sum(w * x, axis=[1, 2, 3]))
    value, gradient = evaluate(penalty, tf.gradients(penalty, w)[0])
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_dragan_points_of_a_blank_batch_have_a_finite_gradient():
    reals = tf.ones([2, 4, 4, 1])
    points = perturb(reals, uniform([2, 4, 4, 1]))
    value, gradient = evaluate(points, tf.gradients(points, reals)[0])
    np.testing.assert_allclose(value, 1.0, atol=1e-5)
    assert np.isfinite(gradient).all()


def test_a_discriminator_of_other_images_is_refused():
    x, y = images(2, 1), images(2, 1, seed=3)
    with pytest.raises(UsageError, match="do not depend on the images"):
        penalties.input_gradients(tf.reduce_sum(y, axis=[1, 2, 3]), x)


# TensorFlow 1.15 can differentiate each of these once; 2.x some of them twice.
ONCE_ONLY = {
    "Softsign": tf.nn.softsign,
    "LRN": tf.nn.lrn,
    "ResizeNearestNeighbor": lambda x: tf.image.resize_nearest_neighbor(x, [8, 8]),
    "ResizeBilinear": lambda x: tf.image.resize_bilinear(x, [8, 8]),
    "ResizeBicubic": lambda x: tf.image.resize_bicubic(x, [8, 8]),
    "FractionalMaxPool": lambda x: tf.nn.fractional_max_pool(x, [1, 1.5, 1.5, 1])[0],
}


def tensorflow_differentiates_twice(act):
    """Whether TensorFlow has the second derivative of a discriminator with the layer `act`."""
    with tf.Graph().as_default():
        x, w = images(2, 1), tf.ones([4, 4, 1])
        gradient = tf.gradients(tf.reduce_sum(tf.square(act(w * x))), x)[0]
        try:
            tf.gradients(tf.reduce_sum(tf.square(gradient)), w)
        except LookupError:
            return False
    return True


@pytest.mark.parametrize("kind", sorted(ONCE_ONLY))
def test_an_op_without_a_second_derivative_is_refused_by_name(kind):
    act = ONCE_ONLY[kind]
    if tensorflow_differentiates_twice(act):
        pytest.skip(f"this TensorFlow has a second derivative of {kind}")
    x = images(2, 1)
    with tf.name_scope("critic"):
        logits = tf.reduce_sum(tf.square(act(tf.ones([4, 4, 1]) * x)), axis=[1, 2, 3])
    with pytest.raises(UsageError, match=f"none of op 'critic/{kind}' .*{kind}Grad") as error:
        penalties.input_gradients(logits, x)
    assert "--spectral-norm" in error.value.hint


def test_at_least_one_op_is_refused_on_this_tensorflow():
    assert not all(tensorflow_differentiates_twice(act) for act in ONCE_ONLY.values())


def test_an_op_without_a_first_derivative_is_refused_by_name():
    x = images(2, 3)
    logits = tf.reduce_sum(tf.image.adjust_hue(x, 0.1), axis=[1, 2, 3])
    with pytest.raises(UsageError, match="AdjustHue"):
        penalties.input_gradients(logits, x)


def test_a_while_loop_is_refused():
    x = images(2, 1)
    _, doubled = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * y), [0, x])
    with pytest.raises(UsageError, match="none of a while loop"):
        penalties.input_gradients(tf.reduce_sum(doubled, axis=[1, 2, 3]), x)


def test_an_error_of_another_kind_passes_through():
    with pytest.raises(LookupError, match="another matter"), penalties.derivative_errors():
        raise LookupError("another matter")


@pytest.mark.parametrize(
    "act",
    [
        tf.nn.leaky_relu,
        tf.nn.softplus,
        lambda x: tf.nn.space_to_depth(x, 2),
        lambda x: tf.nn.avg_pool(x, 2, 2, "SAME"),
        lambda x: tf.nn.max_pool(x, 2, 2, "SAME"),
        lambda x: tf.nn.conv2d(x, tf.ones([3, 3, 1, 2]), [1, 2, 2, 1], "SAME"),
        lambda x: (x - tf.reduce_mean(x, 3, keepdims=True)) / tf.sqrt(tf.reduce_mean(x * x) + 1e-5),
    ],
    ids=[
        "leaky_relu",
        "softplus",
        "space_to_depth",
        "avg_pool",
        "max_pool",
        "conv2d",
        "layer_norm",
    ],
)
def test_the_ops_of_discriminators_are_accepted(act):
    w = tf.ones([4, 4, 1])
    penalty = penalise(
        "wgan-gp", lambda x: tf.reduce_sum(tf.square(act(w * x)), axis=[1, 2, 3]), channels=1
    )
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


def test_points_around_move_by_half_the_deviation_of_the_whole_batch():
    # Two images of five pixels, their mean is 1, the variance (2 * 16 + 8 * 1) / 10 and the
    # deviation 2. Of each image alone it is sqrt(6) and 0, of each pixel alone 2.5 or 0.
    reals = np.zeros([2, 1, 5, 1], np.float32)
    reals[0, 0, :2] = 5
    points = perturb(tf.constant(reals), tf.ones([2, 1, 5, 1]))
    np.testing.assert_allclose(evaluate(points), reals + 1, rtol=1e-6)


def test_points_around_move_each_number_by_its_own_u():
    reals = tf.constant([[-3.0, 3.0]])
    points = perturb(reals, tf.constant([[0.0, 0.5]]))
    np.testing.assert_allclose(evaluate(points), [[-3, 3.75]], rtol=1e-6)


# ----------------------------------------------------------------------------------------- clipping


def variable(name, values, trainable=True):
    return tf.get_variable(
        name, initializer=tf.constant(values), use_resource=True, trainable=trainable
    )


def test_clipping_bounds_each_number_and_changes_none_within():
    kernel = variable("kernel", [[0.5, -0.005], [-2.0, 0.01]])
    scale = variable("gamma", [0.5, -0.5, 0.002])
    with session() as tf_session:
        tf_session.run(penalties.clip_weights([kernel, scale], 0.01))
        kernel, scale = tf_session.run([kernel, scale])
    np.testing.assert_allclose(kernel, [[0.01, -0.005], [-0.01, 0.01]])
    np.testing.assert_allclose(scale, [0.01, -0.01, 0.002])


def test_clipping_reads_the_weights_after_the_update_before_it():
    kernel = variable("kernel", [[0.0]])
    update = kernel.assign_add([[5.0]], read_value=False)
    with tf.control_dependencies([update]):
        clip = penalties.clip_weights([kernel], 0.5)
    with session() as tf_session:
        for _ in range(20):
            tf_session.run(clip)
            assert tf_session.run(kernel).tolist() == [[0.5]]


def test_clipping_nothing_is_an_op_that_does_nothing():
    with session() as tf_session:
        assert tf_session.run(penalties.clip_weights([], 0.01)) is None


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_clipping_bounds_all_of_the_discriminator_but_learned_inputs(norm):
    run = make_run(
        network="mlp",
        classes=2,
        conditional="concat",
        discriminator_norm=norm,
        spectral_norm=True,
    )
    discriminator = Discriminator(run)
    with session() as tf_session:
        tf_session.run(penalties.clip_weights(discriminator.slope_variables, 1e-9))
        values = tf_session.run({v.op.name: v for v in tf.global_variables()})
    is_large = {name for name, value in values.items() if abs(value).max() > 1e-8}
    assert any(name.endswith("/gamma") for name in values)
    assert is_large == {n for n in values if n.endswith(("/u", "label/images"))}


def steepest_slope(discriminator):
    """The largest slope at random images."""
    images = tf.constant(np.random.RandomState(0).randn(64, 8, 8, 1).astype(np.float32))
    logits = discriminator(images, None, discriminator.weights(False)).logits
    return tf.reduce_max(penalties.gradient_norms(penalties.input_gradients(logits, images)))


def test_with_batch_norm_the_scales_set_the_slope_and_clipping_bounds_it():
    # As training does where nothing bounds the scales: gamma grows tenfold, kernels stay small.
    slopes = {}
    for scale in (1.0, 10.0):
        for limit in (0.0, 0.01):
            with tf.Graph().as_default():
                run = make_run(network="mlp", discriminator_norm="batch")
                discriminator = Discriminator(run)
                gammas = [v for v in discriminator.variables if v.op.name.endswith("/gamma")]
                grow = tf.group(*[v.assign(v.read_value() * scale) for v in gammas])
                with tf.control_dependencies([grow]):
                    clip = penalties.clip_weights(discriminator.slope_variables, limit or 1e9)
                with tf.control_dependencies([clip]):
                    slope = steepest_slope(discriminator)
                slopes[scale, limit] = float(evaluate(slope))
    assert slopes[10.0, 0.0] > 5 * slopes[1.0, 0.0]
    assert slopes[10.0, 0.01] == pytest.approx(slopes[1.0, 0.01], rel=1e-3)
