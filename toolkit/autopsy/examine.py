"""Repeat the refused step and describe its first non-finite tensor."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from ..compat import dumped_tensors, tf
from ..data.structure import FEATURES, flatten
from ..files import plain_path
from ..graph.build import build_training
from ..graph.guard import GuardValues
from ..graph.ops import upstream
from ..graph.run import Run
from ..graph.session_config import fill_queues, session_config
from ..plugins import Plugins
from .chain import Chain, Inspection, is_float, to_floats
from .finding import BatchValues, Finding, TensorSummary
from .op_traceback import forward_op, plugin_lines

NOT_REPRODUCED = (
    "The step was finite when it was repeated op by op: XLA or another build may round"
    " differently, or a plugin may draw different random numbers each time."
)
_READ_OPS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableV2")


def examine(
    plugins: Plugins,
    begin_graph: Callable[[], Tuple[tf.Graph, Any, Run]],
    checkpoint: Optional[str],
    step: int,
    begin: Optional[Callable[[tf.Session, Run], None]] = None,
) -> Optional[Finding]:
    """Repeat the step after `step`, the last good one, and find its first non-finite tensor; None
    where it was finite this time, see `NOT_REPRODUCED`. Nothing of the run is changed.

    `begin_graph` makes a new graph, the reader of the training split in it, and its `Run`.
    `checkpoint` is the prefix of that of `step`; None for the initial variables, instead of which
    `begin`, if there is one, assigns what the run began with.
    """
    repeated = _RepeatedStep(plugins, begin_graph, checkpoint, step, begin)
    with contextlib.closing(repeated):
        batch_tensors, positions = flatten(*repeated.graph.step.batch), repeated.positions
        for guard_values in repeated.graph.step.guard_values:
            targets = [guard_values.loss, guard_values.gradient_norm]
            # A later update depends on the earlier ones, so they run in this session as well.
            ops = upstream([target.op for target in targets], with_control=False)
            fetches = (batch_tensors, positions, targets)
            with repeated.run(fetches, Inspection.watched(ops)) as (fetched, dump):
                inspection = Inspection(dump)
                nonfinite = [target for target in targets if target.name in inspection.masks]
                if nonfinite and fetched is not None:
                    update = GuardValues(guard_values.name, *map(float, fetched[2]))
                    batch = BatchValues(fetched[0], fetched[1])
                    return _describe(repeated, nonfinite, inspection, update, batch)
    return None


class _RepeatedStep:
    """The `TrainingGraph` of one training step, the positions int64 [N] of its batch in the split,
    and a session that runs it from the same state each time. The arguments are those of `examine`.
    """

    def __init__(self, plugins, begin_graph, checkpoint, step, begin):
        self.step, self._checkpoint, self._begin = step, checkpoint, begin
        tf_graph, self._reader, run = begin_graph()
        self.graph = build_training(plugins, run, self._reader, tf_graph)
        with tf_graph.as_default():
            self.positions = self._reader.positions(tf.constant(step, tf.int64))
            self._initialize = tf.global_variables_initializer()
            # As in training: local variables may depend on the weights, so they come after them.
            self._initialize_locals = tf.group(
                tf.local_variables_initializer(), tf.tables_initializer()
            )
            self._saver = tf.train.Saver() if checkpoint else None
        config = session_config(run.options)
        # Each tensor is computed by the op that the plugin's line created, and by no fused one.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
        self._session = tf.Session(graph=tf_graph, config=config)
        self.close = self._session.close
        self._is_reader_ready = False

    @contextlib.contextmanager
    def run(
        self,
        fetches: Any,
        watched: Iterable[tf.Tensor],
        feeds: Optional[Dict[tf.Tensor, Any]] = None,
    ) -> Iterator[Tuple[Any, Any]]:
        """Run the step from its initial state, whatever earlier calls changed. Yields what
        `dumped_tensors` does.
        """
        self._session.run(self._initialize)
        if self._begin is not None:
            self._begin(self._session, self.graph.run)
        if self._saver is not None:
            with plain_path(self._checkpoint) as path:
                self._saver.restore(self._session, path)
        self._session.run(self._initialize_locals)
        fill_queues(self._session)
        if not (self._is_reader_ready and self._reader.in_memory):
            self._reader.initialize(self._session, self.step)
            self._is_reader_ready = True
        with dumped_tensors(self._session, fetches, watched, feeds) as result:
            yield result


def _describe(
    repeated: _RepeatedStep,
    nonfinite: List[tf.Tensor],
    inspection: Inspection,
    update: GuardValues,
    batch: BatchValues,
) -> Finding:
    """The finding on an update, of whose loss and norm of the gradient some are not finite."""
    chain, batch_tensors = Chain(nonfinite, inspection), flatten(*repeated.graph.step.batch)
    features = [x for key, x in batch_tensors.items() if key.startswith(FEATURES)]
    bad_features = [tensor for tensor in features if tensor.name in chain.tensors]
    tensor = bad_features[0] if bad_features else chain.first_source()
    kind = "variable" if tensor.op.type in _READ_OPS else "op"
    kind = "features" if bad_features else kind
    inputs = list(tensor.op.inputs) if kind == "op" else []
    value = inspection.value(tensor, tensor)
    forward = forward_op(tensor.op)
    is_gradient = kind == "op" and forward is not tensor.op
    is_named = kind == "variable" and tensor.op.inputs
    return Finding(
        kind=kind,
        step=repeated.step + 1,
        update=update,
        tensor=_summarize(tensor, value),
        op=tensor.op.inputs[0].op.name if is_named else tensor.op.name,
        op_type=tensor.op.type,
        stack=plugin_lines(tensor.op) if kind == "op" else [],
        gradient_of=(forward.name, forward.type) if is_gradient else None,
        inputs=[_summarize(x, inspection.value(x, tensor)) for x in inputs],
        rows=_nonfinite_rows(repeated, nonfinite, tensor, value, batch, kind),
        batch=batch,
    )


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
    repeated: _RepeatedStep,
    targets: List[tf.Tensor],
    tensor: tf.Tensor,
    value: Optional[np.ndarray],
    batch: BatchValues,
    kind: str,
) -> List[int]:
    """The rows of the batch whose values in the tensor are non-finite.

    The tensor's first axis may be that of the batch, or none of examples at all. A trial decides:
    with other examples in place of the non-finite rows, the tensor has to become finite.
    """
    array = to_floats(value)
    if array.ndim == 0 or len(array) != batch.size:
        return []
    is_bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    rows: List[int] = np.flatnonzero(is_bad).tolist()
    if kind == "features":
        return rows
    if is_bad.all():
        return []
    indices = np.where(is_bad, np.argmin(is_bad), np.arange(batch.size))
    tensors = flatten(*repeated.graph.step.batch)
    feeds = {tensors[key]: values[indices] for key, values in batch.arrays.items()}
    with repeated.run(targets, [tensor], feeds) as (_, dump):
        is_finite = [np.isfinite(to_floats(read())).all() for _, read in dump]
    return rows if is_finite and all(is_finite) else []
