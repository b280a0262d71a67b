"""What is measured over a split, and what a prediction consists of.

Legend: N batch, F features, K classes.
"""

from __future__ import annotations

from toolkit import tf

from . import losses


def streamed(labels, outputs, run):
    """Name -> (value, update_op): accuracy, top-k accuracy, and the mean cross-entropy in nats.

    The cross-entropy is the plain one: smoothing and class weights steer training, not the measure.
    """
    logits = outputs["logits"]
    top_k = min(run.options.top_k, run.data.num_classes)
    targets = losses.one_hot(labels, run.data.num_classes)
    return {
        "accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, axis=1, output_type=tf.int32)),
        f"top{top_k}": tf.metrics.mean(tf.nn.in_top_k(logits, labels, top_k)),
        "loss": tf.metrics.mean(losses.cross_entropy(logits, targets)),
    }


def prediction(outputs):
    """label int32 [N], probability [N] of that label, probabilities [N, K], features [N, F]."""
    probabilities = tf.nn.softmax(outputs["logits"])
    return {
        "label": tf.argmax(outputs["logits"], axis=1, output_type=tf.int32),
        "probability": tf.reduce_max(probabilities, axis=1),
        "probabilities": probabilities,
        "features": outputs["features"],
    }
