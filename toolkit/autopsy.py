"""After a divergence: make the refused step again and find the first tensor that is not finite.

The guard kept the variables of the last good step, so the step can be made again in a graph and a
session of its own, where each tensor can be looked at. What is told is the earliest tensor from
which a chain of non-finite tensors leads to the loss or the gradient norm that was refused: an
infinity that a tf.where discards is none.
"""

from __future__ import annotations

import linecache
import os
import sys
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .compat import tf
from .files import write_json, written_whole
from .graphs import build_training
from .reports.grid import save_grid
from .session.config import session_config

PORTION_BYTES = 256 << 20  # of tensors that one call of the session hands out
UNREPEATED = (
    "The step was finite when it was made again, one op after the other: it may be that XLA or"
    " another build rounded otherwise, or that a plugin draws other numbers each time."
)
# What stands between the line of a plugin and an op that it makes.
_BETWEEN = ("tensorflow", "tensorflow_core", "tensorflow_estimator", "keras", "tf_keras", "pluggy")
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableV2")


class Place(NamedTuple):
    """A line of Python. file: an absolute path. source: its text, or ""."""

    file: str
    line: int
    function: str
    source: str

    @property
    def short(self) -> str:
        """`file:line in function`, the file as seen from here where it lies below."""
        near = os.path.relpath(self.file)
        file = self.file if near.startswith("..") else near
        return "{}:{} in {}".format(file, self.line, self.function)

    def __str__(self) -> str:
        return self.short + (self.source and ": " + self.source)


class Values(NamedTuple):
    """What a tensor held. low, high: of its finite values, None where there is none.

    shape, low, high, nan, inf are None where it could not be looked at.
    """

    name: str
    dtype: str
    shape: Optional[Tuple[int, ...]] = None
    low: Optional[float] = None
    high: Optional[float] = None
    nan: Optional[int] = None
    inf: Optional[int] = None

    def __str__(self) -> str:
        if self.shape is None:
            return "of type {}, which cannot be looked at".format(self.dtype)
        text = "{} {}".format(self.dtype, list(self.shape))
        if self.low is not None:
            text += " from {:g} to {:g}".format(self.low, self.high)
        wrong = ["{} {}".format(n, what) for n, what in ((self.nan, "nan"), (self.inf, "inf")) if n]
        if wrong:
            count = int(np.prod(self.shape, dtype=int))
            text += " with {} of {} value{}".format(" and ".join(wrong), count, "s" * (count > 1))
        return text


