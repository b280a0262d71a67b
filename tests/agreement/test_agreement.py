"""The network that learns features without labels: its loss, and a real training."""

import types

import numpy as np
import pytest
from graph_fixtures import evaluate, make_run
from score_fixtures import SPLITS, make_options
from toolkit_agreement import network, train_once
from toolkit_agreement.options import AgreementOptions

from toolkit import augmentation, tf


def loss(first, second):
    run = types.SimpleNamespace(mode="train")
    return network.loss({"first": first, "second": second}, run)


def test_the_terms_of_the_loss_by_hand():
    # Centred: (-1, -2), (1, 2). Variances 2 and 8, both above 1; covariance 4, squared and counted
    # twice over 2 features: 16. Mean squared difference 2.5.
    first = tf.constant([[0.0, 0.0], [2.0, 4.0]])
    # Without any spread, each standard deviation is sqrt(1e-4): 0.99 below 1.
    second = tf.constant([[1.0, 2.0], [1.0, 2.0]])
    terms = evaluate(*network.collapse(first), *network.collapse(second), loss(first, second))
    np.testing.assert_allclose(terms[:4], [0, 16, 0.99, 0], rtol=1e-5)
    assert terms[4] == pytest.approx(25 * 2.5 + 25 * 0.99 + 16, rel=1e-5)


def test_equal_views_of_one_example_have_finite_gradients():
    x = tf.ones([1, 3])
    (gradient,) = tf.gradients(loss(x, x), [x])
    assert np.isfinite(evaluate(gradient)).all()


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("options", [{"cutout": 0.5}, {"rand_augment": 2}], ids=str)
def test_the_second_view_is_changed_by_cutout_and_rand_augment(mode, options):
    model = types.SimpleNamespace(project=lambda x, training: x, embed=lambda x, training: x)
    run = make_run(mode, classes=[("agreement", AgreementOptions)], augment="none", **options)
    images = np.random.RandomState(0).rand(4, 12, 12, 3).astype(np.float32)
    views = network.forward(model, tf.constant(images), run)
    assert not np.allclose(evaluate(views["second"]), images, atol=0.01)


def test_the_colours_of_the_preset_for_colour_images_do_nothing_to_grey_ones():
    run = make_run(classes=[("agreement", AgreementOptions)], augment="colour")
    assert augmentation.augment(tf.zeros([4, 12, 12, 1]), run).shape.as_list() == [4, 12, 12, 1]


def test_its_features_tell_the_classes_apart_that_it_was_not_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("toolkit_agreement.NUM_STEPS", 40)
    data = str(tmp_path / "quarters.npz")
    np.savez(data, x_train=SPLITS["train"].features, x_test=SPLITS["test"].features)
    with train_once(make_options(data="npz:" + data), SPLITS["train"]) as trained:
        reals, tests = (trained.predict(SPLITS[n].features)["features"] for n in ("train", "test"))
    scale = reals.std(axis=0) + 1e-6
    distances = (((tests[:, None] - reals[None]) / scale) ** 2).sum(axis=2)
    labels = SPLITS["train"].labels[distances.argmin(axis=1)]
    assert np.mean(labels == SPLITS["test"].labels) > 0.9
