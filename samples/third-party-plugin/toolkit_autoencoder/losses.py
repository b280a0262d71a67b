"""The loss. Legend: N examples in a batch, H height, W width, C channels."""

from __future__ import annotations

from toolkit import tf


def cross_entropy(logits, images):
    """The mean cross-entropy over batch and pixels, a scalar in nats.

    It is computed from logits, so it is finite even if a probability rounds to 0 or 1.

    Args:
        logits: float32 [N, H, W, C].
        images: float32 [N, H, W, C] in [0, 1].
    """
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits))
