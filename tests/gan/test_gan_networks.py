"""Generator and discriminator: shapes, names, and what they read and write."""

import numpy as np
import pytest
from gan_fixtures import evaluate, images_of, session, z_of
from gan_fixtures import make_run as make_gan_run
from toolkit_gan import checks
from toolkit_gan import discriminator as discriminators
from toolkit_gan.discriminator import Discriminator
from toolkit_gan.generator import Generator

from toolkit import tf
from toolkit.graph.run import step_builder_of

NETWORKS = ["mlp", "dcgan", "resnet"]
CONDITIONAL = ["none", "concat", "acgan", "projection"]


def make_run(shape=(8, 8, 1), classes=3, **values):
    small = {"latent_size": 5, "spectral_norm": False}
    return make_gan_run(shape=shape, classes=classes, **dict(small, **values))


def labels_of(count):
    return tf.constant(np.arange(count) % 3, tf.int32)


def names_of(variables):
    return [v.op.name for v in variables]


@pytest.mark.parametrize(
    "shape, values, expected",
    [
        (  # 28 pixels are halved twice, and filters doubled once.
            (28, 28, 1),
            {"width": 32, "latent_size": 64},
            {
                "generator/dense/kernel": [64, 7 * 7 * 64],
                "generator/conv2/kernel": [4, 4, 32, 64],
                "generator/output/kernel": [4, 4, 1, 32],
                "discriminator/conv1/kernel": [4, 4, 1, 32],
                "discriminator/conv2/kernel": [4, 4, 32, 64],
                "discriminator/logits/kernel": [7 * 7 * 64, 1],
            },
        ),
        # Larger images make more layers,
        ((8, 8, 3), {}, {"discriminator/logits/kernel": [4 * 4 * 4, 1]}),
        ((64, 64, 3), {}, {"discriminator/logits/kernel": [8 * 8 * 16, 1]}),
        (  # whose filters stop at eight times the width.
            (256, 256, 1),
            {"width": 2},
            {
                "discriminator/conv4/kernel": [4, 4, 8, 16],
                "discriminator/conv5/kernel": [4, 4, 16, 16],
            },
        ),
        (  # The images of labels are inputs as large as an example. They have one axis, as a bias
            # has: neither weight clipping nor weight decay shrinks them.
            (16, 16, 3),
            {"conditional": "concat"},
            {
                "discriminator/label/images": [3 * 16 * 16 * 3],
                "discriminator/conv1/kernel": [4, 4, 6, 4],
            },
        ),
        (  # Labels enter by the norms, with a row for each class, instead of the latent numbers.
            (16, 16, 3),
            {"conditional": "projection", "generator_conditional": "batch-norm"},
            {"generator/dense/kernel": [5, 8 * 8 * 4], "generator/norm1/gamma": [3 * 4]},
        ),
    ],
)
def test_layers_have_the_sizes_that_image_and_width_give_them(shape, values, expected):
    run = make_run(shape, **values)
    variables = Generator(run).variables + Discriminator(run).variables
    shapes = {v.op.name: v.shape.as_list() for v in variables}
    assert {name: shapes[name] for name in expected} == expected


ATTENTIVE = {"conditional": "projection", "generator_conditional": "batch-norm", "attention": 16}


