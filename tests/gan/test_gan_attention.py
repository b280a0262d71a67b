"""Self-attention: its values, its place in both networks, and its second derivative."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import evaluate, images_of, make_run, z_of
from graph_fixtures import session
from toolkit_gan import architecture, attention
from toolkit_gan.blocks import Variables
from toolkit_gan.discriminator import Discriminator
from toolkit_gan.generator import Generator

from toolkit import tf


def make_attentive_run(network, shape=(28, 20, 3), **values):
    settings = {"attention": 14, "latent_size": 5, "width": 8, "spectral_norm": False}
    return make_run(shape, network=network, **dict(settings, **values))


def of_attention(variables):
    return {v.op.name.split("attention/")[1]: v for v in variables if "/attention/" in v.op.name}


# ------------------------------------------------------------------------------------- values


def test_each_position_takes_the_values_of_the_keys_that_its_query_fits():
    # exp(inner product) is 1, 2 and 4, then 1, 1/2 and 1/4; the values are 0, 7 and 14.
    log = np.log(2)
    queries = tf.constant([[[1.0, 0.0], [-1.0, 5.0], [0.0, 0.0]]])
    keys = tf.constant([[[0.0, 0.0], [log, 0.0], [2 * log, 0.0]]], tf.float32)
    values = tf.constant([[[0.0], [7.0], [14.0]]])
    result = evaluate(attention.attend(queries, keys, values))
    assert result[0, :, 0].tolist() == pytest.approx([10, 4, 7])


def test_the_layer_adds_the_scaled_attention_of_a_map_to_it():
    variables = Variables(make_run(), "test", "test")
    layer = attention.Attention(variables, 16, "he_normal")
    values = dict(variables.read(), **{"attention/scale": tf.constant([0.5])})
    x = images_of(2, 3, 4, 16)
    kernels = {name: tf.reshape(values[f"attention/{name}/kernel"], [-1]) for name in NAMES}
    result, x, kernels = evaluate(layer(values, x), x, kernels)
    np.testing.assert_allclose(result, expected_attention(x, kernels, 0.5), rtol=1e-3, atol=1e-4)


NAMES = ("query", "key", "value", "output")


def expected_attention(x, kernels, scale):
    """The layer's values by numpy, for a map of 3 x 4 pixels, which is halved to 2 x 2."""
    count, channels = len(x), x.shape[-1]
    rows = np.stack([x[:, :2].mean(1), x[:, 2]], axis=1)  # [N, 2, 4, C]
    half = (rows[:, :, ::2] + rows[:, :, 1::2]) / 2
    query, key, value = (kernels[name].reshape(channels, -1) for name in NAMES[:3])
    query = x.reshape(count, -1, channels) @ query  # [N, 12, C / 8]
    key, value = (half.reshape(count, -1, channels) @ kernel for kernel in (key, value))
    weights = np.exp(query @ key.transpose(0, 2, 1))
    weights /= weights.sum(-1, keepdims=True)
    return x + scale * (weights @ value @ kernels["output"].reshape(-1, channels)).reshape(x.shape)


# ------------------------------------------------------------------------------------- networks


@pytest.mark.parametrize("network", architecture.ATTENTIVE)
def test_both_networks_have_it_in_the_map_of_that_side_and_start_without_it(network):
    run, plain = (make_attentive_run(network, attention=side) for side in (14, 0))
    generator, discriminator = Generator(run), Discriminator(run)
    scopes = {"reuse": tf.AUTO_REUSE, "use_resource": True}
    with tf.variable_scope("", **scopes):  # the same variables, but those of attention
        plain = Generator(plain), Discriminator(plain)
    widths = 16 if network == "resnet" else 8, 8  # of the maps of 14 x 10 pixels
    for channels, part in zip(widths, (generator, discriminator)):
        shapes = {name: v.shape.as_list() for name, v in of_attention(part.variables).items()}
        assert shapes["value/kernel"] == [1, 1, channels, channels // 2]
        assert shapes["query/kernel"] == shapes["key/kernel"] == [1, 1, channels, channels // 8]
        assert shapes["output/kernel"] == [1, 1, channels // 2, channels]
        assert shapes["scale"] == [1] and len(shapes) == 5
    images = generator(tf.placeholder_with_default(z_of(3), [None, 5]))
    logits, others = (
        network(images, None, network.weights(False)).logits
        for network in (discriminator, plain[1])
    )
    scales = [of_attention(n.variables)["scale"] for n in (generator, discriminator)]
    with session() as tf_session:
        first, other, one, two = tf_session.run([images, plain[0](z_of(3)), logits, others])
        np.testing.assert_allclose(first, other, atol=1e-5)
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
        for scale in scales:
            tf_session.run(scale.assign([3.0]))
        assert np.abs(tf_session.run(images) - first).max() > 1e-4
        one, two = tf_session.run([logits, others])
        assert np.abs(one - two).max() > 1e-5 * np.abs(two).max()


@pytest.mark.parametrize("network", architecture.ATTENTIVE)
def test_a_gradient_penalty_reaches_its_kernels_once_the_scale_is_not_zero(network):
    run = make_attentive_run(network, spectral_norm=True)
    discriminator = Discriminator(run)
    layer, images = of_attention(discriminator.variables), images_of(2, 28, 20, 3)
    weights = discriminator.weights(iterate=True)
    kernels = [v for v in discriminator.variables if v.op.name.endswith("/kernel")]
    assert len(weights.updates) == len(kernels)  # attention's, too, have a power iteration
    logits = discriminator(images, None, weights).logits
    gradient = tf.gradients(tf.reduce_sum(logits), images)[0]
    slopes = tf.gradients(tf.reduce_sum(gradient**2), list(layer.values()))
    with session() as tf_session:
        tf_session.run(layer["scale"].assign([1.0]))
        for name, value in zip(layer, tf_session.run(slopes)):
            assert np.isfinite(value).all() and np.abs(value).max() > 0, name


@pytest.mark.parametrize(
    "shape, side, sides",
    [
        ((28, 28, 1), 14, (14, 14)),
        ((28, 28, 1), 16, (14, 14)),  # the largest that is not larger
        ((28, 28, 1), 13, (7, 7)),
        ((28, 28, 1), 6, None),
        ((28, 28, 1), 28, (14, 14)),  # the image itself is no feature map
        ((128, 96, 3), 16, (16, 12)),
        ((40, 64, 3), 10, (10, 16)),
        ((28, 28, 1), 0, None),
    ],
)
def test_the_side_names_the_largest_map_that_is_not_larger(shape, side, sides):
    run = make_run(shape, attention=side)
    assert architecture.attention_sides(run.options, shape) == sides
