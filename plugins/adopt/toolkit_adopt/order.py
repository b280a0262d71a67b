"""Order state as far as a script leaves it to chance: what is read is the value before the update,
and of two updates the older op comes first.

A call that trains and fetches `global_step`, or summaries of the weights, reads variables that it
writes, and nothing says which comes first. So before a session sees new ops, each read of a
variable that waits for nothing becomes a control input of the variable's updates. Such a read costs
nothing where a call did not need it, and it changes no other call. So does the size of a queue, of
which `tf.train.batch` makes a summary, become one of what takes from the queue.

Two updates of one variable in one call, as of the averages of a network that is built twice, wait
for each other by a *gate*: a tensor behind the older update, for which the newer one waits, and
what that reads of the variable if it assigns a value made of it, such as clipped weights. A call
that makes the newer one alone is fed the tensor, so it runs nothing more than before. So do those
ops of a call that take from iterators or queues, and samplers: where the data ends, all of them
stand where a resume puts them.

A loop may make an `assign` for each of its calls, of which no call makes two: a newer update waits
for those that were made before the first call, and since the last one, for those of optimizers, and
for a few others.

lift/order.py orders a graph of which each call runs all ops, and lets a newer read wait for an
update. Here that would make the update in a call that only reads, as of `global_step`.
"""

from __future__ import annotations

import collections
import itertools
import weakref
from typing import Any, Dict, Iterable, List, Sequence, Tuple

from toolkit import tf

from .calls import (
    ASSIGNS,
    GATHERS,
    growing,
    is_moving,
    is_update,
    queue_of,
    reach,
    source_of,
    written_variable,
)

_DATA = ""  # in place of the name of a variable
_NUM_KEPT = 8  # others of a variable, for which a newer update waits
Ops = Dict[str, List[Any]]  # by the name of a variable or queue


class Order:
    """Orders the state of each graph, as it grows."""

    def __init__(self) -> None:
        # graph -> its versions up to which it was ordered the first time, and the last time
        self._done: Any = weakref.WeakKeyDictionary()
        self._gates: Any = weakref.WeakKeyDictionary()  # graph -> its gates

    def complete(self, graph: Any) -> List[Any]:
        """Order what the graph got since the last time, before a session runs it; return all of
        its gates, see `Calls`.
        """
        (begun, done), gates = self._done.get(graph, (0, 0)), self._gates.setdefault(graph, [])
        if graph.version <= done:
            return gates
        reads, late, updates, gathers = _list_state(graph)
        behind = _Behind()
        with growing(graph):
            for name, ops in updates.items():
                own: List[Any] = []  # what newer updates read, which comes after the older ones
                for place, op in reversed([(k, op) for k, op in enumerate(ops) if op._id > done]):
                    queue = queue_of(op)
                    free = reads[queue.name if queue else name]
                    first = [read for read in free if read not in own]
                    own += _find_own_reads(ops[:place], op, free, behind)
                    op._add_control_inputs(first)
                    behind.add(op, first)
                    unordered = [rows for rows in gathers[name] if not behind.order(rows, op)]
                    gates += [_make_gate(rows, op, (), behind) for rows in unordered]
                late_reads = [*own, *late[name]]
                between = [op for op in ops if begun < op._id <= done and "Apply" not in op.type]
                passed = set(between[:-_NUM_KEPT])
                rivals = [op for op in ops if op not in passed]
                for older, newer in itertools.combinations(rivals, 2):
                    if newer._id > done and not behind.order(older, newer):
                        gates.append(_make_gate(older, newer, late_reads, behind))
        self._done[graph] = begun or graph.version, graph.version
        return gates


