"""The networks of R3GAN: their layers against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gan_fixtures import evaluate, make_run
from toolkit_gan import networks, r3gan
from toolkit_gan.blocks import Variables
from toolkit_gan.penalties import input_gradients, zero_centred_penalty

from toolkit import tf


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
    gain = math.sqrt(2 / 1.04) / 2  # of sixteen blocks: 16 ** -0.25
    assert first.shape == (1, 1, 64, 128) and second.shape == (3, 3, 16, 128)
    assert first.std() == pytest.approx(gain / math.sqrt(64), rel=0.05)
    assert second.std() == pytest.approx(gain / math.sqrt(9 * 16), rel=0.05)
    assert not third.any()


@pytest.mark.parametrize("shape", [(8, 8, 1), (13, 21, 3)])
def test_the_networks_fit_the_images_and_have_second_derivatives(shape):
    values = {"classes": 3, "conditional": "projection", "width": 2}
    run = make_run(shape, network="r3gan", preset="r1r2", **values)
    model = networks.build(run)
    z, labels = tf.ones([2, run.options.latent_size]), tf.constant([0, 2])
    images = model.generator(z, labels)
    assert images.shape.as_list()[1:] == list(shape)
    logits = model.discriminator(images, labels, model.discriminator.weights(False)).logits
    penalty = zero_centred_penalty(input_gradients(logits, images), 1.0)
    names = [v.op.name for v in model.discriminator.variables + model.generator.variables]
    biases = [name for name in names if name.endswith("/bias")]
    assert all("/conv1/" in n or "/conv2/" in n or n == "critic/logits/bias" for n in biases)
    gradients = tf.gradients(penalty, model.discriminator.variables)
    present = [g for g in gradients if g is not None]
    assert all(np.isfinite(g).all() for g in evaluate(penalty, *present))
    assert len(present) > len(gradients) / 2
