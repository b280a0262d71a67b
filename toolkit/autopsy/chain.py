"""Which tensors of a step are non-finite, and which of them came first.

All float tensors of the step are inspected. From those that were refused, the search follows
non-finite inputs back to tensors that have none.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

import numpy as np

from ..compat import tf
from ..graph.ops import upstream

_SELECT_OPS = ("Select", "SelectV2")  # tf.where


class Inspection:
    """The tensors of a step that were computed, by their names. In a loop there are several values
    of a tensor; the first that is not finite counts.

    Attributes:
        finite: the names of those that are finite.
        masks: bool masks of the values that are not finite, of the others.
    """

    def __init__(self) -> None:
        self.finite: Set[str] = set()
        self.masks: Dict[str, np.ndarray] = {}
        self._conditions: Dict[str, List[np.ndarray]] = {}  # of tf.where
        self._counts: Dict[str, int] = {}
        self._turns: Dict[str, int] = {}  # of the first value that is not finite

    @staticmethod
    def watched(ops: Iterable[tf.Operation]) -> List[tf.Tensor]:
        """The tensors of some ops that an inspection looks at."""
        tensors = [tensor for op in ops for tensor in op.outputs if is_float(tensor)]
        conditions = {op.inputs[0].name: op.inputs[0] for op in ops if op.type in _SELECT_OPS}
        return [*tensors, *conditions.values()]

    def add(self, values: Iterable[Tuple[str, np.ndarray]]) -> None:
        """Add name and value of each tensor, in the order of time."""
        for name, value in values:
            turn = self._counts.get(name, 0)
            self._counts[name] = turn + 1
            if value.dtype == np.bool_:
                self._conditions.setdefault(name, []).append(value)
                continue
            mask = ~np.isfinite(to_floats(value))
            if mask.any() and name not in self.masks:
                self.masks[name], self._turns[name] = mask, turn
        self.finite = set(self._counts) - set(self.masks)

    def is_cause(self, tensor: tf.Tensor, other: tf.Tensor) -> bool:
        """Whether a tensor can be non-finite because an input of its op is."""
        if other.name not in self.masks:
            return False
        in_one_loop = self._counts[tensor.name] == self._counts[other.name]
        return not in_one_loop or self._turns[other.name] <= self._turns[tensor.name]

    def condition_of(self, tensor: tf.Tensor) -> Optional[np.ndarray]:
        """The condition of the tf.where that selected the non-finite values of a tensor; None of
        another op.
        """
        is_select = tensor.op.type in _SELECT_OPS
        values = self._conditions.get(tensor.op.inputs[0].name) if is_select else None
        return values[min(self._turns[tensor.name], len(values) - 1)] if values else None


def is_float(tensor: tf.Tensor) -> bool:
    """Whether the tensor's type has infinities."""
    return bool(tensor.dtype.base_dtype.is_floating)


def to_floats(value: Any) -> np.ndarray:
    """Convert half precision to float32: numpy's functions do not support bfloat16."""
    array = np.asarray(value)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


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

    def first_source(self) -> tf.Tensor:
        """The source that was created first; a constant only if all sources are constants.

        A constant may be a mask, which is infinite on purpose.
        """
        sources = self.sources or list(self.tensors.values())
        order = {op: number for number, op in enumerate(sources[0].graph.get_operations())}

        def rank(tensor: tf.Tensor) -> Tuple[bool, int, int]:
            ops = upstream([tensor.op], with_control=False)
            is_constant = all(op.inputs or op.type == "Const" for op in ops)
            return is_constant, order[tensor.op], tensor.value_index

        return min(sources, key=rank)

    def _find_causes(self, tensor: tf.Tensor) -> List[tf.Tensor]:
        """The nearest non-finite tensors that it is computed from, past those not computed."""
        causes: List[tf.Tensor] = []
        visited: Set[str] = set()
        stack = self._relevant_inputs(tensor)
        while stack:
            other = stack.pop()
            if other.name in visited or other.name in self._inspection.finite:
                continue
            visited.add(other.name)
            if other.name in self._inspection.masks:
                causes += [other] if self._inspection.is_cause(tensor, other) else []
            elif is_float(other) or other.dtype in (tf.resource, tf.variant):
                stack.extend(other.op.inputs)
        return causes

    def _relevant_inputs(self, tensor: tf.Tensor) -> List[tf.Tensor]:
        """The inputs of a tensor's op; of tf.where, those whose non-finite values it selects."""
        inputs = list(tensor.op.inputs)
        condition = self._inspection.condition_of(tensor)
        if condition is None:
            return inputs
        if tensor.op.type == "Select" and condition.ndim == 1:  # [N], one per row
            condition = condition.reshape([-1] + [1] * (len(tensor.shape) - 1))  # [N, 1, ...]
        masks = [self._inspection.masks.get(other.name, np.False_) for other in inputs[1:]]
        has_nonfinite = [(masks[0] & condition).any(), (masks[1] & ~condition).any()]
        return [inputs[1 + i] for i in range(2) if has_nonfinite[i]] or inputs[1:]
