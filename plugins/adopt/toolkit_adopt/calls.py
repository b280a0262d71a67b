"""What a session call is: what it feeds, fetches and reaches, and whether it trains.

A call *trains* if it reaches an `Apply` op of an optimizer, or an op that changes a trainable
variable but is no initializer and takes nothing from a file. Its losses are the scalars that the
script gave to `Optimizer.compute_gradients` or `tf.gradients`, which `record_losses` notes.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import os
import re
import traceback
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Set, Tuple

import numpy as np
from tensorflow.python.ops import gradients_impl

from toolkit import ToolkitError, tf

from .noise import STATEFUL
from .patches import Patches

_APPLY = ("Apply",)  # in the types of the ops that optimizers make
_WRITES = (
    *("Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp"),
    "AssignSubVariableOp",
    *(
        f"{kind}Scatter{nd}{change}"
        for kind in ("", "Resource")
        for nd in ("", "Nd")
        for change in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max")
    ),
)
_ASSIGNS = ("Assign", "AssignVariableOp")
_READS = ("VarHandleOp", "ReadVariableOp")  # which TensorFlow counts as stateful
_FILES = ("RestoreV2", "Restore", "RestoreSlice")
_TAKES = {  # types of ops that take from a queue, with the place of the queue in their inputs
    **dict.fromkeys(("QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2"), 0),
    **dict.fromkeys(("ReaderReadV2", "ReaderReadUpToV2", "ReaderRead", "ReaderReadUpTo"), 1),
}
_PUTS = ("QueueEnqueueV2", "QueueEnqueueManyV2", "QueueCloseV2")
_STAGES = r"\w*Unstage(NoKey)?|\w*AccumulatorTakeGradient|BarrierTakeMany|RecordInput"
_REFUSED = (  # types of ops in a train call, and what it does by one of a name and a type
    (r"(Eager)?PyFunc(Stateless)?", "trains through the Python function '{}' (py_func)"),
    (_STAGES, "trains by '{}' ({})"),
)
_NEXTS = ("IteratorGetNext", "IteratorGetNextSync")
_RESOURCES = (
    *(*_NEXTS, "MakeIterator", "InitializeTableV2"),
    *("InitializeTableFromTextFileV2", "LookupTableInsertV2", "LookupTableImportV2"),
    "TakeManySparseFromTensorsMap",  # of sparse tensors that went through a queue
)
_PASSING = (  # types of ops whose output is their input
    *("Enter", "RefEnter", "Identity", "RefIdentity", "Switch", "RefSwitch"),
    "FakeQueue",  # before a reader of an old kind
)
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
_SUMMARIES = ("MergeSummary", "ScalarSummary", "HistogramSummary", "ImageSummary")


class Gate(NamedTuple):
    """A tensor, bool [], behind an update of a variable, for which a newer update of it waits."""

    tensor: Any
    older: Any
    newer: Any


class Kind(NamedTuple):
    """All calls with the same targets, fetches and feeds.

    Attributes:
        text: the names, for the journal and for messages.
        fetches: the names of what is fetched or run.
        feeds: the names of the fed tensors, in their order.
        trains: whether it changes what is trained.
        updates: the names of the ops that it runs and that change variables.
        losses: scalars that the call computes anyway, to be fetched besides.
        scalars: the places and names of fetched float scalars.
        summaries: the places of fetched summaries.
        takes: the ops that take from queues, each with its queue.
        sizes: the queues of which it tells the size; none if it trains, or takes from a queue.
        resources: ops whose state no variable has, which a resume runs again: iterators, tables,
            queues, the variables by which they are filled, and random ops that remember how much
            they drew.
        noise: the names of random ops that no resume can put at their position.
        unordered: the names of variables that the call updates twice without an order.
        closed: what the call is fed for the gates behind updates that it does not make.
    """

    text: str
    fetches: Tuple[str, ...]
    feeds: Tuple[str, ...]
    trains: bool
    updates: Tuple[str, ...]
    losses: List[Any]
    scalars: List[Tuple[int, str]]
    summaries: List[int]
    takes: List[Tuple[Any, Any]]
    sizes: List[Any]
    resources: List[Any]
    noise: List[str]
    unordered: List[str]
    closed: Dict[Any, Any]

    @property
    def title(self) -> str:
        """`Adam, loss <- x, y`."""
        fetched = ", ".join(self.fetches[:4]) + (", ..." if len(self.fetches) > 4 else "")
        return fetched + (f" <- {', '.join(self.feeds)}" if self.feeds else "")


class Calls:
    """Finds the kind of each call, once for each.

    Args:
        script: the path of the script, whose lines messages name.
        complete: orders what a graph got since the last call, and returns its gates.
    """

    def __init__(self, script: str, complete: Callable[[Any], Sequence[Gate]]):
        self._script, self._complete = script, complete
        self._kinds: Any = weakref.WeakKeyDictionary()  # graph -> names -> kind
        # graph -> the losses, each with the names of the ops that make its gradients
        self._losses: Any = weakref.WeakKeyDictionary()

    def record_losses(self, patches: Patches) -> None:
        """Note the tensors of which the script asks for gradients."""

        def compute(original: Any, optimizer: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = original(optimizer, loss, *args, **kwargs)
            self._add_loss(loss, [gradient for gradient, _ in pairs])
            return pairs

        def gradients(original: Any, ys: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(ys, *args, **kwargs)
            for loss in ys if isinstance(ys, (list, tuple)) else [ys]:
                self._add_loss(loss, found)
            return found

        patches.wrap(tf.train.Optimizer, "compute_gradients", compute)
        for module in (tf, gradients_impl):
            patches.wrap(module, "gradients", gradients)

    def _add_loss(self, loss: Any, gradients: Iterable[Any]) -> None:
        is_scalar = isinstance(loss, tf.Tensor) and loss.shape.rank == 0
        if is_scalar and loss.dtype.is_floating:
            names = {each.op.name for each in gradients if each is not None}
            self._losses.setdefault(loss.graph, []).append((loss, names))

    def find(self, graph: Any, targets: Sequence[Any], fetches: Sequence[Any], feeds: Any) -> Kind:
        """The kind of a call.

        Args:
            graph: of the session.
            targets: ops that are run.
            fetches: tensors whose values are returned.
            feeds: the fed tensors.

        Raises:
            ToolkitError: it cannot be made exactly; names the line of the script.
        """
        gates = self._complete(graph)
        key = (
            tuple(op.name for op in targets),
            tuple(tensor.name for tensor in fetches),
            tuple(tensor.name for tensor in feeds),
        )
        kinds = self._kinds.setdefault(graph, {})
        if key not in kinds:
            kinds[key] = self._make(graph, key, targets, fetches, gates)
        kind: Kind = kinds[key]
        return kind

    def _make(self, graph: Any, key: Any, targets: Any, fetches: Any, gates: Any) -> Kind:
        fed = [*key[2], *(gate.tensor.name for gate in gates)]
        ops = list(dict.fromkeys([*targets, *(tensor.op for tensor in fetches)]))
        reached = reach(ops, fetches, fed)
        names = {op.name for op in reached}
        closed = [g.tensor for g in gates if g.newer.name in names and g.older.name not in names]
        trainable = {variable.op.name for variable in graph.get_collection("trainable_variables")}
        trains = any(_trains(op, trainable, fed) for op in reached)
        if trains:
            self._refuse(reached)
        for tensor in fetches:
            if tensor.dtype in (tf.resource, tf.variant):
                raise self.refusal(f"fetches {tensor.name}, which is no array", tensor.op)
        places = list(enumerate(fetches))
        drawing = [op for op in reached if op.type in STATEFUL]
        moved = [op for op in drawing if _can_run_again(op, fed)]
        takes = self._find_takes(reached)
        told = {queue_of(op): op for op in reached if op.type == "QueueSizeV2"}
        sizes = {} if trains or takes else told
        return Kind(
            text=repr(key),
            fetches=tuple(_short(name) for name in (*key[0], *key[1])),
            feeds=tuple(_short(name) for name in key[2]),
            trains=trains,
            updates=tuple(o.name for o in ops if any(map(is_update, reach([o], fetches, fed)))),
            losses=self._find_losses(graph, reached, fed) if trains else [],
            scalars=[
                (place, _short(tensor.name))
                for place, tensor in places
                if tensor.shape.rank == 0 and tensor.dtype.is_floating
            ],
            summaries=[place for place, tensor in places if tensor.op.type in _SUMMARIES],
            takes=takes,
            sizes=list(sizes),
            resources=[
                *(op for op in reached if op.type in _RESOURCES or op in moved),
                *sizes.values(),
                *self._find_pipeline(graph, reached, fed),
            ],
            noise=sorted(op.name for op in drawing if op not in moved) if trains else [],
            unordered=find_unordered(reached) if trains else [],
            closed=dict.fromkeys(closed, np.ones((), bool)),
        )

    def _find_losses(self, graph: Any, reached: Sequence[Any], fed: Sequence[str]) -> List[Any]:
        """The losses that a call trains on, and that it can fetch without another effect."""
        names = {op.name for op in reached}
        found = {}
        for loss, gradients in self._losses.get(graph, ()):
            more = [op for op in reach([loss.op], (), fed) if op.name not in names]
            has_effect = any(
                op.op_def.is_stateful and op.type not in _READS or op.type == "Placeholder"
                for op in more
            )
            if gradients & names and not has_effect:
                found[loss.name] = loss
        return list(found.values())

    def _refuse(self, reached: Iterable[Any]) -> None:
        for op in reached:
            for pattern, what in _REFUSED:
                if re.fullmatch(pattern, op.type):
                    text = what.format(op.name, op.type)
                    raise self.refusal(f"{text}, whose state no resume knows", op)

    def _find_takes(self, reached: Sequence[Any]) -> List[Tuple[Any, Any]]:
        """The ops that take from queues which the call does not fill itself, with their queues."""
        filled = [source_of(op.inputs[0]) for op in reached if op.type in _PUTS]
        takes = []
        for op in reached:
            queue = queue_of(op) if op.type in _TAKES else None
            if queue is not None and queue not in filled:
                if "Queue" not in queue.type:  # such as the Gather of `QueueBase.from_list`
                    raise self.refusal("takes from a queue that the call chooses", op)
                context = op._get_control_flow_context()
                if context is not None and context.GetWhileContext() is not None:
                    raise self.refusal(f"takes from the queue '{queue.name}' in a loop", op)
                takes.append((op, queue))
        return takes

    def _find_pipeline(self, graph: Any, reached: Sequence[Any], fed: Sequence[str]) -> List[Any]:
        """The ops that move queues, and variables by which runners fill them, such as epochs."""
        runners = graph.get_collection("queue_runners")
        puts = [getattr(op, "op", op) for runner in runners for op in runner.enqueue_ops]
        known = {op.name for op in reach(puts, (), ()) if op.type in _VARIABLES}
        found = [
            op
            for op in reached
            if op.type in _TAKES or op.type in _PUTS or written_variable(op) in known
        ]
        for op in found:
            for each in reach([op], (), fed):
                if each.type in _VARIABLES and each.name not in known:
                    what = f"fills a queue by what depends on the variable '{each.name}'"
                    raise self.refusal(what + ", which a resume has only at a commit", op)
        return found

    def refusal(self, what: str, op: Any = None) -> ToolkitError:
        """The error of a script that cannot be driven.

        Args:
            what: it does, as a clause without a subject.
            op: the op that is at fault; None: the line that is executed now.
        """
        frames = traceback.extract_stack() if op is None else op.traceback
        place = find_line(frames, self._script)
        return ToolkitError(
            f"{os.path.basename(self._script)} {what}{place}.",
            hint="docs/adopt.md says what can be adopted; a plugin can do it all.",
        )


def reach(ops: Iterable[Any], fetches: Sequence[Any], fed: Sequence[str]) -> List[Any]:
    """The ops that a call runs, each after those that it needs where there is no loop.

    Args:
        ops: that are run, or whose outputs are fetched.
        fetches: tensors; one that is fed needs nothing.
        fed: the names of the fed tensors.
    """
    is_fed = set(fed)
    fed_ops = {tensor.op.name for tensor in fetches if tensor.name in is_fed}
    seen: Set[str] = set()
    stack = [op for op in ops if op.name not in fed_ops]
    found = []
    while stack:
        op = stack.pop()
        if op.name in seen:
            continue
        seen.add(op.name)
        found.append(op)
        stack.extend(tensor.op for tensor in op.inputs if tensor.name not in is_fed)
        stack.extend(op.control_inputs)
    return sorted(found, key=lambda op: op._id)


def written_variable(op: Any) -> str:
    """The name of the variable that an op changes; "" if it changes none."""
    changes = op.type in _WRITES or any(word in op.type for word in _APPLY)
    if not changes or not op.inputs:
        return ""
    return str(source_of(op.inputs[0]).name)


def source_of(tensor: Any) -> Any:
    """The op of a variable or queue, before loops and conditions."""
    source = tensor.op
    while source.type in _PASSING:
        source = source.inputs[0].op
    return source


def queue_of(op: Any) -> Any:
    """The queue that an op takes from, or whose size it tells; None for another op."""
    place = 0 if op.type == "QueueSizeV2" else _TAKES.get(op.type)
    return None if place is None else source_of(op.inputs[place])


def is_source(op: Any) -> bool:
    """Whether an op takes from an iterator, a queue or a file."""
    return op.type in _NEXTS or op.type in _TAKES


def is_moving(op: Any) -> bool:
    """Whether an op takes from such a source, or draws by a state that a resume moves."""
    return is_source(op) or op.type in STATEFUL and _can_run_again(op, ())


@contextlib.contextmanager
def growing(graph: Any) -> Iterator[None]:
    """Within the block, ops are added to a graph, even if it is finalized."""
    is_finalized = graph.finalized
    graph._unsafe_unfinalize()
    try:
        with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
            yield
    finally:
        if is_finalized:
            graph.finalize()


def is_update(op: Any) -> bool:
    """Whether an op changes a variable while a script trains: it neither begins nor restores it."""
    if op.type not in _ASSIGNS:
        return bool(written_variable(op))
    if _is_initializer(op):
        return False
    source = op.inputs[1].op
    while source.type == "Identity":
        source = source.inputs[0].op
    return source.type not in _FILES


def find_unordered(reached: Sequence[Any]) -> List[str]:
    """The variables that a call updates twice without an order.

    Args:
        reached: the ops of the call.
    """
    updates: Dict[str, List[Any]] = collections.defaultdict(list)
    for op in filter(is_update, reached):
        updates[written_variable(op)].append(op)
    return [
        name
        for name, ops in updates.items()
        if any(not waits(later, earlier) for earlier, later in zip(ops, ops[1:]))
    ]


def waits(op: Any, other: Any) -> bool:
    """Whether an op runs after another one, in each call of both."""
    return other in reach([op], (), ())


def _trains(op: Any, trainable: Set[str], fed: Sequence[str]) -> bool:
    name = written_variable(op)
    if not name:
        return False
    if any(word in op.type for word in _APPLY):
        return True
    if name not in trainable or _is_initializer(op):
        return False
    return not any(each.type in _FILES for each in reach([op], (), fed))


def _is_initializer(op: Any) -> bool:
    """Whether an op is the first that writes its variable, which it does not read before."""
    is_first = op.type in _ASSIGNS
    users = [user for user in op.inputs[0].consumers() if user.type == op.type]
    return is_first and op._id == min(user._id for user in users)


def _can_run_again(op: Any, fed: Sequence[str]) -> bool:
    """Whether an op can be run without the variables, and is in no loop or condition."""
    is_free = op._get_control_flow_context() is None
    return is_free and not any(each.type in _VARIABLES for each in reach([op], (), fed))


def _short(name: str) -> str:
    return name[:-2] if name.endswith(":0") else name


def find_line(frames: Any, script: str) -> str:
    """` (script.py:12)`, the last line of a traceback that is in the folder of the script."""
    folder = os.path.dirname(script) + os.sep
    for frame in reversed(list(frames or ())):
        path, line = (
            (frame[0], frame[1]) if isinstance(frame, tuple) else (frame.filename, frame.lineno)
        )
        if os.path.abspath(path).startswith(folder):
            return f" ({os.path.relpath(path, os.path.dirname(script))}:{line})"
    return ""


def digest(value: Any) -> bytes:
    """4 bytes that identify an array."""
    array = np.asarray(value)
    state = hashlib.blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=4)
    if array.dtype.kind in "OUS":
        for item in array.ravel():
            state.update(repr(item).encode("utf-8"))
    else:
        state.update(np.ascontiguousarray(array).tobytes())
    return state.digest()


def scalars_of(values: Sequence[Any], kind: Kind) -> Dict[str, float]:
    """The metrics of a call by name: fetched scalars, and those in fetched summaries."""
    metrics = {name: float(values[place]) for place, name in kind.scalars}
    for place in kind.summaries:
        for value in tf.Summary.FromString(values[place]).value:
            if value.WhichOneof("value") == "simple_value":
                metrics[value.tag] = float(value.simple_value)
    return metrics
