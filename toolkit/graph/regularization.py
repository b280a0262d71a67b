"""Losses of regularizers, computed again in each step.

TensorFlow computes the loss of a variable's regularizer where the variable is created. In a loop of
steps that is outside of the loop: its value is that of the first step, and no gradient reaches it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ..compat import tf

_SHARED = ("VarHandleOp", "Placeholder", "PlaceholderWithDefault")  # not copied


def renew_regularization_losses(losses: Sequence[tf.Tensor]) -> Dict[str, tf.Tensor]:
    """Replace TensorFlow's collection by copies that are computed here.

    Args:
        losses: what `build` added to the collection.

    Returns:
        Name of a loss -> its copy.
    """
    copies: Dict[str, List[Any]] = {}
    renewed = {loss.name: _copy(loss, copies) for loss in losses}
    collection = tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES)
    collection[:] = list(renewed.values())
    return renewed


def _copy(tensor: tf.Tensor, copies: Dict[str, List[Any]]) -> tf.Tensor:
    """A tensor computed here by ops equal to those that compute `tensor`, from the variables on.

    Args:
        tensor: outside of any loop.
        copies: name of an op -> the outputs of its copy; the new ones are added.
    """
    op = tensor.op
    if op.type in _SHARED:
        return tensor
    if op.name not in copies:
        inputs = [_copy(value, copies) for value in op.inputs]
        attributes = {k: v for k, v in op.node_def.attr.items() if not k.startswith("_")}
        copy = tf.get_default_graph().create_op(
            op.type, inputs, [output.dtype for output in op.outputs], name=op.name, attrs=attributes
        )
        copies[op.name] = list(copy.outputs)
    return copies[op.name][tensor.value_index]
