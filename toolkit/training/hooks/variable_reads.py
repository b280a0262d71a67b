"""What a session hook fetches and what variables alone decide: it is read after the step.

In the call of the session that makes the step, nothing orders such a read: its value would be one
from before or after the step, or a mixture.
"""

from __future__ import annotations

from typing import Any, Container, Dict, List, NamedTuple, Optional, Sequence

from ...compat import tf
from ...graph.ops import upstream


class VariableReads:
    """Divides what a hook fetches.

    Args:
        step_ops: the ops of the graph before session hooks added theirs.
    """

    def __init__(self, step_ops: Container[tf.Operation]):
        self._step_ops = step_ops
        self._known: Dict[str, bool] = {}  # by the name of a tensor

    def divide(self, structure: Any, fetches: Sequence[Any]) -> DividedFetches:
        """Divide fetches.

        Args:
            structure: nested; its leaves are in the order of the fetches.
            fetches: variables, tensors and ops.
        """
        return DividedFetches(structure, list(fetches), [self._is_read(each) for each in fetches])

    def _is_read(self, fetch: Any) -> bool:
        if hasattr(fetch, "handle"):  # a variable
            return True
        if not isinstance(fetch, tf.Tensor):
            return False
        if fetch.name not in self._known:
            self._known[fetch.name] = self._reads_variables(fetch)
        return self._known[fetch.name]

    def _reads_variables(self, tensor: tf.Tensor) -> bool:
        ops = upstream([tensor.op])
        reads = [op for op in ops if op.type == "ReadVariableOp"]
        return bool(reads) and all(map(self._is_outside_of_step, ops))

    def _is_outside_of_step(self, op: tf.Operation) -> bool:
        """Whether an op is a hook's, or one that the step's ops share with it."""
        if op not in self._step_ops or op.type in ("VarHandleOp", "Const"):
            return True
        return op.type == "ReadVariableOp" and not op.control_inputs


class DividedFetches(NamedTuple):
    """What a hook fetches.

    Attributes:
        structure: nested, as the hook wants the values.
        fetches: its leaves.
        are_reads: whether each is read after the step.
    """

    structure: Any
    fetches: List[Any]
    are_reads: List[bool]

    def of_step(self) -> List[Any]:
        """Return the fetches for the call that makes the step."""
        return [each for each, is_read in zip(self.fetches, self.are_reads) if not is_read]

    def complete(
        self, results: Sequence[Any], session: Any, feed_dict: Optional[Dict[Any, Any]]
    ) -> Any:
        """Read the others, and return the values of all in their structure.

        Args:
            results: the values of `of_step`.
            session: for the reads.
            feed_dict: that the hook asked for, or None.
        """
        reads = [each for each, is_read in zip(self.fetches, self.are_reads) if is_read]
        later = iter(session.run(reads, feed_dict=feed_dict) if reads else [])
        now = iter(results)
        values = [next(later) if is_read else next(now) for is_read in self.are_reads]
        return tf.nest.pack_sequence_as(self.structure, values)
