"""The model of the plugin `lift`: a graph from a file .meta, and what each mode takes of it.

A run keeps a copy of the graph in its folder, and is resumed, evaluated and exported with it.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Optional

from toolkit import UsageError, atomic_write, tf

from .fragment import make_variables
from .initial import MetaGraph, read_meta
from .part import Inference, Period, batch_size

COPY = "lifted.meta"  # in the folder of a run


class LiftedModel:
    """What the hook `build` returns.

    Args:
        meta: the graph, which gives the variables their initial values before a run.
        run: in which they are created.
        period: in mode "train"; else None.
        outputs, losses: `Inference`s of predictions and losses in the other modes; None for none.
        metrics: of a model function; None for none.
    """

    def __init__(
        self,
        meta: MetaGraph,
        run: Any,
        period: Optional[Period] = None,
        outputs: Optional[Inference] = None,
        losses: Optional[Inference] = None,
        metrics: Any = None,
    ):
        self._period, self._outputs = period, outputs
        self._losses, self._metrics = losses, metrics
        self.train_op: Any = None  # of the step that is being built
        parts = [part for part in (period, outputs, losses, metrics) if part is not None]
        used = {name: x for part in parts for name, x in part.variables.items()}
        self._variables, names = make_variables(used, meta.trainable), sorted(used)
        run.fit_initial_values(
            [self._variables[name] for name in names],
            lambda split: list(map(meta.initial_values(names, run.seed).get, names)),
        )

    def infer(self, features: Any, labels: Any, run: Any) -> Dict[str, Any]:
        """For the hook `call`: the tensors that predictions are of."""
        return self._build(self._outputs, features, labels, run)

    def compute_losses(self, features: Any, labels: Any, run: Any) -> Dict[str, Any]:
        """For the hook `loss`; in training the whole step is built, with its train op."""
        if self._period is None:
            return self._build(self._losses, features, labels, run)
        losses, self.train_op = self._period.build(self._variables, features, labels, run)
        return losses

    def measure(self, features: Any, labels: Any, run: Any) -> Dict[str, Any]:
        """For the hook `metrics`."""
        return self._build(self._metrics, features, labels, run)

    def predict(self, features: Any, outputs: Any, run: Any) -> Dict[str, Any]:
        """For the hook `predict`; a run that names no outputs has the positions of examples."""
        count = tf.cast(batch_size(features), tf.int64)
        return outputs or {"position": run.position + tf.range(count)}

    def _build(self, part: Any, *arguments: Any) -> Dict[str, Any]:
        return {} if part is None else part.build(self._variables, *arguments)


def build(run: Any) -> LiftedModel:
    """The model of a run in its mode; creates its variables."""
    meta = open_graph(run)
    if run.mode == "train":
        return LiftedModel(meta, run, _make_period(meta, run))
    losses = None
    if run.mode == "eval":
        names = {name[:-2]: name for name in _make_period(meta, run).losses}
        losses = Inference(meta.graph_def, names, _feeds(run), "", run.data)
        if losses.fixed_size:
            losses = None
    return LiftedModel(meta, run, None, _make_outputs(meta, run), losses)


def _make_period(meta: MetaGraph, run: Any) -> Period:
    options = run.options
    return Period(meta.graph_def, options.train_op, options.losses, options.feed, run.data)


def _feeds(run: Any) -> Dict[str, str]:
    return {**run.options.feed, **run.options.infer_feed}


def _make_outputs(meta: MetaGraph, run: Any) -> Optional[Inference]:
    """The tensors that predictions are of."""
    names = [text.rpartition("=") for text in run.options.graph_output]
    outputs = {key or _key(name): name for key, _, name in names}
    given = run.options.graph_input if run.mode == "predict" else ""
    if not outputs or run.mode == "eval" and run.options.graph_input:
        return None
    return Inference(meta.graph_def, outputs, _feeds(run), given, run.data)


def _key(name: str) -> str:
    """The name of a tensor as that of a column."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name[:-2] if name.endswith(":0") else name)


def input_specs(run: Any) -> Any:
    """For the hook `inputs`: what predictions are fed in place of features; None for features."""
    name = run.options.graph_input
    if not name or not run.options.graph_output:
        return None
    part = _make_outputs(open_graph(run), run)
    assert part is not None
    return {_key(name): part.input_spec}


def open_graph(run: Any) -> MetaGraph:
    """The graph of a run: the copy in its folder, or else the file that the options name."""
    path, checkpoint = run.options.meta, run.options.checkpoint
    if not path:
        raise UsageError("No graph is named.", hint="Set --meta FILE.meta.")
    copy = os.path.join(run.folder or "", COPY)
    if run.folder and os.path.isfile(copy):
        return read_meta(copy)
    beside = path[: -len(".meta")] if path.endswith(".meta") else ""
    is_beside = not checkpoint and os.path.isfile(f"{beside}.index")
    return read_meta(path, beside if is_beside else checkpoint)


def keep_copy(run: Any) -> None:
    """Copy the graph into the folder of a run, unless it is there."""
    copy = os.path.join(run.folder, COPY)
    if not os.path.isfile(copy):
        with open(run.options.meta, "rb") as file, atomic_write(copy, durable=True) as target:
            target.write(file.read())
