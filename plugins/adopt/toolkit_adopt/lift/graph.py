"""The model of the plugin `lift`: a graph from a file .meta, and what each mode takes of it.

A run keeps a copy of the graph in its folder, and is resumed, evaluated and exported with it.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Optional

from toolkit import UsageError, atomic_write, tf

from .fragment import make_variables
from .inference import Inference, batch_size
from .initial import MetaGraph, read_meta
from .period import Period

COPY = "lifted.meta"  # in the folder of a run


class LiftedModel:
    """What the hook `build` returns.

    Attributes:
        variables: the name in the graph -> variable.
        period: in mode "train"; else None.
        outputs, losses: `Inference`s of predictions and losses in the other modes; None for none.
        metrics: of a model function; None for none.
        train_op: of the step that is being built.
    """

    def __init__(
        self,
        variables: Dict[str, Any],
        period: Optional[Period],
        outputs: Optional[Inference] = None,
        losses: Optional[Inference] = None,
        metrics: Any = None,
    ):
        self.variables, self.period = variables, period
        self.outputs, self.losses, self.metrics = outputs, losses, metrics
        self.train_op: Any = None

    def infer(self, features: Any, labels: Any, run: Any) -> Dict[str, Any]:
        """For the hook `call`: the tensors that predictions are of."""
        return _build(self.outputs, self.variables, features, labels, run)

    def compute_losses(self, features: Any, labels: Any, run: Any) -> Dict[str, Any]:
        """For the hook `loss`; in training the whole step is built, with its train op."""
        if self.period is None:
            return _build(self.losses, self.variables, features, labels, run)
        losses, self.train_op = self.period.build(self.variables, features, labels, run)
        return losses

    def predict(self, features: Any, outputs: Any, run: Any) -> Dict[str, Any]:
        """For the hook `predict`; a run that names no outputs has the positions of examples."""
        count = tf.cast(batch_size(features), tf.int64)
        return outputs or {"position": run.position + tf.range(count)}


def _build(part: Optional[Inference], *arguments: Any) -> Dict[str, Any]:
    return {} if part is None else part.build(*arguments)


def build(run: Any) -> LiftedModel:
    """The model of a run in its mode; creates its variables."""
    meta = open_graph(run)
    period = outputs = losses = None
    if run.mode == "train":
        period = _period(meta, run)
    else:
        outputs, losses = _outputs(meta, run), _losses(meta, run)
    return make_model(run, meta, period, outputs, losses)


def make_model(
    run: Any,
    meta: MetaGraph,
    period: Optional[Period],
    outputs: Optional[Inference] = None,
    losses: Optional[Inference] = None,
    metrics: Any = None,
) -> LiftedModel:
    """A model with the variables of its parts, which get their initial values before a run."""
    parts = [part for part in (period, outputs, losses, metrics) if part is not None]
    used = {name: x for part in parts for name, x in part.variables.items()}
    variables, names = make_variables(used, meta.trainable), sorted(used)
    run.fit_initial_values(
        [variables[name] for name in names],
        lambda split: list(map(meta.initial_values(names, run.seed).get, names)),
    )
    return LiftedModel(variables, period, outputs, losses, metrics)


def input_specs(run: Any) -> Any:
    """For the hook `inputs`: what predictions are fed in place of features; None for features."""
    name = run.options.graph_input
    if not name or not run.options.graph_output:
        return None
    part = _outputs(open_graph(run), run)
    assert part is not None
    return {_key(name): part.input_spec}


def open_graph(run: Any) -> MetaGraph:
    """The graph of a run: the copy in its folder, or else the file that the options name."""
    path, checkpoint = run.options.meta, run.options.checkpoint
    if not path:
        raise UsageError("No graph is named.", hint="Set --meta FILE.meta.")
    beside = path[: -len(".meta")] if path.endswith(".meta") else ""
    if not checkpoint and os.path.isfile(f"{beside}.index"):
        checkpoint = beside
    copy = os.path.join(run.folder or "", COPY)
    has_copy = bool(run.folder) and os.path.isfile(copy)
    return read_meta(copy if has_copy else path, "" if has_copy else checkpoint)


def keep_copy(run: Any) -> None:
    """Copy the graph into the folder of a run, unless it is there."""
    copy = os.path.join(run.folder, COPY)
    if not os.path.isfile(copy):
        with open(run.options.meta, "rb") as file, atomic_write(copy, durable=True) as target:
            target.write(file.read())


def _period(meta: MetaGraph, run: Any) -> Period:
    options = run.options
    return Period(meta.graph_def, options.train_op, options.losses, options.feed, run.data)


def _feeds(run: Any) -> Dict[str, str]:
    return {**run.options.feed, **run.options.infer_feed}


def _outputs(meta: MetaGraph, run: Any) -> Optional[Inference]:
    """The tensors that predictions are of."""
    names = [text.rpartition("=") for text in run.options.graph_output]
    outputs = {key or _key(name): name for key, _, name in names}
    given = run.options.graph_input if run.mode == "predict" else ""
    if not outputs or run.mode == "eval" and run.options.graph_input:
        return None
    return Inference(meta.graph_def, outputs, _feeds(run), given, run.data)


def _losses(meta: MetaGraph, run: Any) -> Optional[Inference]:
    """The losses of the training, where they take batches of any size."""
    if run.mode != "eval":
        return None
    losses = {n[:-2]: n for call in _period(meta, run).calls for n in call.losses}
    part = Inference(meta.graph_def, losses, _feeds(run), "", run.data)
    return None if part.fixed_size else part


def _key(name: str) -> str:
    """The name of a tensor as that of a column."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name[:-2] if name.endswith(":0") else name)
