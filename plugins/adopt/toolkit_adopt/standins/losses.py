"""`tf.contrib.losses` and `slim.losses`: those of `tf.losses`, whose arguments have another order.

Each is the mean over examples of weight above zero, and is added to the collection LOSSES.
"""

from __future__ import annotations

from typing import Any

from toolkit import tf

from .scopes import add_arg_scope


def _in_order(name: str, *arguments: str) -> Any:
    """A loss of `tf.losses` whose arguments have this order."""
    loss = getattr(tf.losses, name)

    def ordered(*args: Any, **kwargs: Any) -> Any:
        return loss(**dict(zip(arguments, args)), **kwargs)

    ordered.__name__, ordered.__doc__ = name, loss.__doc__
    return add_arg_scope(ordered)


_ORDER = ("predictions", "labels", "weights", "scope")
_SMOOTHED = ("weights", "label_smoothing", "scope")

absolute_difference = _in_order("absolute_difference", *_ORDER)
mean_squared_error = _in_order("mean_squared_error", *_ORDER)
log_loss = _in_order("log_loss", *_ORDER[:3], "epsilon", "scope")
cosine_distance = _in_order("cosine_distance", *_ORDER[:2], "axis", *_ORDER[2:], "dim")
sigmoid_cross_entropy = _in_order(
    "sigmoid_cross_entropy", "logits", "multi_class_labels", *_SMOOTHED
)
softmax_cross_entropy = _in_order("softmax_cross_entropy", "logits", "onehot_labels", *_SMOOTHED)
sparse_softmax_cross_entropy = _in_order("sparse_softmax_cross_entropy", "logits", *_ORDER[1:])
compute_weighted_loss = _in_order("compute_weighted_loss", "losses", "weights", "scope")


@add_arg_scope
def add_loss(loss, loss_collection=tf.GraphKeys.LOSSES):
    """Add a scalar to a collection of losses, if one is given."""
    if loss_collection:
        tf.losses.add_loss(loss, loss_collection)


@add_arg_scope
def hinge_loss(logits, labels=None, scope=None):
    """max(0, 1 - y logits), y = -1 or 1 for labels 0 or 1: of each example, in no collection.

    As in TensorFlow 1.15, whose function returns no scalar.
    """
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        signs = 2 * tf.cast(labels, tf.float32) - 1
        return tf.nn.relu(1 - signs * logits)
