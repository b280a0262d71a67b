"""Which tensors of a step are non-finite, and which of them came first.

All float tensors of the step are inspected. From those that were refused, the search follows
non-finite inputs back to tensors that have none.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

import numpy as np

from ..compat import tf
from ..graph.ops import upstream


class Inspection:
    """The tensors of a step that were computed, by their names. In a loop there are several values
    of a tensor; the first that is not finite counts.

    `dump` has the name of each tensor and a function that reads its value, in the order of time.
    `finite` are the names of those that are finite; `masks` are bool masks of the values that are
    not, of the others.
    """

    def __init__(self, dump: Iterable[Tuple[str, Callable[[], np.ndarray]]]):
        self.masks: Dict[str, np.ndarray] = {}
        self._readers: Dict[str, List[Callable[[], np.ndarray]]] = {}
        self._turns: Dict[str, int] = {}  # of the first value that is not finite
        for name, read in dump:
            readers = self._readers.setdefault(name, [])
            readers.append(read)
            mask = ~np.isfinite(to_floats(read()))
            if mask.any() and name not in self.masks:
                self.masks[name], self._turns[name] = mask, len(readers) - 1
        self.finite = set(self._readers) - set(self.masks)

    @staticmethod
    def watched(ops: Iterable[tf.Operation]) -> List[tf.Tensor]:
        """The tensors of some ops that an inspection looks at: floats, and what ops compute of
        integers and bools.
        """
        tensors = [tensor for op in ops for tensor in op.outputs]
        return [
            x
            for x in tensors
            if is_float(x)
            or x.op.type != "VariableV2"  # such as all examples of a data set
            and (x.dtype.base_dtype.is_integer or x.dtype.base_dtype.is_bool)
        ]

    def is_cause(self, tensor: tf.Tensor, other: tf.Tensor) -> bool:
        """Whether a tensor can be non-finite because another one is, both of them with masks."""
        in_one_loop = len(self._readers[tensor.name]) == len(self._readers[other.name])
        return not in_one_loop or self._turns[other.name] <= self._turns[tensor.name]

    def value(self, tensor: tf.Tensor, of: tf.Tensor) -> Optional[np.ndarray]:
        """The value of a tensor in the turn in which another one is first not finite, or its only
        value; None of a tensor that was not computed.
        """
        readers = self._readers.get(tensor.name)
        turn = self._turns.get(of.name, 0)
        return readers[min(turn, len(readers) - 1)]() if readers else None


def is_float(tensor: tf.Tensor) -> bool:
    """Whether the tensor's type has infinities."""
    return bool(tensor.dtype.base_dtype.is_floating)


def to_floats(value: Any) -> np.ndarray:
    """Convert half precision to float32: numpy's functions do not support bfloat16."""
    array = np.asarray(value)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


class Chain:
    """The non-finite tensors by name that lead to `targets`, through non-finite tensors only, and
    `sources`, those of them that are computed from finite tensors.
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
        is_select = tensor.op.type in ("Select", "SelectV2")  # tf.where
        condition = self._inspection.value(inputs[0], tensor) if is_select else None
        if condition is None:
            return inputs
        if tensor.op.type == "Select" and condition.ndim == 1:  # [N], one per row
            condition = condition.reshape([-1] + [1] * (len(tensor.shape) - 1))  # [N, 1, ...]
        masks = [self._inspection.masks.get(other.name, np.False_) for other in inputs[1:]]
        has_nonfinite = [(masks[0] & condition).any(), (masks[1] & ~condition).any()]
        return [inputs[1 + i] for i in range(2) if has_nonfinite[i]] or inputs[1:]
