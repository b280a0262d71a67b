"""The layers as functions: what they compute, and that it can be differentiated twice."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import evaluate, make_run
from toolkit_gan import layers
from toolkit_gan.blocks import Conv, Dense, Down, Norm, Up, Variables

from toolkit import tf


def values(*shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype(np.float32)


def test_enlarge_repeats_each_pixel_and_shrink_takes_the_mean():
    x = values(2, 3, 4, 5)
    enlarged = layers.enlarge(tf.constant(x), (6, 8))
    large, again, odd = evaluate(
        enlarged, layers.shrink(enlarged), layers.enlarge(tf.constant(x), (5, 7))
    )
    assert (large == x.repeat(2, axis=1).repeat(2, axis=2)).all()
    np.testing.assert_allclose(again, x, rtol=1e-6)
    assert (odd == large[:, :5, :7]).all()


def test_shrink_of_an_odd_side_leaves_the_border_out_of_the_mean():
    x = np.array([1, 3, 8], np.float32).reshape([1, 1, 3, 1])
    assert evaluate(layers.shrink(tf.constant(x))).ravel().tolist() == [2, 8]


def test_moments_are_those_of_numpy():
    x = values(4, 3, 2, 5)
    for moments, axes, keepdims in (
        (layers.batch_moments, (0, 1, 2), False),
        (layers.example_moments, (1, 2, 3), True),
    ):
        mean, variance = evaluate(*moments(tf.constant(x)))
        np.testing.assert_allclose(mean, x.mean(axes, keepdims=keepdims), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(variance, x.var(axes, keepdims=keepdims), rtol=1e-5)


def test_the_variance_has_its_true_second_derivative():
    # The variance of (a, b) is (a - b)^2 / 4. tf.nn.moments gives 1 for 1/2 and 0 for -1/2 here.
    x = tf.constant([[3.0], [1.0]])
    for variance in (layers.batch_moments(x)[1][0], layers.example_moments(tf.transpose(x))[1][0]):
        first = tf.gradients(variance, x)[0]
        second = evaluate(tf.gradients(first[0], x)[0])
        np.testing.assert_allclose(second.ravel(), [0.5, -0.5], rtol=1e-6)


def test_layer_norm_is_alike_for_each_example_and_finite_for_an_even_one():
    x = np.concatenate([values(1, 4, 4, 3), 100 * values(1, 4, 4, 3), np.ones([1, 4, 4, 3])])
    variables = Variables(make_run(), "test", "test")
    norm = Norm(variables, "norm", "layer", 3)
    x = tf.constant(x, tf.float32)
    result = norm(variables.read(), x, {})
    gradient = tf.gradients(tf.reduce_sum(result**2), x)[0]
    result, gradient = evaluate(result, gradient)
    np.testing.assert_allclose(result[0], result[1], atol=1e-4)
    assert (result[2] == 0).all() and np.isfinite(gradient).all()


# ------------------------------------------------------------------------------- spectral norm


def test_power_iterations_find_the_largest_singular_value():
    kernel, u = values(4, 4, 3, 5), tf.ones([5])
    kernel[..., 0] *= 3  # a clear first: 20 iterations will do
    for _ in range(20):
        normalised, u = layers.power_iteration(tf.constant(kernel), u, iterate=True)
    result, u = evaluate(normalised, u)
    largest = np.linalg.svd(kernel.reshape([-1, 5]), compute_uv=False)[0]
    np.testing.assert_allclose(result, kernel / largest, rtol=1e-4, atol=1e-6)
    assert np.linalg.norm(u) == pytest.approx(1)


def test_without_an_iteration_the_stored_vector_serves():
    kernel = tf.constant(np.diag([3.0, 1.0]).astype(np.float32))
    result, u = evaluate(*layers.power_iteration(kernel, tf.constant([0.0, 2.0]), iterate=False))
    assert result.tolist() == [[3, 0], [0, 1]] and u.tolist() == [0, 1]


def test_the_gradient_takes_inexact_singular_vectors_for_constants():
    # One iteration from u = (1, 1): v = W u = (2, 1) / sqrt(5), u = W' v = (4, 1) / sqrt(17), and
    # sigma = v' W u = 17 / sqrt(85) has the gradient v u'. The sum of W / sigma is 3 / sigma.
    kernel = tf.constant(np.diag([2.0, 1.0]).astype(np.float32))
    result, _ = layers.power_iteration(kernel, tf.constant([1.0, 1.0]), iterate=True)
    gradient = evaluate(tf.gradients(tf.reduce_sum(result), kernel)[0])
    sigma, slope = 17 / 85**0.5, np.array([[8, 2], [4, 1]]) / 85**0.5
    np.testing.assert_allclose(gradient, 1 / sigma - 3 / sigma**2 * slope, rtol=1e-5)


def test_a_kernel_of_zeros_stays_one():
    assert (evaluate(layers.power_iteration(tf.zeros([3, 2]), tf.ones([2]), True)[0]) == 0).all()


# --------------------------------------------------------------------------- second derivatives

SECOND = {
    "enlarge": lambda x, k: layers.enlarge(x, (11, 6)) * k,
    "shrink": lambda x, k: layers.shrink(x) * k,
    "leaky": lambda x, k: layers.leaky_relu(x) * k,
    "batch norm": lambda x, k: layers.normalise(x, *layers.batch_moments(x), k, 0.0),
    "layer norm": lambda x, k: layers.normalise(x, *layers.example_moments(x), k, 0.0),
}


@pytest.mark.parametrize("name", list(SECOND))
def test_the_second_derivative_is_that_of_small_differences(name):
    x, kernel = tf.constant(values(2, 6, 3, 2)), tf.constant(values(2, seed=1))

    def penalty(kernel):
        result = SECOND[name](x, kernel)
        weights = values(*result.shape.as_list(), seed=3)  # the sum of a norm's squares is fixed
        gradient = tf.gradients(tf.reduce_sum(weights * result**2), x)[0]
        return tf.reduce_mean(gradient**2)

    towards = values(2, seed=2) / np.sqrt(2)
    slope = tf.reduce_sum(tf.gradients(penalty(kernel), kernel)[0] * towards)
    ahead, behind = penalty(kernel + 0.01 * towards), penalty(kernel - 0.01 * towards)
    slope, ahead, behind = evaluate(slope, ahead, behind)
    assert slope == pytest.approx((ahead - behind) / 0.02, rel=0.02)


# ------------------------------------------------------------------------------- first values


@pytest.mark.parametrize(
    "make, inputs",
    [
        (lambda v: Dense(v, "l", 128, 64, "he_normal"), 128),
        (lambda v: Conv(v, "l", 16, 64, "he_normal"), 9 * 16),
        (lambda v: Down(v, "l", 16, 64, "he_normal"), 16 * 16),
        (lambda v: Up(v, "l", 64, 16, "he_normal"), 4 * 64),  # each pixel result sees 2x2
    ],
)
def test_the_scale_of_a_kernel_goes_by_what_one_output_sees(make, inputs):
    variables = Variables(make_run(), "test", "test")
    make(variables)
    kernel, bias = evaluate(*variables.all)
    assert kernel.std() == pytest.approx(np.sqrt(2 / inputs), rel=0.05)
    assert (bias == 0).all()