class Finding(NamedTuple):
    """The first tensor that is not finite, and the batch B of the step.

    kind: "features"; "variable", which held it before the update; "op". update: the name of the
    update that was refused; loss, gradient_norm: its numbers. op: a name; the variable's where it
    is one. stack: the lines of plugins that made the op, or the forward op that it is in the
    gradient of, the innermost last; [] where the core made it. gradient_of: the forward op's name
    and type. inside: whether the op hands out what was made within a loop of the graph, which
    cannot be looked into. rows: those of the batch that are not finite, where the tensor has them.
    positions: of the examples in the split "train" after `filter`.
    """

    kind: str
    step: int  # the one that was refused: the last good one and 1
    update: str
    loss: float
    gradient_norm: float
    tensor: Values
    op: str
    op_type: str
    stack: List[Place]
    gradient_of: Optional[Tuple[str, str]]
    inside: bool
    inputs: List[Values]
    rows: List[int]
    positions: List[int]
    labels: Optional[List[int]]
    features: np.ndarray  # float32 [B, ...]

    @property
    def place(self) -> Optional[Place]:
        """The innermost line of a plugin."""
        return self.stack[-1] if self.stack else None

    @property
    def examples(self) -> List[int]:
        """The positions of the examples whose rows are not finite."""
        return [self.positions[row] for row in self.rows]

    def lines(self) -> List[str]:
        """Sentences for the console."""
        told = ["Step {} was made again; {}".format(self.step, self._first())]
        if self.kind == "op":
            told.append(self._made_at())
            callers = [place.short for place in self.stack[-2:-5:-1]]
            told += ["It was called at {}.".format(", from ".join(callers))] if callers else []
            told += ["Its input '{}' is {}.".format(one.name, one) for one in self.inputs]
        if self.rows and self.kind == "op":
            told.append("It is not finite in the rows of {}.".format(self._told(self.rows)))
        if len(self.rows) != len(self.positions):
            everyone = range(len(self.positions))
            told.append("The batch was {}.".format(self._told(everyone)))
        return told

    def _first(self) -> str:
        if self.kind == "features":
            return "the features of {} are not finite: the batch is {}.".format(
                self._told(self.rows), self.tensor
            )
        if self.kind == "variable":
            when = "the update '{}'".format(self.update) if self.update else "it"
            return "the variable '{}' was not finite before {}: {}.".format(
                self.op, when, self.tensor
            )
        within = ", made within a loop" if self.inside else ""
        return "the first tensor that is not finite is '{}' (op {}{}): {}.".format(
            self.tensor.name, self.op_type, within, self.tensor
        )

    def _made_at(self) -> str:
        place = "by the toolkit itself" if self.place is None else "at {}".format(self.place)
        if self.gradient_of is None:
            return "It was made {}.".format(place)
        return "It is in the gradient of '{}' (op {}), made {}.".format(*self.gradient_of, place)

    def _told(self, rows: Iterable[int], most: int = 8) -> str:
        """`examples 3 and 5 of the split 'train' (labels 0 and 1)`."""
        rows = list(rows)
        text = _listed("example", [self.positions[row] for row in rows], most)
        text += " of the split 'train'"
        if self.labels is not None:
            text += " ({})".format(_listed("label", [self.labels[row] for row in rows], most))
        return text

    def as_json(self) -> Dict[str, Any]:
        """Everything but the features, as JSON values."""
        values = self._asdict()
        del values["features"]
        values["tensor"] = self.tensor._asdict()
        values["inputs"] = [one._asdict() for one in self.inputs]
        values["stack"] = [place._asdict() for place in self.stack]
        values["examples"] = self.examples
        return dict(values, lines=self.lines())


def _listed(noun: str, numbers: Sequence[int], most: int) -> str:
    texts = [str(number) for number in numbers[:most]]
    if len(numbers) > most:
        texts.append("{} more".format(len(numbers) - most))
    joined = ", ".join(texts[:-1]) + (" and " if texts[1:] else "") + texts[-1]
    return "{}{} {}".format(noun, "s" if len(numbers) > 1 else "", joined)


def write(finding: Finding, folder: str) -> None:
    """autopsy.json, batch.npz (features, positions, labels) and, of images, batch.png in `folder`,
    which is made. Below each image stands its position.
    """
    os.makedirs(folder, exist_ok=True)
    arrays = {"features": finding.features, "positions": np.array(finding.positions)}
    if finding.labels is not None:
        arrays["labels"] = np.array(finding.labels, np.int32)
    with written_whole(os.path.join(folder, "batch.npz")) as file:
        np.savez(file, **arrays)
    shape = finding.features.shape
    if len(shape) == 4 and shape[-1] in (1, 3, 4):
        save_grid(os.path.join(folder, "batch.png"), finding.features, labels=finding.positions)
    write_json(os.path.join(folder, "autopsy.json"), finding.as_json())


def examine(
    plugins,
    make_reader: Callable[[], Any],
    make_run: Callable[[Any], Any],
    checkpoint: Optional[str],
    step: int,
) -> Optional[Finding]:
    """Make the step after `step` again. None: it was finite this time; `UNREPEATED` tells why.

    make_reader, make_run: as `Stepper` takes them; called in a new graph. checkpoint: the prefix of
    the checkpoint of `step`, or None for the initial variables. It changes no file and no variable
    of another session.
    """
    with _Replay(plugins, make_reader, make_run, checkpoint, step) as replay:
        seen = _Seen({}, set(), {})
        for judged in replay.built.judged:
            targets = [judged.loss, judged.gradient_norm]
            # A later update waits for the earlier ones, which are then made in this session.
            ops = _ancestors(targets, replay.ordered)
            _look(replay, ops, seen)
            bad = [target for target in targets if target.name in seen.bad]
            if bad:
                return _finding(replay, judged, _Chain(bad, seen), ops)
    return None


