"""Repeat the refused step and describe its first non-finite tensor."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np

from ..compat import tf
from ..data.structure import FEATURES, flatten
from ..graph.guard import GuardValues
from ..graph.run import Run
from ..plugins import Plugins
from .finding import BatchValues, Finding, OpOrigin, RefusedUpdate, TensorSummary
from .op_traceback import forward_op, plugin_lines
from .ops import ancestors
from .replay import Replay
from .search import Chain, Inspection, inspect_tensors, is_float, to_floats

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
        inspection = Inspection({}, set(), {})
        for guard_values in replay.graph.step.guard_values:
            targets = [guard_values.loss, guard_values.gradient_norm]
            # A later update depends on the earlier ones, so they run in this session as well.
            ops = ancestors(targets, replay.ops)
            inspect_tensors(replay, ops, inspection)
            nonfinite = [target for target in targets if target.name in inspection.nonfinite]
            if nonfinite:
                return _describe(replay, guard_values, Chain(nonfinite, inspection), ops)
    return None


def _describe(
    replay: Replay, guard_values: GuardValues, chain: Chain, ops: List[tf.Operation]
) -> Finding:
    """Repeat the step again to fetch the first tensor, its op's inputs and the batch."""
    batch_tensors = flatten(*replay.graph.batch)
    features = [x for key, x in batch_tensors.items() if key.startswith(FEATURES)]
    bad_features = [tensor for tensor in features if tensor.name in chain.tensors]
    tensor = bad_features[0] if bad_features else chain.first_source(ops)
    kind = _kind(tensor, bool(bad_features))
    fetches = {
        "tensor": replay.make_fetchable(tensor),
        "batch": batch_tensors,
        "positions": replay.positions,
        "loss": guard_values.loss,
        "gradient_norm": guard_values.gradient_norm,
    }
    values = replay.run(fetches)
    batch = BatchValues(values["batch"], values["positions"])
    inputs = list(tensor.op.inputs) if kind == "op" else []
    return Finding(
        kind=kind,
        step=replay.step + 1,
        update=RefusedUpdate(
            guard_values.name, float(values["loss"]), float(values["gradient_norm"])
        ),
        tensor=_summarize(tensor, values["tensor"]),
        op=_origin(tensor.op, kind),
        inputs=[_summarize(*pair) for pair in zip(inputs, _fetch(replay, inputs))],
        rows=_nonfinite_rows(replay, tensor, values["tensor"], batch, bool(bad_features)),
        batch=batch,
    )


def _kind(tensor: tf.Tensor, is_features: bool) -> str:
    if is_features:
        return "features"
    return "variable" if tensor.op.type in _READ_OPS else "op"


def _origin(op: tf.Operation, kind: str) -> OpOrigin:
    forward = forward_op(op)
    is_gradient = kind == "op" and forward is not op
    return OpOrigin(
        name=op.inputs[0].op.name if kind == "variable" and op.inputs else op.name,
        type=op.type,
        stack=plugin_lines(op) if kind == "op" else [],
        gradient_of=(forward.name, forward.type) if is_gradient else None,
        is_loop_output=op.type == "Exit",
    )


def _fetch(replay: Replay, tensors: List[tf.Tensor]) -> List[Optional[np.ndarray]]:
    """The tensors' values; None for one that has no numbers or is in a branch not taken."""
    fetches = {
        number: replay.make_fetchable(tensor)
        for number, tensor in enumerate(tensors)
        if _is_numeric(tensor)
    }
    fetches = {number: fetch for number, fetch in fetches.items() if fetch is not None}
    values: Optional[Dict[int, np.ndarray]] = replay.try_run(fetches)
    if values is None:
        values = {number: replay.try_run(fetch) for number, fetch in fetches.items()}
    return [values.get(number) for number in range(len(tensors))]


def _is_numeric(tensor: tf.Tensor) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_integer or dtype.is_bool


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
    replay: Replay, tensor: tf.Tensor, value: np.ndarray, batch: BatchValues, is_features: bool
) -> List[int]:
    """The rows of the batch whose values in the tensor are non-finite.

    The tensor's first axis may be that of the whole batch, of one of the step's batches, or none
    of examples at all. A trial decides: with other examples in place of the non-finite rows, the
    tensor has to become finite.

    Args:
        replay: the repeated step.
        tensor: the first non-finite tensor.
        value: its value.
        batch: the examples of the step.
        is_features: whether the tensor is the batch itself, so that no trial is needed.

    Returns:
        Indices into the batch; [] where the first axis is not one of examples.
    """
    array = to_floats(value)
    sizes = (batch.size, replay.graph.run.options.batch_size)
    if array.ndim == 0 or len(array) not in sizes:
        return []
    is_bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    rows = np.flatnonzero(is_bad)
    if is_features:
        return rows.tolist()
    if is_bad.all():
        return []
    for start in range(0, batch.size, len(array)):
        substitute = start + np.flatnonzero(~is_bad)[0]
        if _is_finite_with(replay, tensor, batch, start + rows, substitute):
            return (start + rows).tolist()
    return []


def _is_finite_with(
    replay: Replay, tensor: tf.Tensor, batch: BatchValues, rows: np.ndarray, substitute: int
) -> bool:
    """Whether the tensor is finite when the example `substitute` replaces those in `rows`."""
    indices = np.arange(batch.size)
    indices[rows] = substitute
    tensors = flatten(*replay.graph.batch)
    feeds = {tensors[key]: array[indices] for key, array in batch.arrays.items()}
    value = replay.try_run(replay.make_fetchable(tensor), feeds)
    return value is not None and bool(np.isfinite(to_floats(value)).all())
