"""Which tensors of a step are looked at, and the chain from what was refused to the first of them
that is not finite.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

import numpy as np

from ..compat import tf
from .ops import branch
from .replay import Replay

PORTION_BYTES = 256 << 20  # of tensors that one call of the session hands out


class Seen(NamedTuple):
    """What was looked at, by tensors' names. bad: bool masks of what is not finite."""

    bad: Dict[str, np.ndarray]
    finite: set
    chosen: Dict[str, np.ndarray]  # the conditions of tf.where


def look(replay: Replay, ops, seen: Seen) -> None:
    """Look at every float tensor of the ops that was not seen yet, and at tf.where's conditions."""
    for group in _reachable(replay, _wanted(ops, seen, replay.conditions)):
        for portion in _portions(group):
            values = replay.tried([fetch for _, fetch in portion])
            for (tensor, _), value in zip(portion, values or ()):
                _note(tensor, value, seen)


def _wanted(ops, seen: Seen, under) -> Dict[Any, List[Any]]:
    """Tensors to look at, in groups of those that are computed under the same conditions."""
    groups: Dict[Any, List[Any]] = {}
    for op in ops:
        tensors = [tensor for tensor in op.outputs if is_float(tensor)]
        if op.type in ("Select", "SelectV2"):
            tensors.append(op.inputs[0])
        for tensor in tensors:
            if tensor.name not in seen.bad and tensor.name not in seen.finite:
                conditions = under[op] | branch(tensor)
                groups.setdefault(conditions, []).append(tensor)
    return groups


def _reachable(replay: Replay, groups):
    """Lists of (tensor, what to fetch for it), without those of branches that are not taken."""
    for conditions, tensors in groups.items():
        pairs = [(tensor, replay.handed_out(tensor)) for tensor in tensors]
        pairs = [pair for pair in pairs if pair[1] is not None]
        if pairs and (not conditions or replay.tried(pairs[0][1]) is not None):
            yield pairs


def _portions(pairs):
    """Lists of at most PORTION_BYTES, by static shapes, or of one."""
    portion: List[Any] = []
    size = 0
    for tensor, fetch in pairs:
        nbytes = (tensor.shape.num_elements() or 1 << 18) * tensor.dtype.size
        if portion and size + nbytes > PORTION_BYTES:
            yield portion
            portion, size = [], 0
        portion.append((tensor, fetch))
        size += nbytes
    if portion:
        yield portion


def _note(tensor, value, seen: Seen) -> None:
    if not is_float(tensor):
        seen.chosen[tensor.name] = np.asarray(value)
        return
    mask = ~np.isfinite(as_floats(value))
    if mask.any():
        seen.bad[tensor.name] = mask
    else:
        seen.finite.add(tensor.name)


def is_float(tensor) -> bool:
    """Whether it is of a type that has an infinity."""
    return tensor.dtype.base_dtype.is_floating


def as_floats(value) -> np.ndarray:
    """The values in a type that numpy can judge: a half as float32."""
    array = np.asarray(value)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


# ------------------------------------------------------------------------------------------ chain


class Chain:
    """The non-finite tensors from which others lead to `targets`, and the first of them."""

    def __init__(self, targets, seen: Seen):
        self._seen = seen
        self.reached: Dict[str, Any] = {}
        self.sources: List[Any] = []
        stack = list(targets)
        while stack:
            tensor = stack.pop()
            if tensor.name in self.reached:
                continue
            self.reached[tensor.name] = tensor
            before = self._before(tensor)
            if not before:
                self.sources.append(tensor)
            stack.extend(before)

    def first(self, ops):
        """The source that comes first; a constant, which may be a mask, only if all are."""
        order = {op: number for number, op in enumerate(ops)}
        constant = set()
        for op in ops:
            if op.type == "Const" or (op.inputs and all(t.op in constant for t in op.inputs)):
                constant.add(op)
        return min(self.sources, key=lambda t: (t.op in constant, order[t.op], t.value_index))

    def _before(self, tensor) -> List[Any]:
        """The nearest non-finite tensors that it is made of, across what cannot be looked at."""
        found, met = [], set()
        stack = self._taken(tensor)
        while stack:
            one = stack.pop()
            if one.name in met or one.name in self._seen.finite:
                continue
            met.add(one.name)
            if one.name in self._seen.bad:
                found.append(one)
            elif is_float(one) or one.dtype in (tf.resource, tf.variant):
                stack.extend(one.op.inputs)
        return found

    def _taken(self, tensor) -> List[Any]:
        """The inputs of a tensor's op; of a tf.where those that it takes something bad from."""
        inputs = list(tensor.op.inputs)
        if tensor.op.type not in ("Select", "SelectV2"):
            return inputs
        chosen = self._seen.chosen.get(inputs[0].name)
        if chosen is None:
            return inputs
        if tensor.op.type == "Select" and chosen.ndim == 1:  # [N], for whole rows
            chosen = chosen.reshape([-1] + [1] * (len(tensor.shape) - 1))
        bad = [self._seen.bad.get(one.name, np.False_) for one in inputs[1:]]
        taken = [(bad[0] & chosen).any(), (bad[1] & ~chosen).any()]
        return [one for one, is_taken in zip(inputs[1:], taken) if is_taken] or inputs[1:]