# ----------------------------------------------------------------------------------------- replay


class _Replay:
    """A session in which a step can be made over and over, always from its beginning."""

    def __init__(self, plugins, make_reader, make_run, checkpoint: Optional[str], step: int):
        self.step = step
        self._checkpoint = checkpoint
        graph = tf.Graph()
        with graph.as_default():
            self.reader = make_reader()
            run = make_run(self.reader)
            self.built = build_training(plugins, run, self.reader, graph)
            self.positions = self.reader.positions(run.global_step.read_value())
            self._initialize = tf.global_variables_initializer()
            # As in training: what follows from the weights is computed behind their restoring.
            self._derive = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
            self._saver = tf.train.Saver() if checkpoint else None
        self._session = tf.Session(graph=graph, config=session_config(run.options))
        self._filled = False
        self.ordered = _ordered(graph)
        self.conditions = _conditions(self.ordered)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session.close()

    def run(self, fetches, feeds=None):
        """Values of the step; nothing that an earlier run changed reaches this one."""
        self._session.run(self._initialize)
        if self._saver is not None:
            self._saver.restore(self._session, self._checkpoint)
        self._session.run(self._derive)
        if not (self._filled and self.reader.in_memory):
            self.reader.initialize(self._session, self.step)
            self._filled = True
        return self._session.run(fetches, feeds)

    def tried(self, fetches, feeds=None):
        """The same, or None where an op fails: the guard's, or one of a branch not taken."""
        try:
            return self.run(fetches, feeds)
        except tf.errors.InvalidArgumentError:
            return None

    def handed_out(self, tensor):
        """A tensor that can be fetched and has the value of `tensor`; None within a loop."""
        graph = tensor.graph
        if graph.is_fetchable(tensor.op):
            return tensor
        if _in_loop(tensor.op):
            return None
        with graph.as_default(), tf.control_dependencies(None):
            return tf.identity(tensor)


def _in_loop(op) -> bool:
    context = op._get_control_flow_context()
    while context is not None:
        if context.IsWhileContext():
            return True
        context = context.outer_context
    return False


def _ordered(graph) -> List[Any]:
    """All ops, each behind what it waits for, else as they were made.

    Those of a tf.cond are made ahead of what they take their inputs from.
    """
    met, done, ordered, stack = set(), set(), [], graph.get_operations()[::-1]
    while stack:
        op = stack[-1]
        if op not in met:
            met.add(op)
            before = [tensor.op for tensor in op.inputs] + list(op.control_inputs)
            stack.extend(o for o in before if o not in met and o.type != "NextIteration")
        else:
            stack.pop()
            if op not in done:
                done.add(op)
                ordered.append(op)
    return ordered


def _ancestors(tensors, ordered) -> List[Any]:
    """The ops that the tensors are computed from."""
    found, stack = set(), [tensor.op for tensor in tensors]
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack.extend(tensor.op for tensor in op.inputs)
    return [op for op in ordered if op in found]


# ------------------------------------------------------------------------------------------- look


class _Seen(NamedTuple):
    """What was looked at, by tensors' names. bad: bool masks of what is not finite."""

    bad: Dict[str, np.ndarray]
    finite: set
    chosen: Dict[str, np.ndarray]  # the conditions of tf.where


def _look(replay: _Replay, ops, seen: _Seen) -> None:
    """Look at every float tensor of the ops that was not seen yet, and at tf.where's conditions."""
    for group in _reachable(replay, _wanted(ops, seen, replay.conditions)):
        for portion in _portions(group):
            values = replay.tried([fetch for _, fetch in portion])
            for (tensor, _), value in zip(portion, values or ()):
                _note(tensor, value, seen)


