"""The network that learns features without labels: its loss, its views, its weights elsewhere."""

from __future__ import annotations

import os
import types

import numpy as np
import pytest
from graph_fixtures import evaluate
from score_fixtures import SPLITS, make_options, write_quarters
from toolkit_agreement import network as agreement
from toolkit_agreement import training

import toolkit
from toolkit import tf

# ----------------------------------------------------------------------------------------- the loss


def test_the_terms_of_the_loss_by_hand():
    # Centred: (-1, -2), (1, 2). Variances 2 and 8, both above 1; covariance 4, squared and counted
    # twice over 2 features: 16.
    first = tf.constant([[0.0, 0.0], [2.0, 4.0]])
    # Without any spread, each standard deviation is sqrt(1e-4): 0.99 below 1.
    second = tf.constant([[1.0, 2.0], [1.0, 2.0]])
    values = evaluate(
        agreement.disagreement(first, second),
        agreement.shortfall(first),
        agreement.redundancy(first),
        agreement.shortfall(second),
        agreement.redundancy(second),
        agreement.vicreg_loss(first, second),
    )
    np.testing.assert_allclose(values[0], [2.5, 2.5])
    np.testing.assert_allclose(values[1:5], [0, 16, 0.99, 0], rtol=1e-5)
    assert values[5] == pytest.approx(25 * 2.5 + 25 * 0.99 + 16, rel=1e-5)


def test_equal_views_of_one_example_have_finite_gradients():
    x = tf.ones([1, 3])
    (gradient,) = tf.gradients(agreement.vicreg_loss(x, x), [x])
    assert np.isfinite(evaluate(gradient)).all()


# -------------------------------------------------------------------------------------- the network


@pytest.mark.parametrize("side, more", [(8, []), (28, []), (64, [64, 64]), (128, [64] * 4)])
def test_larger_images_have_more_layers(side, more):
    assert agreement.layer_widths((side, side + 9, 3)) == [16, 16, 32, 32, 64, 64, *more]


# -------------------------------------------------------------------------------- a real training


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A network of few steps that was trained on the quarters, in a cache of its own."""
    folder = tmp_path_factory.mktemp("agreement")
    patch = pytest.MonkeyPatch()
    patch.setenv("TOOLKIT_CACHE", str(folder / "cache"))
    patch.setattr(training, "NUM_STEPS", 40)
    options = make_options(data=write_quarters(folder))
    with tf.Graph().as_default():
        first = training.train_once(options, SPLITS["train"])
        patch.setattr(toolkit.api, "train", None)  # a second training would fail
        again = training.train_once(options, SPLITS["train"])
        again.close()
    yield types.SimpleNamespace(trained=first, again=again, folder=folder)
    first.close()
    patch.undo()


def embed(network, name):
    return network.trained.predict(SPLITS[name].features)["features"]


def test_a_network_is_trained_once(network):
    assert network.trained.sha256 == network.again.sha256
    (name,) = os.listdir(str(network.folder / "cache" / "features"))
    assert name.startswith("agreement-")


def test_its_features_tell_the_classes_apart_that_it_was_not_shown(network):
    reals, tests = embed(network, "train"), embed(network, "test")
    scale = reals.std(axis=0) + 1e-6
    distances = (((tests[:, None] - reals[None]) / scale) ** 2).sum(axis=2)
    labels = SPLITS["train"].labels[distances.argmin(axis=1)]
    assert np.mean(labels == SPLITS["test"].labels) > 0.9


def test_its_weights_give_the_same_features_in_another_graph(network):
    weights = agreement.read_weights(network.trained.checkpoint)
    images = SPLITS["test"].features[:20]
    embeddings = evaluate(agreement.embed(tf.constant(images / np.float32(255)), weights))
    expected = embed(network, "test")[:20]
    np.testing.assert_allclose(embeddings, expected, rtol=1e-4, atol=1e-5)
