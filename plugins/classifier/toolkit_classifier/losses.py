"""Losses and their targets, as pure functions on tensors.

Legend: N examples in a batch, K classes. `targets` is float32 [N, K] with rows that sum to 1. All
losses are computed from logits, so no probability is rounded to zero before its logarithm.
"""

from __future__ import annotations

import numpy as np

from toolkit import UsageError, tf


def total(labels, outputs, run):
    """The scalar loss to minimize, in nats, of labels int32 [N] in [0, K) and "logits" float32
    [N, K]; with mixup also "targets" [N, K], which replace the labels.

    In mode "train" it is smoothed and weighted, and the accuracy of the batch is logged. In mode
    "eval" it is the plain mean cross-entropy.
    """
    logits = outputs["logits"]
    targets = outputs.get("targets", one_hot(labels, run.data.num_classes))
    if run.mode != "train":
        return classification_loss(logits, targets)
    classes = tf.argmax(targets, 1, output_type=tf.int32) if "targets" in outputs else labels
    hits = tf.nn.in_top_k(
        logits, classes, 1
    )  # with a tie a hit; an argmax takes 3 % of a small step
    run.log("accuracy", tf.reduce_mean(tf.cast(hits, tf.float32)))
    weights = class_weights(run.options.class_weights, run.data)
    smoothing = run.options.label_smoothing
    average = run.mean_over_replicas if run.replica.count > 1 else None
    return classification_loss(logits, targets, smoothing, weights, average)


def classification_loss(logits, targets, smoothing=0.0, weights=None, average=None):
    """The mean cross-entropy, a scalar in nats, of logits and targets float32 [N, K].

    `smoothing` in [0, 1) is the share of each target that is spread over all classes. `weights`,
    float [K], are of each class, or None; that of an example is their mean under its targets.
    `average` is `Run.mean_over_replicas`, if the examples are a part of a batch.
    """
    values = cross_entropy(logits, smooth(targets, smoothing))  # [N]
    if weights is None:
        return tf.reduce_mean(values)
    example_weights = tf.reduce_sum(targets * tf.constant(weights, tf.float32), axis=1)  # [N]
    return weighted_mean(values, example_weights, average)


def one_hot(labels, num_classes):
    """labels int32 [N] -> float32 [N, K]."""
    return tf.one_hot(labels, num_classes, dtype=tf.float32)


def smooth(targets, share):
    """Spread `share` of each row evenly over all K classes. [N, K] -> [N, K]."""
    if share == 0:
        return targets
    return targets * (1.0 - share) + share / targets.shape.as_list()[1]


def cross_entropy(logits, targets):
    """The cross-entropy of each example, float32 [N], in nats; finite for all finite logits."""
    return tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=tf.stop_gradient(targets), logits=logits
    )


def weighted_mean(values, example_weights, average=None):
    """sum(w * v) / sum(w) of two tensors [N]; 0 if all weights are 0.

    Of a part of a batch, the divisor is N times the mean weight of the whole batch: the average of
    all parts is then the weighted mean of the batch.
    """
    total_weight = tf.reduce_sum(example_weights)
    if average is not None:
        (mean_weight,) = average([tf.reduce_mean(example_weights)])
        total_weight = mean_weight * tf.cast(tf.size(example_weights), tf.float32)
    # The divisor is replaced where it is zero, not the quotient: its gradient stays finite as well.
    divisor = tf.where(total_weight > 0, total_weight, tf.ones_like(total_weight))
    return tf.reduce_sum(values * example_weights) / divisor


def class_weights(choice, data):
    """The weight of each class, float32 [K], by the option: "none", which gives None, "balanced" or
    a list such as "1,0.5,2".

    "balanced" is N / (K * count), as in scikit-learn; a class without examples gets 0. Raises
    UsageError if the number of weights is not K, or "balanced" lacks the classes' counts.
    """
    if choice == "none":
        return None
    if choice == "balanced":
        return balanced_weights(data.class_counts)
    weights = np.array([float(part) for part in choice.split(",")], np.float32)
    if len(weights) != data.num_classes:
        raise UsageError(
            f"class_weights has {len(weights)} values, but the data has {data.num_classes} "
            "classes.",
            hint="Give one weight per class, or class_weights=balanced.",
        )
    return weights


def balanced_weights(class_counts):
    """float32 [K]: N / (K * count) of each class; 0 for a class without examples."""
    if not class_counts:
        raise UsageError(
            "class_weights=balanced needs the count of each class, which this data does not have.",
            hint="Give one weight per class, as class_weights=1,0.5,2.",
        )
    counts = np.asarray(class_counts, np.float64)
    weights = counts.sum() / (len(counts) * np.maximum(counts, 1))
    return np.where(counts > 0, weights, 0.0).astype(np.float32)
