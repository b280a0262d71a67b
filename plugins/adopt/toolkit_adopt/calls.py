"""What a session call is: what it feeds, fetches and reaches, and whether it trains.

A call *trains* if it reaches an `Apply` op of an optimizer, or an op that changes a trainable
variable, but is no initializer and takes nothing from a file. Its losses are the scalars that
the script gave to an optimizer or to `tf.gradients`, which `record_losses` notes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import traceback
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Set, Tuple

import numpy as np
from tensorflow.python.ops import gradients_impl
from tensorflow.python.training import optimizer

from toolkit import ToolkitError, tf

from .noise import STATEFUL
from .observations import is_own
from .patches import Patches

_WRITES = r"Assign\w*|(Resource)?Scatter\w*|\w*Apply\w*"  # types of ops, by a handle or reference
ASSIGNS = ("Assign", "AssignVariableOp")
GATHERS = ("ResourceGather", "ResourceGatherNd")  # read rows of a variable
_READS = ("VarHandleOp", "ReadVariableOp")  # which TensorFlow counts as stateful
_FILES = ("RestoreV2", "Restore", "RestoreSlice")
_PASSING_FILES = ("Identity", "Reshape", "Cast", "Slice")  # what may come behind these
_TAKES = {  # types of ops that take from a queue, with the place of the queue in their inputs
    **dict.fromkeys(("QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2"), 0),
    **dict.fromkeys(("ReaderReadV2", "ReaderReadUpToV2", "ReaderRead", "ReaderReadUpTo"), 1),
}
_PUTS = ("QueueEnqueueV2", "QueueEnqueueManyV2", "QueueCloseV2")
_REFUSED = (  # types of ops in a train call
    r"(Eager)?PyFunc|\w*Unstage(NoKey)?|\w*AccumulatorTakeGradient|BarrierTakeMany|RecordInput"
)
_NEXTS = ("IteratorGetNext", "IteratorGetNextSync")
_RESOURCES = (
    *(*_NEXTS, "MakeIterator", "InitializeTableV2"),
    *("InitializeTableFromTextFileV2", "LookupTableInsertV2", "LookupTableImportV2"),
    "TakeManySparseFromTensorsMap",  # of sparse tensors that went through a queue
    *("CreateSummaryFileWriter", "CreateSummaryDbWriter"),
)
_PASSING = (  # types of ops whose output is their input
    *("Enter", "RefEnter", "Identity", "RefIdentity", "Switch", "RefSwitch"),
    "FakeQueue",  # before a reader of an old kind
)
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
SUMMARIES = ("MergeSummary", "ScalarSummary", "HistogramSummary", "ImageSummary")


class Kind(NamedTuple):
    """All calls with the same targets, fetches and feeds."""

    text: str  # the names of all, for the journal
    title: str  # `Adam, loss <- x, y`, for messages
    feeds: Tuple[str, ...]  # the names of the fed tensors, in their order
    trains: bool  # whether it changes what is trained
    learns: bool  # whether it trains by an optimizer or a loss, and does not only copy weights
    updates: Tuple[str, ...]  # the names of the ops that it runs and that change variables
    losses: List[Any]  # scalars that the call computes anyway, to be fetched besides
    takes: List[Tuple[Any, Any]]  # (op, queue) of what it takes from queues that it does not fill
    sizes: List[Any]  # the queues whose size it tells; none if it trains, or takes from a queue
    # Ops whose state no variable has, which a resume runs again: iterators, tables, queues, the
    # variables by which they are filled, and random ops that remember how much they drew.
    resources: List[Any]
    noise: List[str]  # the names of random ops that no resume can put at their position
    closed: Dict[Any, Any]  # what it is fed for the gates behind updates that it does not make


class Calls:
    """Finds the kind of each call, once for each; messages name lines of the script."""

    def __init__(self, script: str, complete: Callable[..., Any], folders: Callable[..., Any]):
        # `complete` orders what a graph got since the last call, and returns its gates: each a
        # tensor, bool [], behind an update of a variable, for which others wait, and that update.
        # `folders` gives those of the script.
        self._script, self._complete, self._folders = script, complete, folders
        self._kinds: Any = weakref.WeakKeyDictionary()  # graph -> names -> kind
        # graph -> the losses, each with the names of the ops that make its gradients
        self._losses: Any = weakref.WeakKeyDictionary()
        # graph -> the names of gradients at placeholders, with those of the placeholders
        self.input_gradients: Any = weakref.WeakKeyDictionary()

    def record_losses(self, patches: Patches) -> None:
        """Note the tensors of which the script asks for gradients."""

        def gradients(original: Any, ys: Any, xs: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(ys, xs, *args, **kwargs)
            for x, each in zip(xs if isinstance(xs, (list, tuple)) else [xs], found):
                if each is not None and x.op.type == "Placeholder":
                    self.input_gradients.setdefault(each.graph, {})[each.name] = x.op.name
            names = {each.op.name for each in found if each is not None}
            for loss in ys if isinstance(ys, (list, tuple)) else [ys]:
                if isinstance(loss, tf.Tensor) and _is_float_scalar(loss):
                    self._losses.setdefault(loss.graph, []).append((loss, names))
            return found

        for module in (tf, gradients_impl, optimizer.gradients):
            patches.wrap(module, "gradients", gradients)

    def find(
        self, graph: Any, targets: List[Any], fetches: List[Any], feeds: Any, links: Any = ()
    ) -> Kind:
        """The kind of a call; `links` maps tensors to those whose values they are fed.

        Raises ToolkitError, with the line of the script, if the call cannot be made exactly.
        """
        gates, links = self._complete(graph), dict(links)
        key = (
            tuple(op.name for op in targets),
            tuple(tensor.name for tensor in fetches),
            tuple(tensor.name for tensor in feeds),
            *((tensor.name, source.name) for tensor, source in links.items()),
        )
        kinds: Dict[Any, Kind] = self._kinds.setdefault(graph, {})
        if key in kinds:
            return kinds[key]
        fed = [tensor.name for tensor in (*feeds, *links, *dict(gates))]
        sources = [*fetches, *links.values()]
        ops = list(dict.fromkeys([*targets, *(tensor.op for tensor in sources)]))
        reached = reach(ops, fetches, fed)
        names = {op.name for op in reached}
        closed = [
            tensor
            for tensor, older in gates
            if older.name not in names and any(op.name in names for op in tensor.consumers())
        ]
        trainable = {variable.op.name for variable in graph.get_collection("trainable_variables")}
        read = {source_of(x.op.inputs[0]).name for x in feeds if x.op.type == "ReadVariableOp"}
        # Gradients at fed values: those of an optimizer outside of the graph, such as SciPy's.
        computed = [name for _, made in self._losses.get(graph, ()) for name in made & names]
        is_search = bool(read & trainable and computed)
        learns = is_search or has_optimizer(reached)
        trains = learns or any(
            written_variable(op) in trainable
            and not any(each.type in _FILES for each in reach([op], (), fed))
            for op in filter(is_update, reached)
        )
        for op in reached if trains else ():
            if re.fullmatch(_REFUSED, op.type):
                what = f"trains by '{op.name}' ({op.type}), whose state no resume knows"
                way_out = "; write stateful=False if it keeps none" * (op.type == "PyFunc")
                raise self.refusal(what + way_out, op)
        for op in reached if read else ():
            name = source_of(op.inputs[0]).name if op.type in GATHERS else ""
            if name in read:
                raise self.refusal(f"feeds the variable '{name}', and gathers rows of it", op)
        for tensor in fetches:
            if tensor.dtype in (tf.resource, tf.variant):
                raise self.refusal(f"fetches {tensor.name}, which is no array", tensor.op)
        drawing = [op for op in reached if op.type in STATEFUL]
        moved = [op for op in drawing if _can_run_again(op, fed)]
        takes = self._find_takes(reached)
        told = {queue_of(op): op for op in reached if op.type == "QueueSizeV2"}
        sizes = {} if trains or takes else told
        fetched = [_short(name) for name in (*key[0], *key[1])]
        feeds = tuple(map(_short, key[2]))
        title = ", ".join(fetched[:4]) + ", ..." * (len(fetched) > 4)
        losses = self._find_losses(graph, reached, fed) if trains else []
        kinds[key] = Kind(
            text=repr(key),
            title=title + (f" <- {', '.join(feeds)}" if feeds else ""),
            feeds=feeds,
            trains=trains,
            learns=learns or bool(losses),
            updates=tuple(o.name for o in ops if any(map(is_update, reach([o], fetches, fed)))),
            losses=losses,
            takes=takes,
            sizes=list(sizes),
            resources=[
                *(op for op in reached if op.type in _RESOURCES or op in moved),
                *sizes.values(),
                *self._find_pipeline(graph, reached, fed),
            ],
            noise=sorted(op.name for op in drawing if op not in moved) if trains else [],
            closed=dict.fromkeys(closed, np.ones((), bool)),
        )
        return kinds[key]

    def _find_losses(self, graph: Any, reached: Sequence[Any], fed: Sequence[str]) -> List[Any]:
        """The losses that a call trains on, and that it can fetch without another effect."""
        names = {op.name for op in reached}
        found = {}
        for loss, gradients in self._losses.get(graph, ()):
            more = [op for op in reach([loss.op], (), fed) if op.name not in names]
            stateful = [op for op in more if op.op_def.is_stateful and op.type not in _READS]
            is_free = loss.op._get_control_flow_context() is None  # in no loop or condition
            is_fed = any(op.type == "Placeholder" for op in more)
            if gradients & names and is_free and not stateful and not is_fed:
                found[loss.name] = loss
        return list(found.values())

    def _find_takes(self, reached: Sequence[Any]) -> List[Tuple[Any, Any]]:
        """The ops that take from queues which the call does not fill itself, with their queues."""
        filled = [source_of(op.inputs[0]) for op in reached if op.type in _PUTS]
        dequeues = [(op, queue_of(op)) for op in reached if op.type in _TAKES]
        takes = [(op, queue) for op, queue in dequeues if queue not in filled]
        for op, queue in takes:
            if "Queue" not in queue.type:  # such as the Gather of `QueueBase.from_list`
                raise self.refusal("takes from a queue that the call chooses", op)
            context = op._get_control_flow_context()
            if context is not None and context.GetWhileContext() is not None:
                raise self.refusal(f"takes from the queue '{queue.name}' in a loop", op)
        return takes

    def _find_pipeline(self, graph: Any, reached: Sequence[Any], fed: Sequence[str]) -> List[Any]:
        """The ops that move queues, and variables by which runners fill them, such as epochs."""
        runners = graph.get_collection("queue_runners")
        puts = [getattr(op, "op", op) for runner in runners for op in runner.enqueue_ops]
        known = {op.name for op in reach(puts, (), ()) if op.type in _VARIABLES}
        moving = (*_TAKES, *_PUTS)
        found = [op for op in reached if op.type in moving or written_variable(op) in known]
        for op in found:
            for each in reach([op], (), fed):
                if each.type in _VARIABLES and each.name not in known:
                    what = f"fills a queue by what depends on the variable '{each.name}'"
                    raise self.refusal(what + ", which a resume has only at a commit", op)
        return found

    def refusal(self, what: str, op: Any = None) -> ToolkitError:
        """The error of a script that cannot be driven, for what it does: a clause with no subject.

        `op` is at fault; None: the line that is executed now.
        """
        folder = os.path.dirname(self._script)
        place = ""
        for path, line, *_ in traceback.extract_stack() if op is None else op.traceback or ():
            if is_own(path, self._folders()):
                place = f" ({os.path.relpath(path, folder)}:{line})"
        return ToolkitError(
            f"{os.path.basename(self._script)} {what}{place}.",
            hint="docs/adopt.md says what can be adopted; a plugin can do it all.",
        )


def reach(ops: Iterable[Any], fetches: Sequence[Any], fed: Sequence[str]) -> List[Any]:
    """The ops that a call runs, each after those that it needs where there is no loop.

    `ops` are run, or their outputs are fetched. A fetched tensor that is fed needs nothing; `fed`
    has names of tensors.
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
    if not op.inputs or not re.fullmatch(_WRITES, op.type):
        return ""
    target = op.inputs[0]
    is_variable = target.dtype == tf.resource or target.dtype._is_ref_dtype
    return str(source_of(target).name) if is_variable else ""


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


