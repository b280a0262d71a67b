"""Minibatch standard deviation: how much the images of a group differ, as a feature of each.

Karras et al. 2018, Progressive Growing of GANs for Improved Quality, Stability, and Variation; its
groups are those of Karras et al. 2020 (StyleGAN2). A generator that makes the same few images is
told by their lack of variety, even if each by itself looks real.

In training, a group is a part of the batch, of real or of generated images alone. An evaluation
that did so would give an image another logit in another batch. There, each image has the mean over
groups of the run's training images, or of other samples: see `norm_moments`.
Legend: N batch, F features, G images of a group, M = N / G groups.
"""

from __future__ import annotations

from toolkit import tf

from .layers import batch_size

NAME = "minibatch_stddev"  # of its entry in `moments`
EPSILON = 1e-8  # under the square root: at zero, the root itself has no finite slope


def append_stddev(features, group_size: int, moments=None):
    """Append the standard deviation of its group to the features of each image.

    Args:
        features: float32 [N, F].
        group_size: G.
        moments: name -> tuple of tensors, see `blocks.Norm`. The entry `NAME`, a scalar, takes the
            place of the groups' values; without an entry, their mean is stored there. None: each
            group has its own.

    Returns:
        float32 [N, F + 1].
    """
    if moments is None:
        return tf.concat([features, group_stddev(features, group_size)], axis=1)
    if NAME not in moments:
        moments[NAME] = (tf.reduce_mean(group_stddev(features, group_size)),)
    (mean,) = moments[NAME]
    return tf.concat([features, tf.zeros_like(features[:, :1]) + mean], axis=1)


def group_stddev(features, group_size: int):
    """[N, 1]: the standard deviation over the group of each feature, their mean over the features.

    Images that follow one another make up a group. A batch that is no multiple of G is one group.
    """
    count, num_features = batch_size(features), int(features.shape[1])
    if isinstance(count, int):
        size = group_size if count % group_size == 0 else count
    else:
        size = tf.where(tf.equal(count % group_size, 0), group_size, count)
    groups = tf.reshape(features, [-1, size, num_features])  # [M, G, F]
    deviations = groups - tf.reduce_mean(groups, axis=1, keepdims=True)
    variances = tf.reduce_mean(tf.square(deviations), axis=1)  # [M, F]
    stddevs = tf.reduce_mean(tf.sqrt(variances + EPSILON), axis=1, keepdims=True)  # [M, 1]
    return tf.reshape(tf.tile(stddevs, [1, size]), [-1, 1])