def _wanted(ops, seen: _Seen, under) -> Dict[Any, List[Any]]:
    """Tensors to look at, in groups of those that are computed under the same conditions."""
    groups: Dict[Any, List[Any]] = {}
    for op in ops:
        tensors = [tensor for tensor in op.outputs if _is_float(tensor)]
        if op.type in ("Select", "SelectV2"):
            tensors.append(op.inputs[0])
        for tensor in tensors:
            if tensor.name not in seen.bad and tensor.name not in seen.finite:
                conditions = under[op] | _branch(tensor)
                groups.setdefault(conditions, []).append(tensor)
    return groups


def _reachable(replay: _Replay, groups):
    """Lists of (tensor, what to fetch for it), without those of branches that are not taken."""
    for conditions, tensors in groups.items():
        pairs = [(tensor, replay.handed_out(tensor)) for tensor in tensors]
        pairs = [pair for pair in pairs if pair[1] is not None]
        if pairs and (not conditions or replay.tried(pairs[0][1]) is not None):
            yield pairs


def _conditions(ordered) -> Dict[Any, frozenset]:
    """Op -> the branches (name of a switch's condition, 0 or 1) that it is computed in alone."""
    under: Dict[Any, frozenset] = {}
    for op in ordered:
        before = [under[t.op] | _branch(t) for t in op.inputs if t.op in under]
        before += [under[other] for other in op.control_inputs if other in under]
        if op.type == "Merge":  # takes the input that is there
            under[op] = frozenset.intersection(*before) if before else frozenset()
        else:
            under[op] = frozenset().union(*before)
    return under


def _branch(tensor) -> frozenset:
    if tensor.op.type != "Switch":
        return frozenset()
    return frozenset([(tensor.op.inputs[1].name, tensor.value_index)])


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


def _note(tensor, value, seen: _Seen) -> None:
    if not _is_float(tensor):
        seen.chosen[tensor.name] = np.asarray(value)
        return
    mask = ~np.isfinite(_as_floats(value))
    if mask.any():
        seen.bad[tensor.name] = mask
    else:
        seen.finite.add(tensor.name)


def _is_float(tensor) -> bool:
    return tensor.dtype.base_dtype.is_floating


def _as_floats(value) -> np.ndarray:
    array = np.asarray(value)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


# ------------------------------------------------------------------------------------------ chain


class _Chain:
    """The non-finite tensors from which others lead to `targets`, and the first of them."""

    def __init__(self, targets, seen: _Seen):
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
            elif _is_float(one) or one.dtype in (tf.resource, tf.variant):
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


# ---------------------------------------------------------------------------------------- finding


def _finding(replay: _Replay, judged, chain: _Chain, ops) -> Finding:
    """Fetch once more what is to be told of the tensor, its op's inputs and the batch."""
    features, labels = replay.built.tensors["features"], replay.built.tensors["labels"]
    in_features = features.name in chain.reached
    tensor = features if in_features else chain.first(ops)
    op = tensor.op
    kind = "features" if in_features else "variable" if op.type in _READS else "op"
    inputs = list(op.inputs) if kind == "op" else []
    values = replay.run(
        {
            "tensor": replay.handed_out(tensor),
            "batch": [features, replay.positions] + ([] if labels is None else [labels]),
            "judged": [judged.loss, judged.gradient_norm],
        }
    )
    batch = values["batch"]
    forward = _forward(op)
    variable = op.inputs[0].op if kind == "variable" and op.inputs else op
    return Finding(
        kind,
        replay.step + 1,
        judged.name,
        *[float(value) for value in values["judged"]],
        _values(tensor, values["tensor"]),
        variable.name,
        op.type,
        _stack(op) if kind == "op" else [],
        (forward.name, forward.type) if kind == "op" and forward is not op else None,
        op.type == "Exit",
        [_values(one, value) for one, value in zip(inputs, _fetched(replay, inputs))],
        _rows(replay, tensor, values["tensor"], batch, in_features),
        [int(position) for position in batch[1]],
        [int(label) for label in batch[2]] if labels is not None else None,
        np.asarray(batch[0]),
    )


def _fetched(replay: _Replay, tensors) -> List[Any]:
    """The values of the numbers among the tensors; None for others and in a branch not taken."""
    fetches = [replay.handed_out(t) if _is_number(t) else None for t in tensors]
    wanted = [fetch for fetch in fetches if fetch is not None]
    values = replay.tried(wanted)
    if values is None:
        values = [replay.tried(fetch) for fetch in wanted]
    known = iter(values)
    return [None if fetch is None else next(known) for fetch in fetches]