def _list_state(graph: Any) -> Tuple[Ops, Ops, Ops, Ops]:
    """By variable: the ends of reads that wait for nothing, other reads, updates, and what gathers
    its rows. By queue: the ops that tell its size; and as updates of `_DATA`, what takes from
    sources, and samplers.
    """
    reads: Ops = collections.defaultdict(list)
    late: Ops = collections.defaultdict(list)
    updates: Ops = collections.defaultdict(list)
    gathers: Ops = collections.defaultdict(list)
    for op in graph.get_operations():
        is_free = op._get_control_flow_context() is None
        if op.type == "ReadVariableOp":
            name = source_of(op.inputs[0]).name
            reads[name] += _ends_of_read(op)
            late[name] += [op] if op.control_inputs and is_free else []
        elif is_free and op.type in GATHERS:
            gathers[source_of(op.inputs[0]).name].append(op)
        elif is_free and is_update(op):
            updates[written_variable(op)].append(op)
        elif is_free and op.type == "QueueSizeV2" and not op.control_inputs:
            reads[queue_of(op).name].append(op)
        elif is_free and is_moving(op):
            updates[_DATA].append(op)
    return reads, late, updates, gathers


class _Behind:
    """The ops for which an op waits, found once for each op while a graph is ordered: an int with a
    bit for the number of each, as many updates of a large graph are compared.

    Every edge that is added meanwhile is noted by `add`.
    """

    def __init__(self) -> None:
        self._known: Dict[int, int] = {}
        self._inputs: Dict[int, List[Any]] = {}  # of `_inputs_of`

    def __call__(self, op: Any) -> int:
        """The bits for an op, with its own."""
        if op._id in self._known:
            return self._known[op._id]
        found, seen, stack = 0, {op._id}, [op]
        while stack:
            each = stack.pop()
            if each._id in self._known:
                found |= self._known[each._id]
                continue
            if each._id not in self._inputs:
                self._inputs[each._id] = _inputs_of(each)
            left = [x for x in self._inputs[each._id] if x._id not in seen]
            seen.update(x._id for x in left)
            stack += left
        bits = bytearray(max(seen) // 8 + 1)
        for number in seen:
            bits[number // 8] |= 1 << number % 8
        return self._known.setdefault(op._id, found | int.from_bytes(bits, "little"))

    def order(self, one: Any, other: Any) -> bool:
        """Whether one of two ops waits for the other."""
        return _has(self(other), one) or _has(self(one), other)

    def add(self, op: Any, others: Iterable[Any]) -> None:
        """Note that an op waits for others from now on."""
        self._inputs.pop(op._id, None)
        waiting = [number for number, found in self._known.items() if _has(found, op)]
        more = 0
        for other in others if waiting else ():
            more |= self(other)
        for number in waiting:
            self._known[number] |= more


def _inputs_of(op: Any) -> List[Any]:
    """The ops for which an op waits at once."""
    return [*(tensor.op for tensor in op.inputs), *op.control_inputs]


def _has(found: int, op: Any) -> bool:
    """Whether the bits of some ops have that of one."""
    return bool(found >> op._id & 1)


def _find_own_reads(older: Sequence[Any], newer: Any, reads: Any, behind: _Behind) -> List[Any]:
    """The reads of which a variable's new value is made, and no older update of it, such as those
    of clipped weights: they come after these updates, which would be lost. None where the script
    itself orders the updates.
    """
    if newer.type not in ASSIGNS or not older or any(behind.order(op, newer) for op in older):
        return []
    made_of = [read for read in reads if _has(behind(newer), read)]
    return [read for read in made_of if not any(_has(behind(op), read) for op in older)]


def _make_gate(older: Any, newer: Any, late: Iterable[Any], behind: _Behind) -> Any:
    """Let an update, and what it reads late, wait for another update in calls that make both."""
    new = behind(newer) & ~behind(older)
    waiting = [newer, *(op for op in late if _has(new, op))]
    reads = [op for op in late if op.control_inputs == [older]]  # such as what `assign` returns
    with tf.control_dependencies([older, *reads]), tf.device("/cpu:0"):
        tensor = tf.constant(True, name="toolkit_adopt_gate")
    # Grappler would bypass an Identity, and the feed with it.
    gate = tf.raw_ops.Assert(condition=tensor, data=[tensor], name="toolkit_adopt_wait")
    for op in waiting:
        op._add_control_input(gate)
        behind.add(op, [older, *reads])
    return tensor, older


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
    return [
        merge
        for merge in merges
        if not any(is_update(op) or op.type == "Placeholder" for op in reach([merge], (), ()))
    ]
