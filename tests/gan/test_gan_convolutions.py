"""Convolutions: with oneDNN and without, the values and the slopes of TensorFlow's own."""

from __future__ import annotations

import numpy as np
import pytest
from graph_fixtures import session
from toolkit_gan import convolutions

from toolkit import tf

SIDES = [(28, 28), (32, 64), (9, 14)]
CHANNELS = [(1, 16), (3, 5), (16, 3), (17, 20)]  # on both sides of what counts as wide


@pytest.fixture(params=[False, True], ids=["without-onednn", "with-onednn"])
def onednn(request, monkeypatch):
    """The forms that are chosen with oneDNN, or without, whatever this TensorFlow has."""
    monkeypatch.setattr(convolutions, "ONEDNN", request.param)
    return request.param


def values(*shape, seed=0):
    return tf.constant(np.random.RandomState(seed).normal(size=shape).astype(np.float32))


def half(sides):
    return [-(-side // 2) for side in sides]


def with_slopes(function, *arguments):
    """The value of a function, its first derivatives, and those of the sum of their squares."""
    value = function(*arguments)
    first = tf.gradients(tf.reduce_sum(value**2), arguments)
    second = tf.gradients(sum(tf.reduce_sum(slope**2) for slope in first), arguments)
    return [value] + first + second


def check_equal(function, own, *arguments):
    """Value, first and second derivatives agree to 1e-5 of the largest number."""
    with session() as s:
        pairs = s.run([with_slopes(function, *arguments), with_slopes(own, *arguments)])
    for actual, expected in zip(*pairs):
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def own_down(x, kernel):
    return tf.nn.conv2d(x, kernel, strides=2, padding="SAME")


def own_up(sides, channels):
    shape = [2] + list(sides) + [channels]
    return lambda x, kernel: tf.nn.conv2d_transpose(
        x, kernel, shape, strides=[1, 2, 2, 1], padding="SAME"
    )


@pytest.mark.parametrize("channels, filters", CHANNELS)
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("stride, size", [(1, 3), (1, 5), (1, 1), (2, 4), (1, 4), (2, 3), (2, 5)])
def test_a_convolution_has_the_value_and_the_slopes_of_tensorflows_own(
    onednn, stride, size, sides, channels, filters
):
    check_equal(
        lambda x, kernel: convolutions.convolution(x, kernel, stride),
        lambda x, kernel: tf.nn.conv2d(x, kernel, strides=stride, padding="SAME"),
        values(2, *sides, channels),
        values(size, size, channels, filters, seed=1),
    )


@pytest.mark.parametrize("channels, filters", CHANNELS)
@pytest.mark.parametrize("sides", SIDES)
def test_up_has_the_value_and_the_slopes_of_tensorflows_own(onednn, sides, channels, filters):
    check_equal(
        lambda x, kernel: convolutions.up(x, kernel, sides),
        own_up(sides, channels),
        values(2, *half(sides), filters),
        values(4, 4, channels, filters, seed=1),
    )


@pytest.mark.parametrize("channels", [1, 16])
def test_the_number_of_examples_may_be_unknown(onednn, channels):
    x, kernel = np.ones([2, 7, 7, 4], np.float32), values(4, 4, channels, 4)
    fed = tf.placeholder(tf.float32, [None, 7, 7, 4])
    outputs = with_slopes(lambda *a: convolutions.up(*a, sides=(14, 14)), fed, kernel)
    expected = with_slopes(own_up((14, 14), channels), tf.constant(x), kernel)
    with session() as s:
        for actual, own in zip(s.run(outputs, {fed: x}), s.run(expected)):
            np.testing.assert_allclose(actual, own, rtol=0, atol=1e-5 * np.abs(own).max())


def penalty(down, x, kernel):
    """R1 of a discriminator that is the sum of a convolution's squares."""
    slope = tf.gradients(tf.reduce_sum(down(x, kernel) ** 2), x)[0]
    return tf.reduce_mean(slope**2)


@pytest.mark.parametrize("channels", [1, 16])
def test_a_penaltys_slope_is_right_within_a_loop_of_the_graph(onednn, channels):
    x, kernel = values(2, 8, 8, channels), values(4, 4, channels, 5, seed=1)

    def step(value, total):
        slope = tf.gradients(penalty(convolutions.down, x * value, kernel), kernel)[0]
        return value + 1, total + slope

    _, looped = tf.while_loop(lambda value, _: value < 3, step, [1.0, tf.zeros_like(kernel)])
    single = tf.gradients(
        sum(penalty(own_down, x * value, kernel) for value in (1.0, 2.0)), kernel
    )[0]
    with session() as s:
        looped, single = s.run([looped, single])
    np.testing.assert_allclose(looped, single, rtol=0, atol=1e-5 * np.abs(single).max())
