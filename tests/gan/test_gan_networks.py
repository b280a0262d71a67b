"""Generator and discriminator: shapes, names, and what they read and write."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import evaluate
from gan_fixtures import make_run as make_gan_run
from graph_fixtures import session
from toolkit_gan.discriminator import Discriminator
from toolkit_gan.generator import Generator

from toolkit import tf

NETWORKS = ["mlp", "dcgan", "resnet"]
CONDITIONAL = ["none", "concat", "acgan", "projection"]
DISCRIMINATORS = {
    "plain": {},
    "layer norm": {"discriminator_norm": "layer"},
    "spectral norm": {"spectral_norm": True},
    "both": {"discriminator_norm": "layer", "spectral_norm": True},
}


def make_run(shape=(8, 8, 1), classes=3, **values):
    small = {"latent_size": 5, "spectral_norm": False}
    return make_gan_run(shape=shape, classes=classes, **dict(small, **values))


def z_of(count, seed=0):
    return tf.constant(np.random.RandomState(seed).normal(size=[count, 5]), tf.float32)


def images_of(shape=(4, 8, 8, 1), seed=0):
    return tf.constant(np.random.RandomState(seed).uniform(-1, 1, shape), tf.float32)


def labels_of(count):
    return tf.constant(np.arange(count) % 3, tf.int32)


def names_of(variables):
    return [v.name.split(":")[0] for v in variables]


def shapes_of(variables):
    return {v.name.split(":")[0]: v.shape.as_list() for v in variables}


# ------------------------------------------------------------------------------------- shapes


def test_the_mlp_works_on_examples_of_any_shape():
    run = make_run((2,), network="mlp")
    points = Generator(run)(z_of(3))
    discriminator = Discriminator(run)
    assert points.shape.as_list() == [3, 2]
    assert evaluate(discriminator(points, None, discriminator.weights(False)).logits).shape == (3,)


def test_the_batch_size_may_be_known_only_when_the_graph_runs():
    run = make_run((28, 28, 1), width=2)
    count = tf.placeholder_with_default(3, [])
    images = Generator(run)(run.normal("z", tf.stack([count, 5])))
    discriminator = Discriminator(run)
    real, fake = discriminator.pair(
        images_of((2, 28, 28, 1)), None, images, None, discriminator.weights(False)
    )
    assert images.shape.as_list()[1:] == [28, 28, 1]
    logits = evaluate(real.logits, fake.logits)
    assert [len(part) for part in logits] == [2, 3]


def test_28_pixels_are_halved_twice_and_filters_doubled_once():
    run = make_run((28, 28, 1), width=32, latent_size=64)
    generator, discriminator = (
        shapes_of(Generator(run).variables),
        shapes_of(Discriminator(run).variables),
    )
    assert generator["generator/dense/kernel"] == [64, 7 * 7 * 64]
    assert generator["generator/conv2/kernel"] == [4, 4, 32, 64]
    assert generator["generator/output/kernel"] == [4, 4, 1, 32]
    assert discriminator["critic/conv1/kernel"] == [4, 4, 1, 32]
    assert discriminator["critic/conv2/kernel"] == [4, 4, 32, 64]
    assert discriminator["critic/logits/kernel"] == [7 * 7 * 64, 1]


@pytest.mark.parametrize(
    "side, last", [(8, [4 * 4 * 4, 1]), (32, [8 * 8 * 8, 1]), (64, [8 * 8 * 16, 1])]
)
def test_larger_images_make_more_layers(side, last):
    discriminator = shapes_of(Discriminator(make_run((side, side, 3), width=4)).variables)
    assert discriminator["critic/logits/kernel"] == last


def test_filters_stop_at_eight_times_the_width():
    discriminator = shapes_of(Discriminator(make_run((256, 256, 1), width=2)).variables)
    assert discriminator["critic/conv4/kernel"] == [4, 4, 8, 16]
    assert discriminator["critic/conv5/kernel"] == [4, 4, 16, 16]


def test_hidden_layers_of_the_mlp_have_eight_units_per_unit_of_width():
    discriminator = shapes_of(Discriminator(make_run(network="mlp", width=3)).variables)
    assert discriminator["critic/dense1/kernel"] == [64, 24]
    assert discriminator["critic/dense3/kernel"] == [24, 24]


# -------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("network", NETWORKS)
def test_every_variable_is_a_resource_whose_reads_can_wait_for_an_update(network):
    run = make_run(network=network, conditional="projection", spectral_norm=True)
    Generator(run), Generator(run, "average", trainable=False), Discriminator(run)
    assert {v.op.type for v in tf.global_variables()} == {"VarHandleOp"}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("conditional", CONDITIONAL)
def test_names_start_with_the_scope_and_are_all_different(network, conditional):
    run = make_run(network=network, conditional=conditional, discriminator_norm="layer")
    with tf.name_scope("elsewhere"):
        generator, discriminator = Generator(run), Discriminator(run)
    names = names_of(generator.variables) + names_of(discriminator.variables)
    assert len(set(names)) == len(names)
    assert all(name.startswith("generator/") for name in names_of(generator.variables))
    assert all(name.startswith("critic/") for name in names_of(discriminator.variables))
    assert sorted(names) == sorted(names_of(tf.trainable_variables()))


def test_the_parts_of_a_discriminator_have_names():
    Discriminator(make_run(conditional="projection", spectral_norm=True))
    assert sorted(names_of(tf.global_variables())) == [
        "critic/conv1/bias",
        "critic/conv1/kernel",
        "critic/conv1/u",
        "critic/embedding/kernel",
        "critic/embedding/u",
        "critic/logits/bias",
        "critic/logits/kernel",
        "critic/logits/u",
    ]


# ----------------------------------------------------------------------------- initial values


def test_building_twice_gives_the_same_values_and_another_seed_others():
    values = []
    for seed in (1, 1, 2):
        with tf.Graph().as_default():
            run = make_run(seed=seed, spectral_norm=True)
            Generator(run), Discriminator(run)
            values.append(evaluate(*tf.global_variables()))
    assert all((a == b).all() for a, b in zip(values[0], values[1]))
    assert any((a != b).any() for a, b in zip(values[0], values[2]))


@pytest.mark.parametrize("network", NETWORKS)
def test_the_average_starts_as_the_generator_and_is_not_trained(network):
    run = make_run(network=network, conditional="concat")
    generator, average = Generator(run), Generator(run, "average", "generator", trainable=False)
    assert names_of(tf.trainable_variables()) == names_of(generator.variables)
    swapped = [name.replace("generator/", "average/") for name in names_of(generator.variables)]
    assert names_of(average.variables) == swapped
    values = evaluate(*(generator.variables + average.variables))
    half = len(values) // 2
    assert all((a == b).all() for a, b in zip(values[:half], values[half:]))


def test_no_two_layers_start_with_the_same_values():
    run = make_run((64, 64, 1))
    kernels = [
        v for v in Generator(run).variables + Discriminator(run).variables if "kernel" in v.name
    ]
    firsts = [value.ravel()[:4].tolist() for value in evaluate(*kernels)]
    assert len({tuple(first) for first in firsts}) == len(firsts)


@pytest.mark.parametrize("normalised", [True, False])
def test_without_normalisation_signals_keep_their_scale(normalised):
    norm = "batch" if normalised else "none"
    run = make_run((28, 28, 1), width=16, latent_size=64, generator_norm=norm)
    generator = Generator(run)
    images = evaluate(generator(run.normal("z", [8, 64])))
    kernel = evaluate(generator.variables[0])
    assert kernel.std() == pytest.approx(0.02 if normalised else np.sqrt(2 / 64), rel=0.05)
    assert images.std() > 0.05


# --------------------------------------------------------------------------------- generator


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("norm", ["none", "batch", "layer"])
def test_no_forward_pass_changes_a_variable(network, norm):
    run = make_run(
        network=network, generator_norm=norm, discriminator_norm=norm, spectral_norm=True
    )
    generator, discriminator = Generator(run), Discriminator(run)
    images = generator(z_of(4))
    weights = discriminator.weights(iterate=True)
    outputs = discriminator(images, None, weights)
    with session() as tf_session:
        before = tf_session.run(tf.global_variables())
        tf_session.run([outputs.logits, generator.statistics(z_of(4))])
        after = tf_session.run(tf.global_variables())
    assert all((a == b).all() for a, b in zip(before, after))
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert not [name for name in names_of(tf.global_variables()) if "moving" in name]


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


def test_statistics_are_the_mean_and_variance_over_the_batch():
    run = make_run(network="mlp", generator_norm="batch", width=1)
    generator = Generator(run)
    kernel = [v for v in generator.variables if v.name.startswith("generator/dense1/kernel")][0]
    mean, variance, kernel, z = evaluate(*generator.statistics(z_of(50))[:2], kernel, z_of(50))
    hidden = z @ kernel
    np.testing.assert_allclose(mean, hidden.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, hidden.var(0), rtol=1e-4)


@pytest.mark.parametrize("network, layers", [("mlp", 3), ("dcgan", 2), ("resnet", 5)])
def test_each_batch_norm_has_two_statistics_of_known_shape(network, layers):
    run = make_run((28, 28, 1), network=network, generator_norm="batch")
    generator = Generator(run)
    statistics = generator.statistics(z_of(4))
    assert len(statistics) == 2 * layers
    assert [tensor.shape.as_list() for tensor in statistics] == generator.statistics_shapes


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_without_batch_norm_there_are_no_statistics_and_batches_do_not_mix(norm):
    generator = Generator(make_run(generator_norm=norm))
    assert generator.statistics(z_of(4)) == [] and generator.statistics_shapes == []
    batch, alone = evaluate(generator(z_of(4)), generator(z_of(4)[:1], statistics=[]))
    np.testing.assert_allclose(alone, batch[:1], atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("conditional", ["concat", "acgan", "projection"])
def test_a_conditional_generator_makes_another_image_for_another_label(network, conditional):
    generator = Generator(make_run(network=network, conditional=conditional, generator_norm="none"))
    z = tf.tile(z_of(1), [3, 1])
    images = evaluate(generator(z, tf.constant([0, 1, 1])))
    assert np.abs(images[0] - images[1]).max() > 1e-4
    np.testing.assert_allclose(images[1], images[2], atol=1e-6)


def test_a_generator_without_classes_ignores_labels():
    generator = Generator(make_run())
    with_labels, without = evaluate(generator(z_of(3), labels_of(3)), generator(z_of(3)))
    assert (with_labels == without).all()


def test_a_call_reads_the_variables_of_its_moment():
    generator = Generator(make_run())
    z = z_of(3)
    before = generator(z)
    bias = [v for v in generator.variables if v.name.startswith("generator/output/bias")][0]
    with tf.control_dependencies([before]):
        changed = bias.assign([100.0], read_value=False)
    with tf.control_dependencies([changed]):
        after, statistics = generator(z), generator.statistics(z)
    before, after, _ = evaluate(before, after, statistics)
    assert (after == 1).all() and (before < 1).all()


# -------------------------------------------------------------------------------- discriminator


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("conditional", CONDITIONAL)
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_a_pair_has_the_outputs_of_each_alone(network, conditional, norm):
    discriminator = Discriminator(
        make_run(network=network, conditional=conditional, discriminator_norm=norm)
    )
    reals, fakes = images_of(), images_of((3, 8, 8, 1), seed=1)
    weights = discriminator.weights(iterate=False)
    pair = discriminator.pair(reals, labels_of(4), fakes, labels_of(3), weights)
    apart = discriminator(reals, labels_of(4), weights), discriminator(fakes, labels_of(3), weights)
    for one, other in zip(pair, apart):
        assert (one.class_logits is not None) == (conditional == "acgan")
        parts = [p for p in zip(one, other) if p[0] is not None]
        for a, b in evaluate(*[tf.stack(part) for part in parts]):
            np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("norm, mixes", [("none", False), ("layer", False), ("batch", True)])
def test_only_batch_norm_mixes_examples(norm, mixes):
    discriminator = Discriminator(make_run((28, 28, 1), discriminator_norm=norm))
    images, weights = images_of((4, 28, 28, 1)), discriminator.weights(iterate=False)
    all_four, first = (
        discriminator(images, None, weights).logits,
        discriminator(images[:1], None, weights).logits,
    )
    all_four, first = evaluate(all_four, first)
    assert discriminator.mixes_examples is mixes
    assert (abs(all_four[0] - first[0]) > 1e-5 * abs(first[0])) == mixes


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("conditional", ["concat", "projection"])
def test_a_conditional_discriminator_judges_by_the_label(network, conditional):
    discriminator = Discriminator(make_run(network=network, conditional=conditional))
    images = tf.tile(images_of((1, 8, 8, 1)), [3, 1, 1, 1])
    logits = evaluate(
        discriminator(images, tf.constant([0, 1, 1]), discriminator.weights(False)).logits
    )
    assert logits[0] != logits[1] and logits[1] == pytest.approx(logits[2], rel=1e-5)


def test_the_images_of_labels_are_inputs_as_large_as_an_example():
    discriminator = Discriminator(make_run((16, 16, 3), conditional="concat"))
    shapes = shapes_of(discriminator.variables)
    # One axis, as a bias has: neither weight clipping nor weight decay shrinks them.
    assert shapes["critic/label/images"] == [3 * 16 * 16 * 3]
    assert shapes["critic/conv1/kernel"][2] == 6
    images = evaluate(discriminator.weights(iterate=False).values["label/images"])
    assert images.std() == pytest.approx(1, rel=0.1)


def test_projection_adds_the_inner_product_with_the_row_of_the_label():
    discriminator = Discriminator(make_run(conditional="projection"))
    weights = discriminator.weights(iterate=False)
    names = ("logits/kernel", "logits/bias", "embedding/kernel")
    outputs = discriminator(images_of(), labels_of(4), weights)
    w, b, rows, h, logits = evaluate(
        *[weights.values[name] for name in names], outputs.features, outputs.logits
    )
    expected = (h @ w)[:, 0] + b[0] + np.sum(rows[[0, 1, 2, 0]] * h, axis=1)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-6)


def test_acgan_has_class_logits_and_needs_no_labels():
    discriminator = Discriminator(make_run(conditional="acgan"))
    outputs = discriminator(images_of(), None, discriminator.weights(iterate=False))
    assert outputs.class_logits.shape.as_list() == [4, 3]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "discriminator, conditional",
    [(discriminator, "none") for discriminator in DISCRIMINATORS]
    + [("plain", "concat"), ("plain", "acgan"), ("both", "projection")],
)
def test_a_gradient_penalty_reaches_every_kernel_before_the_logits(
    network, discriminator, conditional
):
    run = make_run(network=network, conditional=conditional, **DISCRIMINATORS[discriminator])
    discriminator = Discriminator(run)
    images = images_of()
    outputs = discriminator(images, labels_of(4), discriminator.weights(iterate=True))
    gradient = tf.gradients(tf.reduce_sum(outputs.logits), images)[0]
    penalty = tf.reduce_sum(gradient**2)
    gradients = dict(
        zip(names_of(discriminator.variables), tf.gradients(penalty, discriminator.variables))
    )
    # A bias shifts a piecewise linear discriminator: its slope, and so the penalty, stays as it is.
    idle = ("bias", "beta", "critic/classes/kernel")
    needed = {n: g for n, g in gradients.items() if not n.endswith(idle)}
    assert all(value is not None for value in needed.values())
    values = evaluate(*[g for g in gradients.values() if g is not None])
    assert all(np.isfinite(value).all() for value in values)
    assert any(np.abs(value).max() > 0 for value in values)


@pytest.mark.parametrize("network", NETWORKS)
def test_losses_reach_every_variable_of_both(network):
    run = make_run(network=network, conditional="projection", discriminator_norm="layer")
    generator, discriminator = Generator(run), Discriminator(run)
    fakes = generator(z_of(4), labels_of(4))
    logits = discriminator(fakes, labels_of(4), discriminator.weights(iterate=True)).logits
    variables = generator.variables + discriminator.variables
    gradients = tf.gradients(tf.reduce_sum(logits**2), variables)
    assert all(gradient is not None for gradient in gradients)
    assert all(np.isfinite(value).all() for value in evaluate(*gradients))


def test_a_uniform_image_and_a_discriminator_of_zeros_have_finite_gradients():
    discriminator = Discriminator(make_run(discriminator_norm="layer", spectral_norm=True))
    images = tf.zeros([2, 8, 8, 1])
    logits = discriminator(images, None, discriminator.weights(iterate=True)).logits
    gradient = tf.gradients(tf.reduce_sum(logits), images)[0]
    gradients = tf.gradients(tf.reduce_sum(gradient**2), discriminator.variables)
    with session() as tf_session:
        for variable in discriminator.variables:
            tf_session.run(variable.assign(tf.zeros_like(variable)))
        for value in tf_session.run([gradient] + [g for g in gradients if g is not None]):
            assert np.isfinite(value).all()


# ------------------------------------------------------------------------------ spectral norm


def assigns():
    return [op for op in tf.get_default_graph().get_operations() if op.type == "AssignVariableOp"]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("conditional", CONDITIONAL)
def test_one_read_makes_one_power_iteration_per_kernel(network, conditional):
    discriminator = Discriminator(
        make_run(network=network, conditional=conditional, spectral_norm=True)
    )
    before = len(assigns())
    weights = discriminator.weights(iterate=True)
    discriminator.pair(images_of(), labels_of(4), images_of(), labels_of(4), weights)
    updates = assigns()[before:]
    kernels = [name for name in names_of(discriminator.variables) if name.endswith("/kernel")]
    assert weights.updates == updates and len(updates) == len(kernels)
    vectors = [v for v in tf.global_variables() if v.name.endswith("/u:0")]
    assert {op.inputs[0] for op in updates} == {v.handle for v in vectors}
    assert not set(names_of(vectors)) & set(names_of(tf.trainable_variables()))


def test_without_iteration_nothing_is_written():
    discriminator = Discriminator(make_run(spectral_norm=True))
    before = len(assigns())
    weights = discriminator.weights(iterate=False)
    discriminator(images_of(), None, weights)
    assert weights.updates == [] and len(assigns()) == before


def test_without_spectral_norm_there_are_no_vectors_and_the_values_are_the_variables():
    discriminator = Discriminator(make_run())
    weights = discriminator.weights(iterate=True)
    assert weights.updates == [] and names_of(tf.global_variables()) == names_of(
        discriminator.variables
    )
    read, stored = evaluate(weights.values["conv1/kernel"], discriminator.variables[0])
    assert (read == stored).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_after_some_steps_every_kernel_has_norm_one(network):
    discriminator = Discriminator(
        make_run(network=network, conditional="projection", spectral_norm=True)
    )
    weights = discriminator.weights(iterate=True)
    stored = discriminator.weights(iterate=False)
    kernels = [n for n in weights.values if n.endswith("kernel")]
    with session() as tf_session:
        for _ in range(200):
            tf_session.run(weights.updates)
        for values in (weights.values, stored.values):
            for value in tf_session.run([values[name] for name in kernels]):
                largest = np.linalg.svd(value.reshape([-1, value.shape[-1]]), compute_uv=False)[0]
                assert largest == pytest.approx(1, rel=2e-3)


def test_the_embedding_of_a_projection_is_spectrally_normalised_too():
    discriminator = Discriminator(make_run(conditional="projection", spectral_norm=True))
    (kernel,) = [v for v in discriminator.variables if "embedding" in v.op.name]
    updates = discriminator.weights(iterate=True).updates
    values = discriminator.weights(iterate=False).values
    with session() as tf_session:
        for _ in range(100):
            tf_session.run(updates)
        rows, stored = tf_session.run([values["embedding/kernel"], kernel])
    assert np.linalg.svd(rows)[1][0] == pytest.approx(1, abs=1e-3)
    assert np.linalg.svd(stored)[1][0] != pytest.approx(1, abs=1e-3)


def test_a_read_under_a_dependency_sees_the_updates_before_it():
    discriminator = Discriminator(make_run(spectral_norm=True))
    first = discriminator.weights(iterate=True)
    with tf.control_dependencies(first.updates):
        second = discriminator.weights(iterate=True)
    with session() as tf_session:
        u = [v for v in tf.global_variables() if v.name == "critic/conv1/u:0"][0]
        kernel, start = tf_session.run([discriminator.variables[0], u])
        tf_session.run(second.updates)
        end = tf_session.run(u)
    matrix = kernel.reshape([-1, kernel.shape[-1]])
    power = np.linalg.matrix_power(matrix.T @ matrix, 2) @ start  # two iterations in one run
    np.testing.assert_allclose(end, power / np.linalg.norm(power), rtol=1e-4, atol=1e-6)


# ------------------------------------------------------------------------------- in a loop


@pytest.mark.parametrize(
    "values",
    [{"network": network, "conditional": "concat"} for network in NETWORKS]
    + [{"conditional": "projection", "generator_conditional": "batch-norm", "attention": 4}],
)
def test_a_step_can_be_built_in_a_loop_of_the_graph(values):
    run = make_run(spectral_norm=True, **values)
    assert run.global_step is not None  # made here, outside the loop
    generator, discriminator = Generator(run), Discriminator(run)
    before = names_of(tf.global_variables())

    def step(total):
        fakes = generator(run.normal("z", [4, 5]), labels_of(4))
        weights = discriminator.weights(iterate=True)
        real, fake = discriminator.pair(images_of(), labels_of(4), fakes, labels_of(4), weights)
        gradients = tf.gradients(
            fake.logits - real.logits, generator.variables + discriminator.variables
        )
        assert all(gradient is not None for gradient in gradients)
        with tf.control_dependencies(weights.updates):
            return total + 1 + 0 * tf.global_norm(gradients)

    total = tf.while_loop(lambda total: total < 3, step, [tf.constant(0.0)])
    assert names_of(tf.global_variables()) == before
    assert evaluate(total) == 3
