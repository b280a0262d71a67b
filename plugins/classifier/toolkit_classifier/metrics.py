"""The metrics of an evaluation, streamed over a split.

Legend: N examples in a batch, K classes.
"""

from __future__ import annotations

from toolkit import tf

from . import losses


def build(labels, outputs, run):
    """Accuracy, top-k accuracy and mean cross-entropy.

    Args:
        labels: int32 [N] in [0, K).
        outputs: a dict with "logits", float32 [N, K].
        run: `run.options.top_k` is k, limited to K.

    Returns:
        Name -> (value, update_op). "loss" is the plain cross-entropy in nats: label smoothing and
        class weights shape the training, not the metric.
    """
    logits, top_k = outputs["logits"], limit_top_k(run)
    targets = losses.one_hot(labels, run.data.num_classes)
    return {
        "accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, axis=1, output_type=tf.int32)),
        f"top{top_k}": tf.metrics.mean(tf.nn.in_top_k(logits, labels, top_k)),
        "loss": tf.metrics.mean(losses.cross_entropy(logits, targets)),
    }


def directions(run):
    """Whether lower or higher values of each metric are better, for the choice of the best."""
    return {"accuracy": "max", f"top{limit_top_k(run)}": "max", "loss": "min"}


def limit_top_k(run):
    """The k of the top-k accuracy: the option, but no more than K."""
    return min(run.options.top_k, run.data.num_classes)
