"""Samples: the generator's inputs, one image by itself and in a batch, images as bytes."""

import math

import numpy as np
import pytest
from gan_fixtures import evaluate, make_run, options, session
from toolkit_gan import sampling
from toolkit_gan.generator import Generator

import toolkit
from toolkit import DataSpec, Split, tf

UNEQUAL = DataSpec((8, 8, 1), "uint8", 3, ("a", "b", "c"), (1, 0, 3))


def test_labels_in_the_graph_and_of_samples_follow_the_histogram_of_the_data():
    conditional = options(conditional="projection", latent_size=2)
    run = toolkit.Run("train", conditional, UNEQUAL, None, 100)
    sampled = sampling.random_inputs(conditional, UNEQUAL, 4000, seed=1)["label"]
    for labels in (evaluate(sampling.random_labels(run, "label", 4000)), sampled):
        shares = np.bincount(labels, minlength=3) / len(labels)
        assert shares[1] == 0 and shares[0] == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("latent, deviation", [("normal", 1.0), ("uniform", 1 / math.sqrt(3))])
def test_latent_numbers_have_their_distribution(latent, deviation):
    model = options(latent=latent, latent_size=10)
    z = sampling.random_inputs(model, UNEQUAL, 1000, seed=3)["z"]
    assert z.std() == pytest.approx(deviation, rel=0.03) and abs(z.mean()) < 0.03
    assert (np.abs(z).max() <= 1) == (latent == "uniform")


@pytest.mark.parametrize("conditional, names", [("none", {"z"}), ("concat", {"z", "label"})])
def test_a_generator_has_labels_as_inputs_only_if_it_is_conditional(conditional, names):
    run = make_run(classes=3, conditional=conditional)
    assert set(sampling.generator_inputs(run)) == names
    for draw in (sampling.random_inputs, sampling.interpolation_inputs):
        inputs = draw(run.options, run.data, 9, seed=1)
        assert set(inputs) == names and all(len(values) == 9 for values in inputs.values())


def test_slerp_of_orthogonal_points_stays_on_their_sphere():
    a, b = np.float32([[2, 0], [2, 0]]), np.float32([[0, 2], [2, 0]])
    half = sampling.slerp(a, b, np.array([[0.5], [0.5]]))
    np.testing.assert_allclose(half, [[math.sqrt(2), math.sqrt(2)], [2, 0]], rtol=1e-6)


def test_the_statistics_of_samples_follow_the_averaged_weights():
    run = make_run(network="mlp", norm_samples=16)
    average = Generator(run, "average", trainable=False)
    inputs = sampling.random_inputs(run.options, run.data, 3, seed=2)
    samples = sampling.sample_fixed_inputs(average, inputs, run)
    z = sampling.random_inputs(run.options, run.data, 16, run.seed("standing"))["z"]
    statistics = average.statistics(tf.constant(z))
    expected = sampling.generate_images(average, tf.constant(inputs["z"]), None, statistics, run)
    with session() as tf_session:
        before = tf_session.run(samples)
        for variable in average.variables:
            tf_session.run(variable.assign(variable * 1.5 + 0.1))
        after, expected = tf_session.run([samples, expected])
    assert np.abs(before - after).max() > 1e-3
    np.testing.assert_allclose(after, expected, atol=1e-6)


def sorted_images(count, classes=4):
    """Images in order of their classes, as from folders: class k has the grey value 60 k."""
    labels = np.sort(np.arange(count) % classes)
    images = np.ones([count, 8, 8, 1]) * (60 * labels)[:, None, None, None]
    return Split(images.astype(np.uint8), labels)


def test_the_real_images_of_a_sorted_folder_are_of_every_class_and_repeated_if_few():
    run = make_run(classes=4)
    images = sampling.real_rows(sorted_images(400), 16, run)
    assert sorted(set(images[:, 0, 0, 0].tolist())) == [0, 60, 120, 180]
    assert len(sampling.real_rows(sorted_images(5), 16, run)) == 16


@pytest.mark.parametrize("classes, count, shown", [(4, 12, range(4)), (10, 9, [0, 4, 9])])
def test_a_conditional_grid_has_rows_of_one_class_and_real_images_of_it(classes, count, shown):
    run = make_run(classes=classes, conditional="concat")
    inputs, columns = sampling.class_row_inputs(run.options, run.data, count, seed=0)
    images = sampling.real_rows(sorted_images(400, classes), count, run)
    assert columns == 3 and inputs["label"].tolist() == np.repeat(shown, 3).tolist()
    assert images[:, 0, 0, 0].tolist() == np.repeat([60 * k % 256 for k in shown], 3).tolist()
