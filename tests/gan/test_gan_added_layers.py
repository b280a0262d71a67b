"""The layers that options add: attention, conditional batch norm, minibatch standard deviation."""

import numpy as np
import pytest
from gan_fixtures import evaluate, images_of, make_run, options, session, z_of
from toolkit_gan import architecture, checks, layers, penalties
from toolkit_gan.blocks import Attention, Norm, Variables
from toolkit_gan.discriminator import Discriminator
from toolkit_gan.generator import Generator

from toolkit import UsageError, tf


def of_attention(variables):
    return {v.op.name.split("attention/")[1]: v for v in variables if "/attention/" in v.op.name}


def test_the_layer_adds_the_scaled_attention_of_a_map_to_it():
    variables = Variables(make_run(), "test", "test")
    layer = Attention(variables, 16, "he_normal")
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


@pytest.mark.parametrize("network", architecture.ATTENTIVE)
def test_both_networks_have_it_in_the_map_of_that_side_and_start_without_it(network):
    settings = {"network": network, "latent_size": 5, "width": 8, "spectral_norm": False}
    run, plain = (make_run((28, 20, 3), attention=side, **settings) for side in (14, 0))
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
    logits, others = (n(images, None, n.read()).logits for n in (discriminator, plain[1]))
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


@pytest.mark.parametrize(
    "shape, side, sides",
    [
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


GAMMA = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)  # [K, C]
BETA = np.array([[0.0, -1.0], [10.0, 20.0], [7.0, 8.0]], np.float32)


@pytest.mark.parametrize("sides", [(), (2, 3)])
def test_each_example_has_the_gamma_and_beta_of_its_label(sides):
    x = np.random.RandomState(0).normal(3, 2, size=(4,) + sides + (2,)).astype(np.float32)
    labels = np.array([0, 1, 1, 2])
    norm = Norm(Variables(make_run(), "test", "test"), "norm", "batch", 2, num_labels=3)
    stored = {"norm/gamma": tf.constant(GAMMA.ravel()), "norm/beta": tf.constant(BETA.ravel())}
    values = dict(stored, **norm.rows(stored, tf.one_hot(labels, 3)))
    moments = {}
    inputs = tf.constant(x)
    results = norm(values, inputs, None), norm(values, inputs, moments)
    part = dict(stored, **norm.rows(stored, tf.one_hot(labels[:2], 3)))
    again = norm(part, inputs[:2] + 5, moments)  # the moments of the first call
    slope = tf.gradients(tf.reduce_sum(results[0][:3]), stored["norm/beta"])[0]
    fused, plain, again, slope = evaluate(*results, again, slope)
    axes, shape = tuple(range(len(sides) + 1)), (-1,) + (1,) * len(sides) + (2,)
    deviation = np.sqrt(x.var(axes) + 1e-5)
    expected = (x - x.mean(axes)) / deviation * GAMMA[labels].reshape(shape)
    expected += BETA[labels].reshape(shape)
    np.testing.assert_allclose(fused, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=1e-4)
    shift = 5 / deviation * GAMMA[labels[:2]].reshape(shape)
    np.testing.assert_allclose(again, expected[:2] + shift, rtol=1e-4, atol=1e-4)
    pixels = int(np.prod(sides))
    assert slope.reshape(3, 2).tolist() == [[pixels] * 2, [2 * pixels] * 2, [0, 0]]


@pytest.mark.parametrize("network", ["mlp", "dcgan", "resnet"])
def test_a_generator_starts_alike_for_all_labels_and_learns_each_ones_row(network):
    by_label = {"conditional": "projection", "generator_conditional": "batch-norm"}
    run = make_run(classes=3, network=network, latent_size=5, norm_samples=20, **by_label)
    generator = Generator(run)
    names = [v.op.name for v in generator.variables]
    scales = [v for v in generator.variables if v.op.name.endswith("/beta")]
    assert all(v.shape.ndims == 1 for v in scales)  # no weight decay, as for a bias
    assert "generator/label/images" not in names
    z, labels = tf.tile(z_of(1), [3, 1]), tf.constant([0, 1, 2])
    statistics = generator.statistics(z_of(20), tf.constant(np.arange(20) % 3))
    images = generator(z, labels, statistics)
    row = np.zeros(scales[0].shape.as_list(), np.float32).reshape(3, -1)
    row[1] = 3
    with session() as tf_session:
        before, constant = tf_session.run([images, statistics])
        tf_session.run(scales[0].assign(row.ravel()))
        feeds = dict(zip(statistics, constant))
        after = tf_session.run(images, feeds)
    np.testing.assert_allclose(before[0], before[1], atol=1e-5)
    changes = np.abs(after - before).max((1, 2, 3))
    assert changes[1] > 1e-3 and changes[[0, 2]].max() < 1e-5


@pytest.mark.parametrize("is_known", [True, False], ids=["size known", "size unknown"])
@pytest.mark.parametrize("count, groups", [(12, (3, 4, 5)), (8, (2, 4, 5)), (7, (1, 7, 5))])
def test_an_image_has_the_deviation_of_its_group_or_of_an_odd_batch(count, groups, is_known):
    x = np.random.RandomState(0).normal(size=(count, 5)).astype(np.float32)
    inputs = tf.placeholder_with_default(x, (count if is_known else None, 5))
    result = evaluate(layers.group_stddev(inputs, 4))
    expected = np.repeat(x.reshape(groups).std(axis=1).mean(axis=1), groups[1])  # of features
    np.testing.assert_allclose(result[:, 0], expected, rtol=1e-5)


def test_equal_images_have_finite_gradients_of_both_orders():
    x = tf.ones([4, 5])
    stddev = layers.group_stddev(x, 4)
    (slope,) = tf.gradients(stddev, x)
    curvature = tf.gradients(tf.reduce_sum(tf.square(slope)), x)[0]
    for values in evaluate(stddev, slope, curvature):
        assert np.isfinite(values).all()


@pytest.mark.parametrize("network", ["mlp", "dcgan"])
def test_the_heads_have_one_more_input_that_each_group_shares(network):
    values = {"network": network, "classes": 3, "conditional": "projection"}
    discriminator = Discriminator(make_run(minibatch_stddev=2, **values))
    with tf.variable_scope("plain"), tf.Graph().as_default():
        plain = Discriminator(make_run(**values)).variables
    sizes = [[v.shape.num_elements() for v in vs] for vs in (discriminator.variables, plain)]
    extra = {v.op.name: a - b for v, a, b in zip(discriminator.variables, *sizes) if a != b}
    assert extra == {"discriminator/logits/kernel": 1, "discriminator/embedding/kernel": 3}
    images, labels = images_of(), tf.constant([0, 1, 2, 0])
    values = discriminator.read()
    half, whole = (discriminator(images[:n], labels[:n], values).logits for n in (2, 4))
    gradients = penalties.input_gradients(whole[:1], images)
    half, whole, gradients = evaluate(half, whole, gradients)
    np.testing.assert_allclose(whole[:2], half, atol=1e-5)  # the other group has no part
    assert [bool(abs(g).max()) for g in gradients] == [True, True, False, False]


def test_each_replica_has_whole_groups():
    chosen = options(minibatch_stddev=2)
    checks.check_method(chosen, 66, num_replicas=3)
    with pytest.raises(UsageError, match="batch_size is 64 for 3 replicas, but the part of each"):
        checks.check_method(chosen, 64, num_replicas=3)
