"""Order state as far as a script leaves it to chance: what is read is the value before the update.

A call that trains and fetches `global_step`, or summaries of the weights, reads variables that it
writes, and nothing says which comes first. So before a session sees new ops, each read of a
variable that waits for nothing becomes a control input of the variable's updates. Such a read costs
nothing where a call did not need it, and it changes no other call. Two updates of one variable
without an order stay as they are: `calls.find_unordered` names them.
"""

from __future__ import annotations

import collections
import weakref
from typing import Any, Dict, List

from .calls import is_update, reach, written_variable


class Order:
    """Orders the state of each graph, as it grows."""

    def __init__(self) -> None:
        self._done: Any = weakref.WeakKeyDictionary()  # graph -> the version up to which it is

    def complete(self, graph: Any) -> None:
        """Order what the graph got since the last time; before a session runs it."""
        done = self._done.get(graph, 0)
        if graph.version <= done:
            return
        self._done[graph] = graph.version
        reads: Dict[str, List[Any]] = collections.defaultdict(list)
        updates: Dict[str, List[Any]] = collections.defaultdict(list)
        for op in graph.get_operations():
            if op.type == "ReadVariableOp":
                reads[_handle(op)].extend(_ends_of_read(op))
            elif op._id > done and is_update(op) and op._get_control_flow_context() is None:
                updates[written_variable(op)].append(op)
        for name, ops in updates.items():
            for op in ops:
                op._add_control_inputs(reads.get(name, ()))


def _handle(read: Any) -> str:
    """The name of the variable that an op reads."""
    op = read.inputs[0].op
    while op.type in ("Switch", "Enter"):
        op = op.inputs[0].op
    return str(op.name)


def _ends_of_read(read: Any) -> List[Any]:
    """The ops after which a variable is read, if that waits for nothing: the read itself, or the
    merge behind the condition that has it, as of `global_step` in session hooks.
    """
    if read._get_control_flow_context() is None:
        return [] if read.control_inputs else [read]
    merges, stack, seen = [], [read], {read.name}
    while stack:
        for user in (user for tensor in stack.pop().outputs for user in tensor.consumers()):
            if user.type == "Merge" and user._get_control_flow_context() is None:
                merges.append(user)
            elif user.name not in seen and user._get_control_flow_context() is not None:
                seen.add(user.name)
                stack.append(user)
    return [merge for merge in merges if not any(map(_has_effect, reach([merge], (), ())))]


def _has_effect(op: Any) -> bool:
    return is_update(op) or op.type == "Placeholder"