@pytest.mark.parametrize(
    "network, values",
    [(network, {}) for network in sorted(discriminators.NETWORKS)]
    + [(network, ATTENTIVE) for network in NETWORKS],  # r3gan has neither norms nor attention
)
def test_every_network_works_on_images_of_every_shape(network, values):
    z, labels, tensors = z_of(4), tf.constant([0, 1, 2, 2]), []
    for shape in ((8, 96, 1), (17, 33, 4)):
        run = make_run(shape, network=network, width=2, **values)
        checks.check_networks(run.options, run.data)
        scope = "x".join(map(str, shape))
        images = Generator(run, "generator/" + scope)(z, labels)
        discriminator = Discriminator(run, "discriminator/" + scope)
        outputs = discriminator(images, labels, discriminator.read())
        assert images.shape.as_list() == [4, *shape] and outputs.logits.shape.as_list() == [4]
        tensors.append((images, outputs.logits))
    for images, logits in evaluate(*tensors):
        assert np.abs(images).max() < 1 + 1e-6  # tanh of 1.15 may give 1.0000001
        assert images.std() > 1e-3 and logits.std() > 0
        assert np.isfinite(logits).all()


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("conditional", CONDITIONAL)
def test_variables_are_named_by_their_network_and_averages_start_equal(network, conditional):
    values = {"network": network, "conditional": conditional, "discriminator_norm": "layer"}
    run = make_run(spectral_norm=True, **values)
    with tf.name_scope("elsewhere"):
        generator, discriminator = Generator(run), Discriminator(run)
        average = Generator(run, "average", trainable=False)
    assert bool(step_builder_of(run).notes) == (network == "dcgan")  # one convolution, no norm
    names, others = names_of(generator.variables), names_of(discriminator.variables)
    assert all(name.startswith("generator/") for name in names)
    assert all(name.startswith("discriminator/") for name in others)
    assert sorted(names + others) == sorted(names_of(tf.trainable_variables()))
    assert {v.op.type for v in tf.global_variables()} == {"VarHandleOp"}  # reads wait for updates
    assert names_of(average.variables) == [n.replace("generator/", "average/") for n in names]
    for weight, mean in evaluate(*zip(generator.variables, average.variables)):
        assert (weight == mean).all()


@pytest.mark.parametrize("norm, deviation", [("batch", 0.02), ("none", np.sqrt(2 / 64))])
def test_without_normalisation_signals_keep_their_scale(norm, deviation):
    run = make_run((28, 28, 1), width=16, latent_size=64, generator_norm=norm)
    generator = Generator(run)
    images, kernel = evaluate(generator(run.normal("z", [8, 64])), generator.variables[0])
    assert kernel.std() == pytest.approx(deviation, rel=0.05)
    assert images.std() > 0.05


@pytest.mark.parametrize("network", NETWORKS)
def test_with_statistics_an_image_does_not_depend_on_its_batch(network):
    run = make_run(network=network, generator_norm="batch")
    generator = Generator(run)
    z = z_of(6)
    statistics = generator.statistics(z)
    batch, together, alone, other = evaluate(
        generator(z),
        generator(z, statistics=statistics),
        generator(z[:1], statistics=statistics),
        generator(z[:2]),
    )
    # Its own statistics change nothing but the rounding: training uses one fused op.
    np.testing.assert_allclose(together, batch, atol=2e-5)
    np.testing.assert_allclose(alone, together[:1], atol=1e-5)
    assert np.abs(other - batch[:2]).max() > 1e-4


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("conditional", CONDITIONAL)
def test_another_label_makes_another_image_only_if_conditional(network, conditional):
    generator = Generator(make_run(network=network, conditional=conditional, generator_norm="none"))
    z = tf.tile(z_of(1), [3, 1])
    images = evaluate(generator(z, tf.constant([0, 1, 1])))
    assert (np.abs(images[0] - images[1]).max() > 1e-4) == (conditional != "none")
    np.testing.assert_allclose(images[1], images[2], atol=1e-6)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("conditional", CONDITIONAL)