def has_optimizer(ops: Iterable[Any]) -> bool:
    """Whether one of some ops is an optimizer's update of a variable."""
    return any("Apply" in op.type and written_variable(op) for op in ops)


def is_update(op: Any) -> bool:
    """Whether an op changes a variable while a script trains: it neither begins nor restores it."""
    if op.type not in ASSIGNS:
        return bool(written_variable(op))
    users = [user._id for user in op.inputs[0].consumers() if user.type == op.type]
    source = op.inputs[1].op
    while source.type in _PASSING_FILES:
        source = source.inputs[0].op
    return op._id != min(users) and source.type not in _FILES  # the first initializes


def _can_run_again(op: Any, fed: Sequence[str]) -> bool:
    """Whether an op can be run without the variables, and is in no loop or condition."""
    is_free = op._get_control_flow_context() is None
    return is_free and not any(each.type in _VARIABLES for each in reach([op], (), fed))


def _short(name: str) -> str:
    return name[:-2] if name.endswith(":0") else name


def _is_float_scalar(tensor: Any) -> bool:
    return bool(tensor.shape.rank == 0 and tensor.dtype.is_floating)


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


def scalars_of(fetches: Sequence[Any], values: Sequence[Any]) -> Dict[str, float]:
    """The metrics of a call by name: fetched scalars, and those in fetched summaries."""
    metrics = {}
    for tensor, value in zip(fetches, values):
        if tensor.op.type in SUMMARIES:
            for each in tf.Summary.FromString(value).value:
                if each.WhichOneof("value") == "simple_value":
                    metrics[each.tag] = float(each.simple_value)
        elif _is_float_scalar(tensor):
            metrics[_short(tensor.name)] = float(value)
    return metrics
