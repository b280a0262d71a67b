"""`tf.contrib.losses` and `slim.losses`: those of `tf.losses`, whose arguments have another order.

Each is the mean over examples of weight above zero, and is added to the collection LOSSES.
"""

from __future__ import annotations

import inspect
from typing import Any

from toolkit import tf

from .scopes import add_arg_scope


def _labels_second(function: Any, module: str = __name__) -> Any:
    """A function of `tf.losses` or `tf.metrics` with the predictions, or logits, before labels,
    as one of the public names of a module.
    """
    names = list(inspect.signature(function).parameters)
    if "labels" in names[0]:
        names[:2] = names[1::-1]

    def ordered(*args: Any, **kwargs: Any) -> Any:
        return function(**dict(zip(names, args)), **kwargs)

    ordered.__name__, ordered.__module__ = function.__name__, module
    return ordered


for _name in (
    *("absolute_difference", "compute_weighted_loss", "cosine_distance", "log_loss"),
    *("mean_squared_error", "sigmoid_cross_entropy", "softmax_cross_entropy"),
    "sparse_softmax_cross_entropy",
):
    globals()[_name] = add_arg_scope(_labels_second(getattr(tf.losses, _name)))


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
