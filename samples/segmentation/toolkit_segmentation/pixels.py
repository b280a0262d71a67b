"""Loss, metrics and predictions of pixels. A label that is no class (255) does not count.

Legend: N examples in a batch, H height, W width, K classes.
"""

from __future__ import annotations

from toolkit import tf


def cross_entropy(labels, logits, num_classes):
    """The mean cross-entropy of the pixels that have a class, a scalar in nats.

    Args:
        labels: int32 [N, H, W], in [0, K) or 255.
        logits: float32 [N, H, W, K].
        num_classes: K.
    """
    classes, weights = split_labels(labels, num_classes)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits)
    return tf.reduce_sum(losses * weights) / tf.maximum(tf.reduce_sum(weights), 1)


def classify(logits):
    """The most probable class of each pixel, int32 [N, H, W]."""
    return tf.argmax(logits, axis=-1, output_type=tf.int32)


def metrics(labels, logits, num_classes):
    """Name -> (value, update_op). Intersection over union (IoU) is averaged over the classes."""
    classes, weights = split_labels(labels, num_classes)
    predicted = classify(logits)
    return {
        "mean_iou": tf.metrics.mean_iou(classes, predicted, num_classes, weights),
        "pixel_accuracy": tf.metrics.accuracy(classes, predicted, weights),
    }


def split_labels(labels, num_classes):
    """Classes int32 and weights float32 [N, H, W]: without a class, class 0 and weight 0."""
    has_class = labels < num_classes
    return tf.where(has_class, labels, tf.zeros_like(labels)), tf.cast(has_class, tf.float32)
