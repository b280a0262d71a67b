"""Boxes in images, and mixtures of examples and of their targets: cutout, mixup and CutMix.

Cutout: DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout",
2017. mixup: Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018. CutMix: Yun et
al., ICCV 2019.

Legend: N examples in a batch, H W height and width, C channels, K classes.
"""

from __future__ import annotations

import numpy as np

from ..compat import tf
from ..errors import UsageError
from .geometry import same_shape

BETA_POINTS = 4097  # in the quantile table of mixup's Beta distribution; linear between them


def cut_out(images, run, share: float):
    """Cover a box in each image with the image's mean colour.

    Args:
        images: float32 [N, H, W, C].
        run: gives random numbers.
        share: height and width of the box as a share of the image's, in [0, 1]. Its centre is any
            pixel, so a part of the box may lie outside.
    """
    count, sides = tf.shape(images)[0], images.shape.as_list()[1:3]
    sizes = [tf.fill([count], float(round(share * side))) for side in sides]
    box = Box(run.uniform("augment/cutout", [count, 2]), sizes, sides)
    mean = tf.reduce_mean(images, axis=[1, 2], keepdims=True)  # [N, 1, 1, C]
    return box.fill(images, mean + tf.zeros_like(images))


class Box:
    """A box in each image of a batch, clipped to the image.

    Args:
        centres: float32 [N, 2] in [0, 1), shares of height and width.
        sizes: float32 [N] each, the heights and the widths of the boxes, whole numbers of pixels.
        sides: height and width of the images, in pixels.

    Attributes:
        rows, columns: which ones it has, bool [N, H] and [N, W].
        area: its share of the image, float32 [N].
    """

    def __init__(self, centres, sizes, sides):
        both = [_on_side(centres[:, axis], sizes[axis], sides[axis]) for axis in (0, 1)]
        self.rows, self.columns = both
        down, right = (tf.reduce_mean(tf.cast(side, tf.float32), axis=1) for side in both)
        self.area = down * right

    def fill(self, images, filling):
        """The images with the pixels of another batch in the box, both [N, H, W, C]."""
        height, width, channels = images.shape.as_list()[1:]
        # A mask of all values: one that is broadcast over the channels takes ten times as long.
        columns = tf.tile(self.columns[:, :, None], [1, 1, channels])
        columns = tf.reshape(columns, [-1, 1, width * channels])
        mask = tf.logical_and(self.rows[:, :, None], columns)  # [N, H, W * C]
        shape = [-1, height, width * channels]
        joint = tf.where(mask, tf.reshape(filling, shape), tf.reshape(images, shape))
        return same_shape(tf.reshape(joint, tf.shape(images)), images)


def _on_side(centres, sizes, length: int):
    """bool [N, length]: which pixels of a side are within a box."""
    first = tf.floor(centres * length) - tf.floor(sizes / 2.0)  # [N]
    place = tf.range(length, dtype=tf.float32)[None, :]
    return tf.logical_and(place >= first[:, None], place < (first + sizes)[:, None])


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
    count, share = tf.shape(features)[0], 1.0
    if mixup:
        share = beta(run.uniform("augment/mixup", [count]), mixup)
        share = tf.maximum(share, 1.0 - share)  # each example retains at least a half
    if not cutmix:
        return (mix(features, share), mix(targets, share)) if mixup else (features, targets)
    # The area of a box is a share 1 - s of the image, s from Beta(a, a), as far as it lies inside.
    side = tf.sqrt(1.0 - beta(run.uniform("augment/cutmix", [count]), cutmix))
    sides = features.shape.as_list()[1:3]
    centres = run.uniform("augment/cutmix_centre", [count, 2])
    box = Box(centres, [tf.floor(side * size) for size in sides], sides)
    images, kept = box.fill(features, partners(features)), 1.0 - box.area
    if mixup:  # of a half of the examples
        is_cut = run.uniform("augment/mix_choice", [count]) < 0.5
        images = tf.where(is_cut, images, mix(features, share))
        kept = tf.where(is_cut, kept, share)
    return same_shape(images, features), mix(targets, kept)


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
