"""Losses of regularizers: computed again in each step, and counted where no loss has them.

TensorFlow computes the loss of a variable's regularizer where the variable is created. In a loop of
steps that is outside of the loop: its value is that of the first step, and no gradient reaches it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ..compat import tf
from .ops import upstream

_SHARED = ("VarHandleOp", "Placeholder", "PlaceholderWithDefault")  # not copied


class NetworkList:
    """What `Run.function` and `Run.keras` created for a graph."""

    def __init__(self) -> None:
        self._networks: Dict[str, Any] = {}
        self._renewed: Dict[str, Any] = {}  # name of a loss of `build` -> its copy in the step

    def add(self, network: Any, name: str) -> str:
        """Add a network, and return its name, unique in the run."""
        unique, number = name, 0
        while unique in self._networks:
            number += 1
            unique = f"{name}_{number}"
        self._networks[unique] = network
        return unique

    def begin_step(self) -> None:
        """Compute the losses that `build` added to TensorFlow's collection in the step that begins,
        and let the networks know of it.
        """
        copies: Dict[str, List[Any]] = {}
        collection = tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES)
        self._renewed = {loss.name: _copy(loss, copies) for loss in collection}
        collection[:] = list(self._renewed.values())
        for network in self._networks.values():
            network.begin_step()

    def renewed(self, losses: Sequence[Any]) -> List[Any]:
        """Losses of regularizers as the present step computes them."""
        return [self._renewed.get(loss.name, loss) for loss in losses]

    def count_omitted(self, losses: Sequence[tf.Tensor]) -> int:
        """How many losses of regularizers none of the losses that a step minimizes depends on:
        those of TensorFlow's collection, and of models of `Run.keras`.
        """
        collection = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        num_unread = sum(network.num_unread_losses for network in self._networks.values())
        if not collection and not num_unread:
            return 0
        ops = upstream([loss.op for loss in losses], with_control=False)
        if any("Regularizer" in op.name for op in ops):  # of the Keras layers, read one by one
            num_unread = 0
        return num_unread + sum(loss.op not in ops for loss in collection)


def _copy(tensor: tf.Tensor, copies: Dict[str, List[Any]]) -> tf.Tensor:
    """A tensor computed here by ops equal to those that compute `tensor`, outside of any loop, from
    the variables on. The outputs of the copies are added by the names of their ops.
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
