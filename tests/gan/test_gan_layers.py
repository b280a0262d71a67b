"""The layers as functions: what they compute, and that it can be differentiated twice.

Convolutions have the values and the slopes of TensorFlow's own, with oneDNN and without.
"""

import numpy as np
import pytest
from gan_fixtures import evaluate, make_run
from toolkit_gan import layers, r3gan
from toolkit_gan.blocks import Conv, Dense, Down, Norm, Up, Variables

from toolkit import convolutions, tf


def values(*shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype(np.float32)


def normal(*shape, seed=0):
    return tf.constant(values(*shape, seed=seed))


def test_enlarge_repeats_each_pixel_and_shrink_takes_the_mean():
    x = values(2, 3, 4, 5)
    enlarged, odd = (layers.enlarge(tf.constant(x), sides) for sides in ((6, 8), (5, 7)))
    large, again, odd = evaluate(enlarged, layers.shrink(enlarged), odd)
    assert (large == x.repeat(2, axis=1).repeat(2, axis=2)).all()
    np.testing.assert_allclose(again, x, rtol=1e-6)
    assert (odd == large[:, :5, :7]).all()


def test_shrink_of_an_odd_side_leaves_the_border_out_of_the_mean():
    x = np.array([1, 3, 8], np.float32).reshape([1, 1, 3, 1])
    assert evaluate(layers.shrink(tf.constant(x))).ravel().tolist() == [2, 8]


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
    inputs = tf.constant(x, tf.float32)
    result = norm(variables.read(), inputs, {})
    gradient = tf.gradients(tf.reduce_sum(result**2), inputs)[0]
    result, gradient = evaluate(result, gradient)
    expected = (x[0] - x[0].mean()) / x[0].std()
    np.testing.assert_allclose(result[:2], [expected, expected], atol=1e-4)
    assert (result[2] == 0).all() and np.isfinite(gradient).all()


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


SIDES = [(12, 16), (9, 14)]
CHANNELS = [(3, 5), (16, 3), (17, 20)]  # on both sides of what counts as wide


@pytest.fixture(params=[False, True], ids=["without-onednn", "with-onednn"])
def onednn(request, monkeypatch):
    """The forms that are chosen with oneDNN, or without, whatever this TensorFlow has."""
    monkeypatch.setattr(convolutions, "ONEDNN", request.param)
    return request.param


def with_slopes(function, *arguments):
    """The value of a function, its first derivatives, and those of the sum of their squares."""
    value = function(*arguments)
    first = tf.gradients(tf.reduce_sum(value**2), arguments)
    second = tf.gradients(sum(tf.reduce_sum(slope**2) for slope in first), arguments)
    return [value] + first + second


def check_equal(function, own, *arguments):
    """Value, first and second derivatives agree to 1e-5 of the largest number."""
    pairs = evaluate(with_slopes(function, *arguments), with_slopes(own, *arguments))
    for actual, expected in zip(*pairs):
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("channels, filters", CHANNELS)
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("stride, size", [(1, 3), (1, 1), (2, 4), (1, 4), (2, 3)])
def test_a_convolution_is_tensorflows_own(onednn, stride, size, sides, channels, filters):
    check_equal(
        lambda x, kernel: convolutions.convolution(x, kernel, stride),
        lambda x, kernel: tf.nn.conv2d(x, kernel, strides=stride, padding="SAME"),
        normal(2, *sides, channels),
        normal(size, size, channels, filters, seed=1),
    )


@pytest.mark.parametrize("channels, filters", CHANNELS)
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("is_known", [True, False], ids=["size known", "size unknown"])
def test_up_is_tensorflows_own(onednn, is_known, sides, channels, filters):
    shape = [2] + list(sides) + [channels]
    half = [-(-side // 2) for side in sides]
    x = normal(2, *half, filters)
    check_equal(
        lambda x, kernel: convolutions.up(x, kernel, sides),
        lambda x, kernel: tf.nn.conv2d_transpose(x, kernel, shape, strides=2, padding="SAME"),
        x if is_known else tf.placeholder_with_default(x, [None, *half, filters]),
        normal(4, 4, channels, filters, seed=1),
    )


def test_groups_of_channels_are_convolved_by_kernels_of_their_own():
    random = np.random.RandomState(0)
    x, kernel = random.randn(2, 5, 4, 6), random.randn(3, 3, 2, 9)  # three groups of two channels
    whole = np.zeros([3, 3, 6, 9])
    for group in range(3):
        rows, columns = slice(2 * group, 2 * group + 2), slice(3 * group, 3 * group + 3)
        whole[:, :, rows, columns] = kernel[:, :, :, columns]
    x, kernel, whole = (tf.constant(values, tf.float32) for values in (x, kernel, whole))
    grouped = r3gan.GroupConv.apply(x, kernel)
    expected = tf.nn.conv2d(x, whole, strides=1, padding="SAME")
    np.testing.assert_allclose(*evaluate(grouped, expected), atol=1e-5)


def test_resampling_is_bilinear_and_keeps_the_brightness():
    identity = tf.ones([1, 1, 1, 1])
    dot = np.zeros([1, 4, 4, 1], np.float32)
    dot[0, 1, 1] = 1
    plain = tf.ones([1, 4, 4, 1])
    dot_up, plain_up, plain_down, dot_down = evaluate(
        r3gan.SmoothUp.apply(tf.constant(dot), identity, (8, 8)),
        r3gan.SmoothUp.apply(plain, identity, (7, 8)),
        r3gan.SmoothDown.apply(tf.ones([1, 8, 8, 1]), identity),
        r3gan.SmoothDown.apply(tf.constant(dot), identity),
    )
    row = np.array([1, 3, 3, 1]) / 4  # of a bilinear doubling
    np.testing.assert_allclose(dot_up[0, 1:5, 1:5, 0], np.outer(row, row), atol=1e-6)
    assert dot_up.sum() == pytest.approx(4)
    assert plain_up.shape == (1, 7, 8, 1)
    np.testing.assert_allclose(plain_up[0, 1:6, 1:7], 1, atol=1e-6)
    np.testing.assert_allclose(plain_down[0, 1:3, 1:3], 1, atol=1e-6)
    # Pixel 1 has the weight 3 / 8 in the first output pixel and 1 / 8 in the second.
    np.testing.assert_allclose(dot_down[0, :, 0, 0] * 64, [9, 3], atol=1e-5)


def test_a_block_starts_as_the_identity_with_kernels_that_keep_the_scale():
    variables = Variables(make_run(network="r3gan"), "scope", "scope")
    block = r3gan.Block(variables, "block", 64, 16)
    x = tf.constant(np.random.RandomState(0).randn(2, 4, 4, 64), tf.float32)
    values = variables.read()
    kernels = [values[f"block/conv{number}/kernel"] for number in (1, 2, 3)]
    y, before, first, second, third = evaluate(block(values, x), x, *kernels)
    np.testing.assert_array_equal(y, before)
    gain = np.sqrt(2 / 1.04) / 2  # of sixteen blocks: 16 ** -0.25
    assert first.shape == (1, 1, 64, 128) and second.shape == (3, 3, 16, 128)
    assert first.std() == pytest.approx(gain / np.sqrt(64), rel=0.05)
    assert second.std() == pytest.approx(gain / np.sqrt(9 * 16), rel=0.05)
    assert not third.any()