@pytest.mark.parametrize("mixing", [{}, {"discriminator_norm": "batch"}, {"minibatch_stddev": 4}])
def test_a_pair_has_the_outputs_of_each_alone(network, conditional, mixing):
    discriminator = Discriminator(make_run(network=network, conditional=conditional, **mixing))
    reals, fakes = images_of(), images_of(3, 8, 8, 1, seed=1)
    weights = discriminator.read()
    pair = discriminator.pair(reals, labels_of(4), fakes, labels_of(3), weights)
    apart = discriminator(reals, labels_of(4), weights), discriminator(fakes, labels_of(3), weights)
    for one, other in zip(pair, apart):
        assert (one.class_logits is not None) == (conditional == "acgan")
        for part in [part for part in zip(one, other) if part[0] is not None]:
            np.testing.assert_allclose(*evaluate(*part), atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_discriminator_that_sees_images_of_labels_judges_by_them(network):
    discriminator = Discriminator(make_run(network=network, conditional="concat"))
    images = tf.tile(images_of(1, 8, 8, 1), [3, 1, 1, 1])
    weights = discriminator.read()
    logits = evaluate(discriminator(images, tf.constant([0, 1, 1]), weights).logits)
    assert logits[0] != logits[1] and logits[1] == pytest.approx(logits[2], rel=1e-5)
    # As wide as an image's own values.
    assert evaluate(weights["label/images"]).std() == pytest.approx(1, rel=0.1)


def test_projection_adds_the_inner_product_with_the_row_of_the_label():
    discriminator = Discriminator(make_run(conditional="projection"))
    weights = discriminator.read()
    logits = discriminator(images_of(3, 8, 8, 1), labels_of(3), weights).logits
    values = [weights[name] for name in ("logits/kernel", "logits/bias", "embedding/kernel")]
    (slope,) = tf.gradients(logits, values[2])  # each label is once
    w, b, rows, h, logits = evaluate(*values, slope, logits)
    expected = (h @ w)[:, 0] + b[0] + np.sum(rows * h, axis=1)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-6)


BOTH_NORMS = {"discriminator_norm": "layer", "spectral_norm": True}


@pytest.mark.parametrize(
    "network, values",
    [(network, dict(BOTH_NORMS, conditional="projection")) for network in NETWORKS]
    + [("r3gan", {"conditional": "projection"})]
    + [("dcgan", {"conditional": conditional}) for conditional in ("concat", "acgan")]
    + [("dcgan", {"shape": (28, 28, 1), "attention": 14})],
    ids=str,
)
def test_a_gradient_penalty_reaches_every_kernel_before_the_logits(network, values):
    run = make_run(network=network, **values)
    discriminator = Discriminator(run)
    images = images_of(4, *run.data.shape)
    outputs = discriminator(images, labels_of(4), discriminator.read(iterate=True))
    gradient = tf.gradients(tf.reduce_sum(outputs.logits), images)[0]
    slopes = tf.gradients(tf.reduce_sum(gradient**2), discriminator.variables)
    # A bias shifts a piecewise linear discriminator: its slope, and so the penalty, stays as it is.
    idle = ("bias", "beta", "discriminator/classes/kernel")
    missing = [n for n, s in zip(names_of(discriminator.variables), slopes) if s is None]
    assert all(name.endswith(idle) for name in missing)
    slopes = evaluate(*[slope for slope in slopes if slope is not None])
    assert all(np.isfinite(slope).all() for slope in slopes)
    assert any(np.abs(slope).max() > 0 for slope in slopes)


def test_a_read_under_a_dependency_sees_the_updates_before_it():
    discriminator = Discriminator(make_run(spectral_norm=True))
    discriminator.read(iterate=True)
    first = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(first):
        discriminator.read(iterate=True)
    second = tf.get_collection(tf.GraphKeys.UPDATE_OPS)[len(first) :]
    with session() as tf_session:
        u = [v for v in tf.global_variables() if v.op.name == "discriminator/conv1/u"][0]
        kernel, start = tf_session.run([discriminator.variables[0], u])
        tf_session.run(second)
        end = tf_session.run(u)
    matrix = kernel.reshape([-1, kernel.shape[-1]])
    power = np.linalg.matrix_power(matrix.T @ matrix, 2) @ start  # two iterations in one run
    np.testing.assert_allclose(end, power / np.linalg.norm(power), rtol=1e-4, atol=1e-6)
