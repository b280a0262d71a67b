"""How far a reconstruction is from its image. Legend: N batch, H height, W width, C channels."""

from __future__ import annotations

from toolkit import tf


def cross_entropy(logits, images):
    """Mean over batch and pixels, a scalar in nats. logits, images in [0, 1]: [N, H, W, C].

    From logits, so it is finite where a pixel's probability rounds to 0 or 1.
    """
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits))


def squared_error(reconstruction, images):
    """The pair (value, update_op) of the mean squared difference of two [N, H, W, C]."""
    return tf.metrics.mean_squared_error(images, reconstruction)
