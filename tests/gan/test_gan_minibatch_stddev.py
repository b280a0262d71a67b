"""Minibatch standard deviation: its numbers, and its place in the discriminator."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import evaluate, images_of, make_run, options
from toolkit_gan import checks, minibatch_stddev, norm_moments, penalties
from toolkit_gan.discriminator import Discriminator

from toolkit import UsageError, tf


def features_of(count, seed=0):
    return np.random.RandomState(seed).normal(size=(count, 5)).astype(np.float32)


def expected_stddev(groups):
    """The mean over the features of each group's standard deviations; groups [M, G, F]."""
    return groups.std(axis=1).mean(axis=1)


@pytest.mark.parametrize("is_known", [True, False], ids=["size known", "size unknown"])
@pytest.mark.parametrize("count, groups", [(12, (3, 4, 5)), (8, (2, 4, 5)), (7, (1, 7, 5))])
def test_each_image_has_the_standard_deviation_of_its_group_or_of_an_odd_batch(
    count, groups, is_known
):
    x = features_of(count)
    inputs = tf.placeholder_with_default(x, (count if is_known else None, 5))
    result = evaluate(minibatch_stddev.append_stddev(inputs, 4))
    np.testing.assert_array_equal(result[:, :5], x)
    expected = np.repeat(expected_stddev(x.reshape(groups)), groups[1])
    np.testing.assert_allclose(result[:, 5], expected, rtol=1e-5)


def test_fixed_moments_are_the_mean_of_the_groups_and_hold_for_any_batch():
    x, moments = features_of(12), {}
    first = minibatch_stddev.append_stddev(tf.constant(x), 4, moments)
    later = minibatch_stddev.append_stddev(tf.constant(x[:3]), 4, moments)
    first, later = evaluate(first, later)
    mean = expected_stddev(x.reshape(3, 4, 5)).mean()
    np.testing.assert_allclose(first[:, 5], [mean] * 12, rtol=1e-5)
    np.testing.assert_array_equal(later, first[:3])
    assert [norm_moments.whole_groups(n, 4) for n in (1000, 1003, 3)] == [1000, 1000, 3]
    assert norm_moments.whole_groups(1003, 0) == 1003


def test_equal_images_have_finite_gradients_of_both_orders():
    x = tf.ones([4, 5])
    stddev = minibatch_stddev.group_stddev(x, 4)
    (slope,) = tf.gradients(stddev, x)
    curvature = tf.gradients(tf.reduce_sum(tf.square(slope)), x)[0]
    for values in evaluate(stddev, slope, curvature):
        assert np.isfinite(values).all()


@pytest.mark.parametrize("network", ["mlp", "dcgan", "resnet"])
def test_the_heads_have_one_more_input_that_each_group_shares(network):
    values = {"network": network, "classes": 3, "conditional": "projection"}
    discriminator = Discriminator(make_run(minibatch_stddev=2, **values))
    with tf.variable_scope("plain"), tf.Graph().as_default():
        plain = Discriminator(make_run(**values)).variables
    sizes = [[v.shape.num_elements() for v in vs] for vs in (discriminator.variables, plain)]
    extra = {v.op.name: a - b for v, a, b in zip(discriminator.variables, *sizes) if a != b}
    assert extra == {"critic/logits/kernel": 1, "critic/embedding/kernel": 3}
    images, labels = images_of(), tf.constant([0, 1, 2, 0])
    weights = discriminator.weights(iterate=False)
    half, whole = (
        discriminator(images[:count], labels[:count], weights).features for count in (2, 4)
    )
    gradients = penalties.input_gradients(tf.reduce_sum(whole[:, -1:], 1)[:1], images)
    half, whole, gradients = evaluate(half, whole, gradients)
    np.testing.assert_allclose(whole[:2], half, atol=1e-5)  # the other group has no part
    assert whole[0, -1] == whole[1, -1] != whole[2, -1]
    assert [bool(abs(g).max()) for g in gradients] == [True, True, False, False]


def test_reals_and_fakes_are_groups_of_their_own():
    discriminator = Discriminator(make_run(minibatch_stddev=4))
    weights = discriminator.weights(iterate=False)
    real, fake = discriminator.pair(images_of(), None, tf.zeros([4, 8, 8, 1]), None, weights)
    real, fake = evaluate(real.features, fake.features)
    assert real[0, -1] > 1e-3 and fake[0, -1] == pytest.approx(1e-4)


def test_each_replica_has_whole_groups():
    chosen = options(minibatch_stddev=2)
    checks.check_method(chosen, 66, num_replicas=3)
    with pytest.raises(UsageError, match="batch_size is 64 for 3 replicas, but the part of each"):
        checks.check_method(chosen, 64, num_replicas=3)
