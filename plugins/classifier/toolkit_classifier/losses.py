"""Losses and their targets, as pure functions on tensors.

Legend: N batch, K classes. `targets`: float32 [N, K], rows that sum to one. `weights`: one float
per class. All is computed from logits, so no probability is rounded to zero before its log.
"""

from __future__ import annotations

import numpy as np

from toolkit import UsageError, tf


def one_hot(labels, num_classes):
    """labels int32 [N] -> float32 [N, K]."""
    return tf.one_hot(labels, num_classes, dtype=tf.float32)


def smooth(targets, share):
    """Move `share` of each row's mass evenly onto all K classes. [N, K] -> [N, K]."""
    if share == 0:
        return targets
    return targets * (1.0 - share) + share / targets.shape.as_list()[1]


def cross_entropy(logits, targets):
    """Per example, float32 [N], in nats; finite for every finite logit."""
    return tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=tf.stop_gradient(targets), logits=logits
    )


def weighted_mean(values, example_weights):
    """sum(w * v) / sum(w) of two [N]; 0 where all weights are 0."""
    total = tf.reduce_sum(example_weights)
    # The divisor is replaced where it is zero, not the quotient: its gradient stays finite as well.
    divisor = tf.where(total > 0, total, tf.ones_like(total))
    return tf.reduce_sum(values * example_weights) / divisor


def classification_loss(logits, targets, smoothing=0.0, weights=None):
    """Mean cross-entropy, a scalar; an example weighs what its targets' classes weigh."""
    values = cross_entropy(logits, smooth(targets, smoothing))  # [N]
    if weights is None:
        return tf.reduce_mean(values)
    example_weights = tf.reduce_sum(targets * tf.constant(weights, tf.float32), axis=1)  # [N]
    return weighted_mean(values, example_weights)


def class_weights(choice, data):
    """`choice` "none", "balanced" or "1,0.5,..." -> None or float32 [K].

    "balanced" is N / (K * count), as in scikit-learn; a class without examples weighs nothing.
    """
    if choice == "none":
        return None
    if choice == "balanced":
        if not data.class_counts:
            raise UsageError(
                "class_weights=balanced needs the count of each class, and the data tells none.",
                hint="Give one weight per class, as class_weights=1,0.5,2.",
            )
        counts = np.asarray(data.class_counts, np.float64)
        weights = counts.sum() / (len(counts) * np.maximum(counts, 1))
        return np.where(counts > 0, weights, 0.0).astype(np.float32)
    weights = np.array([float(part) for part in choice.split(",")], np.float32)
    if len(weights) != data.num_classes:
        raise UsageError(
            f"class_weights has {len(weights)} values, but the data has {data.num_classes} "
            "classes.",
            hint="Give one weight per class, or class_weights=balanced.",
        )
    return weights


def objective(labels, outputs, run):
    """The scalar to minimise: smoothed, weighted, and of mixed targets where `call` mixed.

    In evaluation the plain mean cross-entropy: smoothing and weights steer training, no more.
    """
    logits = outputs["logits"]
    targets = outputs.get("targets", one_hot(labels, run.data.num_classes))
    if run.mode != "train":
        return classification_loss(logits, targets)
    hits = tf.equal(tf.argmax(logits, axis=1), tf.argmax(targets, axis=1))
    run.log("accuracy", tf.reduce_mean(tf.cast(hits, tf.float32)))
    weights = class_weights(run.options.class_weights, run.data)
    return classification_loss(logits, targets, run.options.label_smoothing, weights)
