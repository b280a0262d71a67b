"""Which tensors of a step are non-finite, and which of them came first.

All float tensors of the step are fetched. From those that were refused, the search then follows
non-finite inputs back to tensors that have none.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, NamedTuple, Set, Tuple

import numpy as np

from ..compat import tf
from .ops import Branches, switch_branch
from .replay import Replay

MAX_FETCH_BYTES = 256 << 20  # of tensors that one call of the session returns
_UNKNOWN_SIZE = 1 << 18  # elements assumed for a tensor without a static shape
_SELECT_OPS = ("Select", "SelectV2")  # tf.where

Fetch = Tuple[tf.Tensor, tf.Tensor]  # a tensor, and what to fetch for it


class Inspection(NamedTuple):
    """The tensors that were fetched, by their names."""

    nonfinite: Dict[str, np.ndarray]  # bool masks of the values that are not finite
    finite: Set[str]
    conditions: Dict[str, np.ndarray]  # bool conditions of tf.where


def inspect_tensors(replay: Replay, ops: Iterable[tf.Operation], inspection: Inspection) -> None:
    """Fetch the float tensors of `ops` and the conditions of tf.where, and record them.

    Tensors that are already in `inspection` are not fetched again.
    """
    groups = _group_by_branches(ops, inspection, replay.branches)
    for group in _prepare_fetches(replay, groups):
        for part in _split_by_size(group):
            values = replay.try_run([fetch for _, fetch in part])
            for (tensor, _), value in zip(part, values or ()):
                _record(tensor, value, inspection)


def _group_by_branches(
    ops: Iterable[tf.Operation],
    inspection: Inspection,
    branches: Dict[tf.Operation, Branches],
) -> Dict[Branches, List[tf.Tensor]]:
    """The tensors to fetch, grouped by the branches that they are computed in."""
    groups: Dict[Branches, List[tf.Tensor]] = {}
    for op in ops:
        tensors = [tensor for tensor in op.outputs if is_float(tensor)]
        if op.type in _SELECT_OPS:
            tensors.append(op.inputs[0])
        for tensor in tensors:
            if tensor.name not in inspection.nonfinite and tensor.name not in inspection.finite:
                groups.setdefault(branches[op] | switch_branch(tensor), []).append(tensor)
    return groups


def _prepare_fetches(
    replay: Replay, groups: Dict[Branches, List[tf.Tensor]]
) -> Iterator[List[Fetch]]:
    """Yield the fetches of each group whose branch is taken."""
    for branches, tensors in groups.items():
        pairs = [(tensor, replay.make_fetchable(tensor)) for tensor in tensors]
        fetches = [(tensor, fetch) for tensor, fetch in pairs if fetch is not None]
        if fetches and (not branches or replay.try_run(fetches[0][1]) is not None):
            yield fetches


def _split_by_size(fetches: List[Fetch]) -> Iterator[List[Fetch]]:
    """Yield parts of at most MAX_FETCH_BYTES by their static shapes, or of one tensor."""
    part: List[Fetch] = []
    size = 0
    for tensor, fetch in fetches:
        nbytes = (tensor.shape.num_elements() or _UNKNOWN_SIZE) * tensor.dtype.size
        if part and size + nbytes > MAX_FETCH_BYTES:
            yield part
            part, size = [], 0
        part.append((tensor, fetch))
        size += nbytes
    if part:
        yield part


def _record(tensor: tf.Tensor, value: np.ndarray, inspection: Inspection) -> None:
    if not is_float(tensor):
        inspection.conditions[tensor.name] = np.asarray(value)
        return
    mask = ~np.isfinite(to_floats(value))
    if mask.any():
        inspection.nonfinite[tensor.name] = mask
    else:
        inspection.finite.add(tensor.name)


def is_float(tensor: tf.Tensor) -> bool:
    """Whether the tensor's type has infinities."""
    return tensor.dtype.base_dtype.is_floating


def to_floats(value: np.ndarray) -> np.ndarray:
    """Convert half precision to float32: numpy's functions do not support bfloat16."""
    array = np.asarray(value)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


# ------------------------------------------------------------------------------------------ chain


class Chain:
    """The non-finite tensors that lead to `targets`, through non-finite tensors only.

    Attributes:
        tensors: name -> tensor, the targets included.
        sources: those that are computed from finite tensors.
    """

    def __init__(self, targets: Iterable[tf.Tensor], inspection: Inspection):
        self._inspection = inspection
        self.tensors: Dict[str, tf.Tensor] = {}
        self.sources: List[tf.Tensor] = []
        stack = list(targets)
        while stack:
            tensor = stack.pop()
            if tensor.name in self.tensors:
                continue
            self.tensors[tensor.name] = tensor
            causes = self._find_causes(tensor)
            if not causes:
                self.sources.append(tensor)
            stack.extend(causes)

    def first_source(self, ops: List[tf.Operation]) -> tf.Tensor:
        """The source that comes first in `ops`; a constant only if all sources are constants.

        A constant may be a mask, which is infinite on purpose.
        """
        order = {op: number for number, op in enumerate(ops)}
        constant: Set[tf.Operation] = set()
        for op in ops:
            if op.type == "Const" or (op.inputs and all(t.op in constant for t in op.inputs)):
                constant.add(op)
        return min(self.sources, key=lambda t: (t.op in constant, order[t.op], t.value_index))

    def _find_causes(self, tensor: tf.Tensor) -> List[tf.Tensor]:
        """The nearest non-finite tensors that it is computed from, past those not fetched."""
        causes: List[tf.Tensor] = []
        visited: Set[str] = set()
        stack = self._relevant_inputs(tensor)
        while stack:
            other = stack.pop()
            if other.name in visited or other.name in self._inspection.finite:
                continue
            visited.add(other.name)
            if other.name in self._inspection.nonfinite:
                causes.append(other)
            elif is_float(other) or other.dtype in (tf.resource, tf.variant):
                stack.extend(other.op.inputs)
        return causes

    def _relevant_inputs(self, tensor: tf.Tensor) -> List[tf.Tensor]:
        """The inputs of a tensor's op; of tf.where, those whose non-finite values it selects."""
        inputs = list(tensor.op.inputs)
        if tensor.op.type not in _SELECT_OPS:
            return inputs
        condition = self._inspection.conditions.get(inputs[0].name)
        if condition is None:
            return inputs
        if tensor.op.type == "Select" and condition.ndim == 1:  # [N], one per row
            condition = condition.reshape([-1] + [1] * (len(tensor.shape) - 1))  # [N, 1, ...]
        masks = [self._inspection.nonfinite.get(other.name, np.False_) for other in inputs[1:]]
        has_nonfinite = [(masks[0] & condition).any(), (masks[1] & ~condition).any()]
        return [inputs[1 + i] for i in range(2) if has_nonfinite[i]] or inputs[1:]