def _is_number(tensor) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_integer or dtype.is_bool


def _values(tensor, value) -> Values:
    dtype = tensor.dtype.base_dtype.name
    name = tensor.name[:-2] if tensor.name.endswith(":0") else tensor.name
    if value is None:
        return Values(name, dtype)
    array = np.asarray(value)
    numbers = _as_floats(array) if _is_float(tensor) else array
    if not _is_float(tensor):
        numbers = numbers.astype(np.float64)
    nan, finite = np.isnan(numbers), numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    count = int(np.isinf(numbers).sum())
    return Values(name, dtype, tuple(array.shape), low, high, int(nan.sum()), count)


def _rows(replay: _Replay, tensor, value, batch, certain: bool) -> List[int]:
    """The rows of the batch that are not finite in the tensor; [] where it has no such rows.

    Whether its first axis is the batch's, or that of one of the step's batches, is tried: with
    other examples in the place of those, it has to come out finite. certain: it needs no trial.
    """
    array = _as_floats(value)
    count, options = len(batch[0]), replay.built.run.options
    if array.ndim == 0 or len(array) not in (count, options.batch_size):
        return []
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    rows = np.flatnonzero(bad)
    if certain:
        return rows.tolist()
    for start in range(0, count, len(array)) if not bad.all() else ():
        instead = start + np.flatnonzero(~bad)[0]
        if _is_finite_with(replay, tensor, batch, start + rows, instead):
            return (start + rows).tolist()
    return []


def _is_finite_with(replay: _Replay, tensor, batch, rows, instead) -> bool:
    """Whether a tensor is finite where one example of the batch takes the place of some."""
    features, labels = replay.built.tensors["features"], replay.built.tensors["labels"]
    numbers = np.arange(len(batch[0]))
    numbers[rows] = instead
    feeds = {features: batch[0][numbers]}
    if labels is not None:
        feeds[labels] = batch[2][numbers]
    value = replay.tried(replay.handed_out(tensor), feeds)
    return value is not None and bool(np.isfinite(_as_floats(value)).all())


# ------------------------------------------------------------------------------------------ place


def _forward(op):
    """The op of the forward pass that this one is in the gradient of, or itself."""
    while getattr(op, "_original_op", None) is not None:
        op = op._original_op
    return op


def _stack(op) -> List[Place]:
    """The lines that are neither TensorFlow's nor the core's, the innermost last.

    A gradient is made by no line of a plugin, other than a custom one, so those of the forward op
    count.
    """
    frames, forward = _frames(op), _forward(op)
    if forward is op:
        return _own(frames, _path(__file__))
    return _own(frames, "gradients_util.py") or _stack(forward)


def _own(frames: List[Place], behind: str) -> List[Place]:
    """The plugins' frames behind the last one of a file whose path ends so."""
    last = [number for number, frame in enumerate(frames) if frame.file.endswith(behind)][-1:]
    roots = _roots()
    return [f for f in frames[last[0] + 1 if last else 0 :] if not f.file.startswith(roots)]


def _frames(op) -> List[Place]:
    """How an op came to be made, the innermost line last."""
    return [_as_place(frame) for frame in op.traceback]


def _as_place(frame) -> Place:
    """From TensorFlow's frame, which is an object, or a tuple that begins with the same."""
    if isinstance(frame, tuple):
        file, line, function = frame[:3]
    else:
        file, line, function = frame.filename, frame.lineno, frame.name
    return Place(_path(file), int(line), function, linecache.getline(file, line).strip())


def _roots() -> Tuple[str, ...]:
    """The folders of the core and of what stands between it and a plugin's line."""
    modules = [sys.modules.get(name) for name in _BETWEEN]
    files = [__file__] + [getattr(module, "__file__", None) for module in modules]
    return tuple(os.path.join(os.path.dirname(_path(file)), "") for file in files if file)


def _path(file: str) -> str:
    return os.path.abspath(file)
