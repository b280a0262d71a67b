"""`tf.contrib.metrics`: those of `tf.metrics` as `streaming_...`, with predictions first."""

from __future__ import annotations

from toolkit import tf

from .losses import _labels_second

for _name in dir(tf.metrics):
    if _name[0] != "_" and not _name.endswith("_at_k"):  # of which 1.15 had others
        globals()[f"streaming_{_name}"] = _labels_second(getattr(tf.metrics, _name), __name__)


def accuracy(predictions, labels, weights=None, name=None):
    """The share, by weights, of the predictions that are the labels."""
    with tf.name_scope(name, "accuracy", [predictions, labels]):
        is_right = tf.cast(tf.equal(predictions, labels), tf.float32)
        weights = tf.ones_like(is_right) * (1.0 if weights is None else weights)
        return tf.reduce_sum(is_right * weights) / tf.reduce_sum(weights)


def aggregate_metrics(*value_update_tuples):
    """The list of the values and that of the updates of some metrics."""
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples):
    """The values and the updates of some metrics, by their names."""
    values, updates = aggregate_metrics(*names_to_tuples.values())
    return dict(zip(names_to_tuples, values)), dict(zip(names_to_tuples, updates))
