"""Mixtures of examples and of their targets: mixup and CutMix.

mixup: Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018. CutMix: Yun et al.,
ICCV 2019.

Legend: N examples in a batch, H W height and width, C channels, K classes.
"""

from __future__ import annotations

import numpy as np

from ..compat import tf
from ..errors import UsageError
from .geometry import same_shape
from .regions import Box

BETA_POINTS = 4097  # in the quantile table of mixup's Beta distribution; linear between them


def mix_examples(features, targets, run, mixup: float = 0.0, cutmix: float = 0.0):
    """Mix each example with the one before it in the batch.

    Args:
        features: float32 [N, ...].
        targets: float32 [N, K], one-hot labels for example.
        run: gives random numbers.
        mixup: the parameter a of Beta(a, a), from which shares are drawn; 0 is off.
        cutmix: likewise; it needs images. If both are on, each example gets one of them.

    Returns:
        Features and targets, mixed by the same share.

    Raises:
        UsageError: CutMix of examples that are no images.
    """
    if cutmix and features.shape.ndims != 4:
        raise UsageError(
            "CutMix needs images [H, W, C], but an example of the data has shape "
            f"{features.shape.as_list()[1:]}.",
            hint="Set mixup instead of cutmix.",
        )
    if cutmix:
        return _cut_and_mix(features, targets, run, mixup, cutmix)
    if mixup:
        share = draw_mixup(features, run, mixup)
        return mix(features, share), mix(targets, share)
    return features, targets


def draw_mixup(features, run, alpha: float):
    """float32 [N] in [0.5, 1]: the share of itself that each example retains."""
    share = beta(run.uniform("augment/mixup", [tf.shape(features)[0]]), alpha)
    return tf.maximum(share, 1.0 - share)


def _cut_and_mix(features, targets, run, mixup: float, cutmix: float):
    """CutMix of all examples, or of a half of them and mixup of the others."""
    box = draw_cutmix(features, run, cutmix)
    images, share = box.fill(features, partners(features)), 1.0 - box.area
    if mixup:
        is_cut = run.uniform("augment/mix_choice", [tf.shape(features)[0]]) < 0.5
        blend = draw_mixup(features, run, mixup)
        images = tf.where(is_cut, images, mix(features, blend))
        share = tf.where(is_cut, share, blend)
    return same_shape(images, features), mix(targets, share)


def draw_cutmix(images, run, alpha: float) -> Box:
    """The box of each image that its partner fills.

    Its area is a share 1 - s of the image, s from Beta(a, a), as far as it lies inside.
    """
    height, width = images.shape.as_list()[1:3]
    count = tf.shape(images)[0]
    share = beta(run.uniform("augment/cutmix", [count]), alpha)
    side = tf.sqrt(1.0 - share)  # as a share of height and width
    centres = run.uniform("augment/cutmix_centre", [count, 2])
    return Box.around(centres, tf.floor(side * height), tf.floor(side * width), height, width)


def partners(values):
    """The row before each row; the last row is that before the first."""
    return tf.concat([values[-1:], values[:-1]], axis=0)


def mix(values, shares):
    """Row i becomes shares[i] * row i + (1 - shares[i]) * row i - 1; row 0 takes the last row.

    Args:
        values: float32 [N, ...].
        shares: float32 [N] in [0, 1].
    """
    shape = tf.concat([tf.shape(shares), tf.ones([tf.rank(values) - 1], tf.int32)], axis=0)
    shares = tf.reshape(shares, shape)  # [N, 1, ...]
    others = partners(values)
    return same_shape(others + (values - others) * shares, values)


def beta(uniform, alpha):
    """Beta(alpha, alpha) [N] from uniform [N] in [0, 1), by the inverse distribution function.

    TensorFlow 1.15 has no stateless gamma distribution to build it from. The quantiles are exact
    at 4097 points and linear between them, so the distribution function is off by at most 1/4096.
    """
    from scipy.special import betaincinv

    quantiles = betaincinv(alpha, alpha, np.linspace(0.0, 1.0, BETA_POINTS))  # at even steps
    table = tf.constant(quantiles.astype(np.float32))
    place = uniform * (BETA_POINTS - 1)
    index = tf.minimum(tf.cast(place, tf.int32), BETA_POINTS - 2)
    share = place - tf.cast(index, tf.float32)
    low, high = tf.gather(table, index), tf.gather(table, index + 1)
    return low + (high - low) * share
