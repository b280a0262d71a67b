"""`tf.contrib.losses` and `slim.losses`: those of `tf.losses`, whose arguments have another order.

Each is the mean over examples of weight above zero, and is added to the collection LOSSES.
"""

from __future__ import annotations

from toolkit import tf

from .arg_scope import add_arg_scope

__all__ = [
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "log_loss",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]

compute_weighted_loss = add_arg_scope(tf.losses.compute_weighted_loss)
get_losses = tf.losses.get_losses
get_regularization_losses = tf.losses.get_regularization_losses


@add_arg_scope
def add_loss(loss, loss_collection=tf.GraphKeys.LOSSES):
    """Add a scalar to a collection of losses, if one is given."""
    if loss_collection:
        tf.losses.add_loss(loss, loss_collection)


def get_total_loss(add_regularization_losses=True, name="total_loss"):
    """The sum of the losses of the graph, by default with those of regularizers."""
    return tf.losses.get_total_loss(add_regularization_losses, name)


@add_arg_scope
def absolute_difference(predictions, labels=None, weights=1.0, scope=None):
    """|labels - predictions|"""
    return tf.losses.absolute_difference(labels, predictions, weights, scope)


@add_arg_scope
def mean_squared_error(predictions, labels=None, weights=1.0, scope=None):
    """(labels - predictions)^2"""
    return tf.losses.mean_squared_error(labels, predictions, weights, scope)


@add_arg_scope
def log_loss(predictions, labels=None, weights=1.0, epsilon=1e-7, scope=None):
    """The cross entropy of probabilities."""
    return tf.losses.log_loss(labels, predictions, weights, epsilon, scope)


@add_arg_scope
def hinge_loss(logits, labels=None, scope=None):
    """max(0, 1 - y logits), y = -1 or 1 for labels 0 or 1: of each example, in no collection.

    As in TensorFlow 1.15, whose function returns no scalar.
    """
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        signs = 2 * tf.cast(labels, tf.float32) - 1
        return tf.nn.relu(1 - signs * logits)


@add_arg_scope
def cosine_distance(predictions, labels=None, axis=None, weights=1.0, scope=None, dim=None):
    """1 - the inner product of unit vectors along an axis."""
    axis = dim if axis is None else axis
    return tf.losses.cosine_distance(labels, predictions, axis, weights, scope)


@add_arg_scope
def sigmoid_cross_entropy(logits, multi_class_labels, weights=1.0, label_smoothing=0, scope=None):
    """The cross entropy of independent classes, labels [N, K] from 0 to 1."""
    return tf.losses.sigmoid_cross_entropy(
        multi_class_labels, logits, weights, label_smoothing, scope
    )


@add_arg_scope
def softmax_cross_entropy(logits, onehot_labels, weights=1.0, label_smoothing=0, scope=None):
    """The cross entropy of exclusive classes, labels [N, K]."""
    return tf.losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


@add_arg_scope
def sparse_softmax_cross_entropy(logits, labels, weights=1.0, scope=None):
    """The cross entropy of exclusive classes, labels [N] of integers."""
    return tf.losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)
