"""Losses of regularizers: computed again in each step, and counted where no loss has them.

TensorFlow computes the loss of a variable's regularizer where the variable is created. In a loop of
steps that is outside of the loop: its value is that of the first step, and no gradient reaches it.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Sequence, Set

from ..compat import tf
from .ops import upstream

_SHARED = ("VarHandleOp", "Placeholder", "PlaceholderWithDefault")  # not copied
_REGULARIZER = re.compile(r"Regularizer(?:_\d+)?/(.*)")
_NUMBER = re.compile(r"_\d+(?=/|$)")
_MAX_OBJECTS = 10000
_LIBRARIES = ("tensorflow", "tf_keras", "keras", "numpy", "toolkit.")


class NetworkList:
    """What `Run.function` and `Run.keras` created for a graph."""

    def __init__(self) -> None:
        self._networks: Dict[str, Any] = {}
        self._losses: List[Any] = []  # of TensorFlow's collection, after `build`
        self._renewed: Dict[str, Any] = {}  # name of one -> its copy in the present step

    def add(self, network: Any, name: str) -> str:
        """Add a network, and return its name, unique in the run."""
        unique, number = name, 0
        while unique in self._networks:
            number += 1
            unique = f"{name}_{number}"
        self._networks[unique] = network
        return unique

    def end_build(self) -> None:
        """Record the losses of regularizers that `build` added to TensorFlow's collection."""
        self._losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)

    def begin_step(self) -> None:
        """Compute these losses in the step that begins, and let the networks know of it."""
        copies: Dict[str, List[Any]] = {}
        self._renewed = {loss.name: _copy(loss, copies) for loss in self._losses}
        collection = tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES)
        collection[:] = list(self._renewed.values())
        for network in self._networks.values():
            network.begin_step()

    def renewed(self, losses: Sequence[Any]) -> List[Any]:
        """Losses of regularizers as the present step computes them."""
        return [self._renewed.get(loss.name, loss) for loss in losses]


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


# --------------------------------------------------------------------------------- omitted losses


def count_omitted_losses(model: Any, losses: Sequence[tf.Tensor]) -> int:
    """How many regularization losses none of the losses that a step minimizes depends on: those of
    TensorFlow's collection, and of the Keras layers in what the hook `build` returned.
    """
    layers = list(_find_layers(model))
    collection = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    if not layers and not collection:
        return 0
    ops = upstream([loss.op for loss in losses], with_control=False)
    tensors = {t.name: t for t in [*collection, *(t for layer in layers for t in layer.losses)]}
    names = {_normalize(op.name) for op in ops}

    def is_omitted(tensor: tf.Tensor) -> bool:
        name = _normalize(tensor.op.name)  # a copy may be in a further scope
        is_copied = "Regularizer/" in name and any(f"/{x}".endswith(f"/{name}") for x in names)
        return tensor.op not in ops and not is_copied

    return sum(map(is_omitted, tensors.values()))


def _normalize(name: str) -> str:
    # The loss of a variable is computed again, by ops with further numbers, whenever it is read.
    return _REGULARIZER.sub(lambda match: "Regularizer/" + _NUMBER.sub("", match[1]), name)


def _find_layers(model: Any) -> Iterator[Any]:
    """The Keras layers in a structure of containers and of a plugin's own objects."""
    pending: List[Any] = [model]
    known: Set[int] = set()
    while pending and len(known) < _MAX_OBJECTS:
        item = pending.pop()
        if id(item) in known:
            continue
        known.add(id(item))
        if hasattr(type(item), "add_loss") and hasattr(type(item), "losses"):
            yield item
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, (list, tuple, set, frozenset)):
            pending.extend(item)
        elif not isinstance(item, type) and not type(item).__module__.startswith(_LIBRARIES):
            pending.extend(getattr(item, "__dict__", {}).values())
