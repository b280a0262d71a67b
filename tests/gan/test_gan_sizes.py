"""Both networks on images of many sizes: grey, in colour and with alpha, square and not."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import evaluate, make_run
from toolkit_gan import checks
from toolkit_gan.discriminator import NETWORKS, Discriminator
from toolkit_gan.generator import Generator
from toolkit_gan.scores import scorer
from toolkit_gan.scores.extractor import PixelFeatures

from toolkit import tf

SHAPES = [
    (8, 8, 1),
    (16, 16, 3),
    (28, 28, 1),
    (28, 28, 3),
    (32, 32, 3),
    (64, 64, 3),
    (128, 128, 3),
    (8, 96, 1),
    (25, 18, 1),
    (33, 65, 3),
    (48, 32, 4),
]
OPTIONS = {
    "plain": {"conditional": "none"},
    "labels and attention": {
        "conditional": "projection",
        "generator_conditional": "batch-norm",
        "attention": 16,
    },
}


@pytest.mark.parametrize(
    "network, values",
    [
        (network, values)
        for network in sorted(NETWORKS)
        for values in OPTIONS
        if network != "r3gan" or values == "plain"  # it has neither norms nor attention
    ],
)
def test_every_network_works_on_images_of_every_shape(network, values):
    tensors = []
    for shape in SHAPES:
        small = {"width": 2, "latent_size": 5, "spectral_norm": False}
        run = make_run(shape, classes=3, network=network, **small, **OPTIONS[values])
        checks.check_networks(run.options, run.data)
        tensors.append(build(run, "x".join(map(str, shape))))
        images, logits, features = tensors[-1]
        assert images.shape.as_list() == [4, *shape] and logits.shape.as_list() == [4]
        assert features.shape.as_list()[0] == 4 and features.shape.as_list()[1] > 1
    for images, logits, features in evaluate(*tensors):
        assert np.abs(images).max() < 1 + 1e-6  # tanh of 1.15 may give 1.0000001
        assert images.std() > 1e-3 and logits.std() > 0
        assert np.isfinite(logits).all() and np.isfinite(features).all()


def build(run, scope):
    """The images of four latent points, and their logits and features, by networks of a scope."""
    z = tf.constant(np.random.RandomState(0).normal(size=[4, 5]), tf.float32)
    labels = tf.constant([0, 1, 2, 2])
    images = Generator(run, "generator/" + scope)(z, labels)
    discriminator = Discriminator(run, "discriminator/" + scope)
    outputs = discriminator(images, labels, discriminator.weights(iterate=False))
    return images, outputs.logits, outputs.features


def test_samples_of_a_score_are_floats_in_parts_of_whole_batches(monkeypatch):
    run = make_run((8, 8, 1), latent_size=5, eval_batch_size=10)
    monkeypatch.setattr(scorer, "MAX_FLOATS", 25 * 64)
    parts = []

    def predict(inputs):
        parts.append(len(inputs["z"]))
        return {"image": np.tile(np.abs(inputs["z"][:, :1, None, None]), [1, 8, 8, 1]) % 1}

    samples = scorer.GanScorer(run, {}.get, features=PixelFeatures((8, 8, 1)))._generate(
        predict, 45, 1
    )
    assert parts == [20, 20, 5]
    monkeypatch.setattr(scorer, "MAX_FLOATS", 1)
    again = scorer.GanScorer(run, {}.get, features=PixelFeatures((8, 8, 1)))._generate(
        predict, 45, 1
    )
    assert parts[3:] == [10, 10, 10, 10, 5]
    assert (samples.images == again.images).all() and len(np.unique(samples.images)) > 30
