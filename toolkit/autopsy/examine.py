"""Repeat the refused step and describe its first non-finite tensor."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np

from ..compat import tf
from ..data.structure import FEATURES, flatten
from ..graph.guard import GuardValues
from ..graph.ops import upstream
from ..graph.run import Run
from ..plugins import Plugins
from .chain import Chain, Inspection, is_float, to_floats
from .finding import BatchValues, Finding, TensorSummary
from .op_traceback import forward_op, plugin_lines
from .replay import Replay

NOT_REPRODUCED = (
    "The step was finite when it was repeated op by op: XLA or another build may round"
    " differently, or a plugin may draw different random numbers each time."
)
_READ_OPS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableV2")


def examine(
    plugins: Plugins,
    make_reader: Callable[[], Any],
    make_run: Callable[[Any], Run],
    checkpoint: Optional[str],
    step: int,
    assign_weights: Optional[Callable[[tf.Session], None]] = None,
) -> Optional[Finding]:
    """Repeat the step after `step` and find its first non-finite tensor.

    No file and no variable of another session is changed.

    Args:
        plugins: the run's plugins.
        make_reader: makes the reader of the training split; called in a new graph.
        make_run: makes the `Run` of that graph from the reader.
        checkpoint: the prefix of the checkpoint of `step`, or None for the initial variables.
        step: the last good step.
        assign_weights: assigns the weights in a session with which the run began; None if it began
            with the initial variables.

    Returns:
        The finding, or None where the step was finite this time; `NOT_REPRODUCED` says why that
        happens.
    """
    with Replay(plugins, make_reader, make_run, checkpoint, step, assign_weights) as replay:
        inspection = Inspection()
        for guard_values in replay.graph.step.guard_values:
            targets = [guard_values.loss, guard_values.gradient_norm]
            # A later update depends on the earlier ones, so they run in this session as well.
            ops = upstream([target.op for target in targets], with_control=False)
            with replay.run(targets, inspection.watched(ops)) as (_, values):
                inspection.add(values)
            nonfinite = [target for target in targets if target.name in inspection.masks]
            if nonfinite:
                return _describe(replay, guard_values, Chain(nonfinite, inspection))
    return None


def _describe(replay: Replay, guard_values: GuardValues, chain: Chain) -> Finding:
    """Repeat the step again to get the first tensor, its op's inputs and the batch."""
    batch_tensors = flatten(*replay.graph.batch)
    features = [x for key, x in batch_tensors.items() if key.startswith(FEATURES)]
    bad_features = [tensor for tensor in features if tensor.name in chain.tensors]
    tensor = bad_features[0] if bad_features else chain.first_source()
    kind = "variable" if tensor.op.type in _READ_OPS else "op"
    kind = "features" if bad_features else kind
    inputs = list(tensor.op.inputs) if kind == "op" else []
    scalars = [guard_values.loss, guard_values.gradient_norm]
    watched = {
        x.name: x
        for x, dtype in [(x, x.dtype.base_dtype) for x in [tensor, *inputs, *scalars]]
        if dtype.is_floating or dtype.is_integer or dtype.is_bool
    }
    fetches = {"batch": batch_tensors, "positions": replay.positions, "scalars": scalars}
    with replay.run(fetches, watched.values()) as (fetched, dump):
        values = _select_turn(tensor, dump)
    batch = BatchValues(fetched["batch"], fetched["positions"])
    forward = forward_op(tensor.op)
    is_gradient = kind == "op" and forward is not tensor.op
    is_named = kind == "variable" and tensor.op.inputs
    return Finding(
        kind=kind,
        step=replay.step + 1,
        update=GuardValues(guard_values.name, *map(float, fetched["scalars"])),
        tensor=_summarize(tensor, values[tensor.name]),
        op=tensor.op.inputs[0].op.name if is_named else tensor.op.name,
        op_type=tensor.op.type,
        stack=plugin_lines(tensor.op) if kind == "op" else [],
        gradient_of=(forward.name, forward.type) if is_gradient else None,
        inputs=[_summarize(x, values.get(x.name)) for x in inputs],
        rows=_nonfinite_rows(replay, scalars, tensor, values[tensor.name], batch, kind),
        batch=batch,
    )


def _select_turn(tensor: tf.Tensor, dump: Any) -> Dict[str, np.ndarray]:
    """Of each tensor the value in the turn of a loop in which the first of `tensor` is not finite,
    or the only one.
    """
    turns: Dict[str, List[np.ndarray]] = {}
    for name, value in dump:
        turns.setdefault(name, []).append(value)
    own = [bool(np.isfinite(to_floats(value)).all()) for value in turns[tensor.name]]
    turn = own.index(False) if False in own else 0
    return {name: values[min(turn, len(values) - 1)] for name, values in turns.items()}


def _summarize(tensor: tf.Tensor, value: Optional[np.ndarray]) -> TensorSummary:
    dtype = tensor.dtype.base_dtype.name
    name = tensor.name[:-2] if tensor.name.endswith(":0") else tensor.name
    if value is None:
        return TensorSummary(name, dtype)
    array = np.asarray(value)
    numbers = to_floats(array) if is_float(tensor) else array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    return TensorSummary(
        name=name,
        dtype=dtype,
        shape=tuple(array.shape),
        low=float(finite.min()) if finite.size else None,
        high=float(finite.max()) if finite.size else None,
        nan=int(np.isnan(numbers).sum()),
        inf=int(np.isinf(numbers).sum()),
    )


def _nonfinite_rows(
    replay: Replay,
    scalars: List[tf.Tensor],
    tensor: tf.Tensor,
    value: np.ndarray,
    batch: BatchValues,
    kind: str,
) -> List[int]:
    """The rows of the batch whose values in the tensor are non-finite.

    The tensor's first axis may be that of the whole batch, of one of the step's batches, or none
    of examples at all. A trial decides: with other examples in place of the non-finite rows, the
    tensor has to become finite.
    """
    array = to_floats(value)
    sizes = (batch.size, replay.graph.run.options.batch_size)
    if array.ndim == 0 or len(array) not in sizes:
        return []
    is_bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    rows = np.flatnonzero(is_bad)
    if kind == "features":
        return rows.tolist()
    if is_bad.all():
        return []
    for start in range(0, batch.size, len(array)):
        indices = np.arange(batch.size)
        indices[start + rows] = start + np.flatnonzero(~is_bad)[0]  # another example in their place
        tensors = flatten(*replay.graph.batch)
        feeds = {tensors[key]: array[indices] for key, array in batch.arrays.items()}
        with replay.run(scalars, [tensor], feeds) as (_, dump):
            values = [np.isfinite(to_floats(value)).all() for _, value in dump]
        if values and all(values):
            return (start + rows).tolist()
    return []
