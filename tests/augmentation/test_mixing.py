"""mixup and CutMix: shares, boxes, and targets that are mixed like the images."""

from __future__ import annotations

import numpy as np
import pytest
from augmentation_fixtures import evaluate, make_run, random_images

from toolkit import UsageError, augmentation, tf
from toolkit.augmentation import mixing


def test_beta_of_one_is_the_uniform_distribution():
    draws = evaluate(mixing.beta(tf.constant([0.0, 0.25, 0.5, 0.9999]), 1.0))
    np.testing.assert_allclose(draws, [0.0, 0.25, 0.5, 0.9999], atol=1e-5)


@pytest.mark.parametrize("alpha", [0.2, 2.0])
def test_beta_draws_have_the_mean_and_variance_of_their_distribution(alpha):
    even = (np.arange(20000, dtype=np.float32) + 0.5) / 20000
    draws = evaluate(mixing.beta(tf.constant(even), alpha))
    assert draws.mean() == pytest.approx(0.5, abs=1e-3)
    assert draws.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=1e-2)


def test_a_mix_is_its_share_of_itself_and_the_rest_of_the_row_before():
    mixture = mixing.mix(tf.constant([[10.0], [20.0], [30.0]]), tf.constant([1.0, 0.5, 0.75]))
    assert evaluate(mixture).tolist() == [[10.0], [15.0], [27.5]]  # 0.75 * 30 + 0.25 * 20


def test_mixup_mixes_images_and_targets_alike_and_keeps_at_least_half():
    targets = np.eye(4, dtype=np.float32)
    features = tf.constant(targets.reshape(4, 2, 2, 1))
    pair = augmentation.mix_examples(features, tf.constant(targets), make_run(), mixup=1.0)
    images, mixture = evaluate(*pair)
    np.testing.assert_allclose(images.reshape(4, 4), mixture, rtol=1e-6)
    np.testing.assert_allclose(mixture.sum(axis=1), 1, rtol=1e-6)
    assert (np.diag(mixture) >= 0.5).all() and (np.diag(mixture) < 1).any()


def test_cutmix_fills_a_box_of_each_image_and_its_targets_have_the_share_of_the_area():
    values = np.arange(1, 41, dtype=np.float32)  # one value for each image
    images = tf.constant(values[:, None, None, None] * np.ones([40, 9, 14, 3], np.float32))
    targets = tf.constant(np.eye(40, dtype=np.float32))
    mixed, mixture = evaluate(*augmentation.mix_examples(images, targets, make_run(), cutmix=1.0))
    shares = []
    for i in range(40):
        own, partner = values[i], values[i - 1]
        assert set(np.unique(mixed[i])) <= {own, partner}
        assert (mixed[i] == mixed[i][:, :, :1]).all()  # all channels alike
        is_cut = mixed[i, :, :, 0] == partner
        rows, columns = np.flatnonzero(is_cut.any(1)), np.flatnonzero(is_cut.any(0))
        assert is_cut.sum() == len(rows) * len(columns)  # a box
        shares.append(is_cut.mean())
        assert mixture[i, i] == pytest.approx(1 - is_cut.mean(), abs=1e-6)
        assert mixture[i, i - 1] == pytest.approx(is_cut.mean(), abs=1e-6)
    np.testing.assert_allclose(mixture.sum(axis=1), 1, rtol=1e-6)
    assert len(set(np.round(shares, 4))) > 15 and max(shares) > 0.3


def test_with_mixup_beside_cutmix_each_example_gets_one_of_them():
    values = np.arange(1, 201, dtype=np.float32)
    images = tf.constant(values[:, None, None, None] * np.ones([200, 8, 8, 1], np.float32))
    targets = tf.constant(np.eye(200, dtype=np.float32))
    mixed, mixture = evaluate(*augmentation.mix_examples(images, targets, make_run(), 1.0, 1.0))
    is_blend = np.array([len(np.unique(image)) == 1 for image in mixed])
    assert 60 < is_blend.sum() < 170
    partners = np.roll(values, 1)
    np.testing.assert_allclose(mixed.mean(axis=(1, 2, 3)), mixture @ values, rtol=1e-4)
    assert (np.isin(mixed[~is_blend], values)).all() and partners[0] == values[-1]


def test_a_batch_of_one_example_is_its_own_partner():
    image = random_images(1)
    mixed, mixture = evaluate(
        *augmentation.mix_examples(tf.constant(image), tf.ones([1, 1]), make_run(), cutmix=1.0)
    )
    assert (mixed == image).all() and mixture == 1


def test_cutmix_of_vectors_is_refused():
    with pytest.raises(UsageError, match=r"CutMix needs images \[H, W, C\].* shape \[7\]"):
        augmentation.mix_examples(tf.zeros([3, 7]), tf.zeros([3, 2]), make_run(), cutmix=1.0)


def test_without_mixup_and_cutmix_the_same_tensors_are_returned():
    features, targets = tf.zeros([3, 7]), tf.zeros([3, 2])
    assert augmentation.mix_examples(features, targets, make_run()) == (features, targets)
