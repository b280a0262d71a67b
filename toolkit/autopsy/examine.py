"""Make the refused step again, and fetch what is to be told of its first non-finite tensor."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import numpy as np

from .finding import Finding, Values
from .ops import ancestors
from .op_traceback import forward_op, stack
from .replay import Replay
from .search import Chain, Seen, as_floats, is_float, look

UNREPEATED = (
    "The step was finite when it was made again, one op after the other: it may be that XLA or"
    " another build rounded otherwise, or that a plugin draws other numbers each time."
)
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableV2")


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
    with Replay(plugins, make_reader, make_run, checkpoint, step) as replay:
        seen = Seen({}, set(), {})
        for judged in replay.built.judged:
            targets = [judged.loss, judged.gradient_norm]
            # A later update waits for the earlier ones, which are then made in this session.
            ops = ancestors(targets, replay.ordered)
            look(replay, ops, seen)
            bad = [target for target in targets if target.name in seen.bad]
            if bad:
                return _finding(replay, judged, Chain(bad, seen), ops)
    return None


def _finding(replay: Replay, judged, chain: Chain, ops) -> Finding:
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
    forward = forward_op(op)
    variable = op.inputs[0].op if kind == "variable" and op.inputs else op
    return Finding(
        kind,
        replay.step + 1,
        judged.name,
        *[float(value) for value in values["judged"]],
        _values(tensor, values["tensor"]),
        variable.name,
        op.type,
        stack(op) if kind == "op" else [],
        (forward.name, forward.type) if kind == "op" and forward is not op else None,
        op.type == "Exit",
        [_values(one, value) for one, value in zip(inputs, _fetched(replay, inputs))],
        _rows(replay, tensor, values["tensor"], batch, in_features),
        [int(position) for position in batch[1]],
        [int(label) for label in batch[2]] if labels is not None else None,
        np.asarray(batch[0]),
    )


def _fetched(replay: Replay, tensors) -> List[Any]:
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
    numbers = as_floats(array) if is_float(tensor) else array
    if not is_float(tensor):
        numbers = numbers.astype(np.float64)
    nan, finite = np.isnan(numbers), numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    count = int(np.isinf(numbers).sum())
    return Values(name, dtype, tuple(array.shape), low, high, int(nan.sum()), count)


def _rows(replay: Replay, tensor, value, batch, certain: bool) -> List[int]:
    """The rows of the batch that are not finite in the tensor; [] where it has no such rows.

    Whether its first axis is the batch's, or that of one of the step's batches, is tried: with
    other examples in the place of those, it has to come out finite. certain: it needs no trial.
    """
    array = as_floats(value)
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


def _is_finite_with(replay: Replay, tensor, batch, rows, instead) -> bool:
    """Whether a tensor is finite where one example of the batch takes the place of some."""
    features, labels = replay.built.tensors["features"], replay.built.tensors["labels"]
    numbers = np.arange(len(batch[0]))
    numbers[rows] = instead
    feeds = {features: batch[0][numbers]}
    if labels is not None:
        feeds[labels] = batch[2][numbers]
    value = replay.tried(replay.handed_out(tensor), feeds)
    return value is not None and bool(np.isfinite(as_floats(value)).all())
