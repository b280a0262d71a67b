"""Conditional batch norm: a gamma and a beta for each label, moments of the whole batch."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import evaluate, make_run, z_of
from graph_fixtures import session
from toolkit_gan.blocks import Norm, Variables
from toolkit_gan.generator import Generator

from toolkit import tf

GAMMA = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)  # [K, C]
BETA = np.array([[0.0, -1.0], [10.0, 20.0], [7.0, 8.0]], np.float32)


def make_generator_run(**values):
    settings = {"conditional": "projection", "latent_size": 5, "norm_samples": 20}
    settings["generator_conditional"] = "batch-norm"
    return make_run(classes=3, **dict(settings, **values))


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
    generator = Generator(make_generator_run(network=network))
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


@pytest.mark.parametrize("conditional, rows", [("projection", 3), ("none", 1)])
def test_the_class_enters_by_the_norms_instead_of_the_latent_numbers(conditional, rows):
    run = make_generator_run(conditional=conditional)
    shapes = {v.op.name: v.shape.as_list() for v in Generator(run).variables}
    assert shapes["generator/dense/kernel"][0] == 5
    channels = shapes["generator/dense/kernel"][1] // 16  # of 4 x 4 pixels
    assert shapes["generator/norm1/gamma"] == shapes["generator/norm1/beta"] == [rows * channels]


def test_gradients_reach_the_scales_through_fixed_and_batch_moments():
    generator = Generator(make_generator_run())
    labels = tf.constant([0, 0, 2, 2])
    variables = [v for v in generator.variables if "/norm" in v.op.name]
    gradients = evaluate(*tf.gradients(generator(z_of(4), labels)[:, 0, 0, 0], variables))
    for gradient in gradients:
        rows = np.abs(gradient.reshape(3, -1)).max(1)
        assert rows[0] > 0 and rows[1] == 0 and rows[2] > 0
