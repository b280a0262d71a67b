"""Samples: one image by itself and in a batch, from the averaged weights, as bytes."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import make_run
from graph_fixtures import session
from PIL import Image
from toolkit_gan import latents, sampling
from toolkit_gan.generator import Generator
from toolkit_gan.scores import sample_sets

import toolkit
from toolkit import tf

NETWORKS = ["mlp", "dcgan", "resnet"]


@pytest.mark.parametrize("network", NETWORKS)
def test_one_z_alone_gives_the_image_that_it_gives_in_a_batch(network):
    run = make_run(network=network, norm_samples=16)
    generator = Generator(run)
    z = latents.random_inputs(run.options, run.data, 6, seed=2)["z"]
    images = [
        sampling.sample_images(generator, tf.constant(part), None, run) for part in (z[:1], z)
    ]
    with tf.Session() as tf_session:
        tf_session.run(tf.global_variables_initializer())
        tf_session.run(tf.local_variables_initializer())  # the statistics, from the weights
        alone, together = tf_session.run(images)
    np.testing.assert_allclose(alone[0], together[0], atol=1e-6)
    assert np.abs(together[0] - together[1]).max() > 1e-4


def test_the_statistics_of_samples_follow_the_averaged_weights():
    run = make_run(network="mlp", norm_samples=16)
    average = Generator(run, "average", trainable=False)
    inputs = latents.random_inputs(run.options, run.data, 3, seed=2)
    samples = sampling.sample_fixed_inputs(average, inputs, run)
    z = latents.random_inputs(run.options, run.data, 16, run.seed("standing"))["z"]
    statistics = average.statistics(tf.constant(z))
    expected = sampling.generate_images(average, tf.constant(inputs["z"]), None, statistics, run)
    with session() as tf_session:
        before = tf_session.run(samples)
        for variable in average.variables:
            tf_session.run(variable.assign(variable * 1.5 + 0.1))
        after, expected = tf_session.run([samples, expected])
    assert np.abs(before - after).max() > 1e-3
    np.testing.assert_allclose(after, expected, atol=1e-6)


def test_samples_and_scores_round_images_to_the_same_bytes(tmp_path):
    x = np.linspace(-1, 1, 1001, dtype=np.float32)  # the generator's outputs
    x = x[np.abs((x + 1) * 127.5 % 1 - 0.5) > 1e-3]  # either neighbour is right for a tie
    expected = np.clip(np.rint((x + 1) * 127.5), 0, 255)
    unit = (x + 1) / 2
    np.testing.assert_array_equal(sample_sets.to_bytes(unit), expected)
    path = str(tmp_path / "grid.png")
    toolkit.save_grid(path, unit.reshape([1, 1, -1, 1]), 1)
    assert expected.astype(np.uint8).tobytes() in np.asarray(Image.open(path)).tobytes()


def test_rounding_errors_beyond_the_range_do_not_wrap_round():
    assert sample_sets.to_bytes(np.float32([1.0, 1.0000001, -1e-7])).tolist() == [255, 255, 0]
