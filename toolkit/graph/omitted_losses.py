"""Losses of regularizers that a plugin has created but not added to what it minimizes."""

from __future__ import annotations

import re
from typing import Any, Iterator, List, Sequence, Set

from ..compat import tf

_REGULARIZER = re.compile(r"Regularizer(?:_\d+)?/(.*)")
_NUMBER = re.compile(r"_\d+(?=/|$)")
_MAX_OBJECTS = 10000
_LIBRARIES = ("tensorflow", "tf_keras", "keras", "numpy", "toolkit.")


def count_omitted_losses(model: Any, losses: Sequence[tf.Tensor]) -> int:
    """How many regularization losses none of the losses depends on.

    They are those of TensorFlow's collection and of the Keras layers in the model.

    Args:
        model: what the hook `build` returned.
        losses: the scalars that a step minimizes.
    """
    layers = list(_find_layers(model))
    collection = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    if not layers and not collection:
        return 0
    ops = _ancestors([loss.op for loss in losses])
    tensors = {t.name: t for t in [*collection, *(t for layer in layers for t in layer.losses)]}
    names = {_normalize(op.name) for op in ops}
    return sum(
        tensor.op not in ops and not _is_among(_normalize(tensor.op.name), names)
        for tensor in tensors.values()
    )


def _ancestors(ops: List[tf.Operation]) -> Set[tf.Operation]:
    """The ops and all whose outputs they need."""
    pending, known = list(ops), set(ops)
    while pending:
        for tensor in pending.pop().inputs:
            if tensor.op not in known:
                known.add(tensor.op)
                pending.append(tensor.op)
    return known


def _normalize(name: str) -> str:
    # The loss of a variable is computed again, by ops with further numbers, whenever it is read.
    return _REGULARIZER.sub(lambda match: "Regularizer/" + _NUMBER.sub("", match[1]), name)


def _is_among(name: str, names: Set[str]) -> bool:
    """Whether a regularizer's op is among names, possibly in a further scope."""
    return "Regularizer/" in name and any(
        other == name or other.endswith("/" + name) for other in names
    )


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
