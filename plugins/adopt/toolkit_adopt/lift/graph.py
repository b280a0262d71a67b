"""The model of the plugin `lift`: a graph from a file .meta, and what each mode takes of it.

A run keeps a copy of the graph in its folder, and is resumed, evaluated and exported with it.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Any, Dict, Optional

from toolkit import UsageError, atomic_write, tf

from .feeds import batch_size
from .initial import MetaGraph, read_meta
from .part import Inference, Period, Source
from .rules import tensor_name

COPY = "lifted.meta"  # in the folder of a run


class LiftedModel:
    """What the hook `build` returns.

    Of the parts, None for nothing, "losses" is a `Period` in mode "train", else an `Inference`, as
    "outputs" is; "metrics" are those of a model function.
    """

    def __init__(self, meta: MetaGraph, run: Any, **parts: Any):
        self.parts = {key: part for key, part in parts.items() if part is not None}
        used = {name: x for part in self.parts.values() for name, x in part.variables.items()}
        slots = frozenset(getattr(self.parts.get("losses"), "slots", ()))
        slots -= meta.made_of_others(slots)  # averages are the model's
        self._slots = sorted(slots)
        self._variables: Dict[str, Any] = {}

        @functools.lru_cache(None)
        def initial_values(of_slots: bool) -> Dict[str, Any]:
            return meta.initial_values(sorted(slots if of_slots else set(used) - slots), run.seed)

        for name in sorted(used):
            with tf.variable_scope("", reuse=False, use_resource=True):
                self._variables[name] = tf.get_variable(
                    "adopted/global_step" if name == "global_step" else name,
                    *used[name],
                    tf.zeros_initializer(),  # its value comes later
                    trainable=name in meta.trainable,
                    collections=[] if name in slots else None,
                )
            run.fit_initial_values(
                [self._variables[name]],
                lambda split, name=name: [initial_values(name in slots)[name]],
                is_of_data=name in slots,  # a slot begins anew, whatever weights the model has
            )

    def build(self, key: str, features: Any, labels: Any, run: Any) -> Dict[str, Any]:
        """Tensors of a part by their names; {} where there is none."""
        part = self.parts.get(key)
        return {} if part is None else part.build(self._variables, features, labels, run)

    def add_slots(self) -> None:
        """Make the variables that the train ops alone use known to the graph, which counts those
        before the hook `optimize` as the model's.
        """
        for name in self._slots:
            tf.add_to_collection(tf.GraphKeys.GLOBAL_VARIABLES, self._variables[name])
        self._slots = []

    def predict(self, features: Any, outputs: Any, run: Any) -> Dict[str, Any]:
        """For the hook `predict`; a run that names no outputs has the positions of examples."""
        count = tf.cast(batch_size(features), tf.int64)
        return outputs or {"position": run.position + tf.range(count)}


def build(run: Any) -> LiftedModel:
    """The model of a run in its mode; creates its variables."""
    meta, options, losses = open_graph(run), run.options, None
    source = Source(meta.graph_def, options.feed, run.data)
    if run.mode == "train":
        return LiftedModel(meta, run, losses=Period(source, options.train_op, options.losses))
    if run.mode == "eval":
        names = Period(source, options.train_op, options.losses).losses
        losses = Inference(_inferring(meta, run), {name[:-2]: name for name in names})
        losses = None if losses.fixed_size else losses
    return LiftedModel(meta, run, outputs=_make_outputs(meta, run), losses=losses)


def _inferring(meta: MetaGraph, run: Any) -> Source:
    return Source(meta.graph_def, {**run.options.feed, **run.options.infer_feed}, run.data)


def _make_outputs(meta: MetaGraph, run: Any) -> Optional[Inference]:
    """The tensors that predictions are of."""
    names = [text.rpartition("=") for text in run.options.graph_output]
    outputs = {key or _key(name): name for key, _, name in names}
    given = run.options.graph_input
    if not outputs or run.mode == "eval" and given:
        return None
    given = tensor_name(given) if given and run.mode == "predict" else ""
    return Inference(_inferring(meta, run), outputs, given)


def _key(name: str) -> str:
    """The name of a tensor as that of a column."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name[:-2] if name.endswith(":0") else name)


def input_specs(run: Any) -> Any:
    """For the hook `inputs`: what predictions are fed in place of features; None for features."""
    name = run.options.graph_input
    if not name or not run.options.graph_output:
        return None
    part = _make_outputs(open_graph(run), run)
    dtype, shape = part.fed.get(tensor_name(name), (None, None)) if part else (None, None)
    if dtype is None or shape is None or shape.ndims is None:
        raise UsageError(
            f"'{tensor_name(name)}' is no input of the outputs with a known shape.",
            hint="Set --graph-input to a placeholder that --graph-output depends on.",
        )
    return {_key(name): (dtype.name, shape.as_list()[1:])}


def open_graph(run: Any) -> MetaGraph:
    """The graph of a run: the copy in its folder, or else the file that the options name."""
    path = run.options.meta
    if not path:
        raise UsageError("No graph is named.", hint="Set --meta FILE.meta.")
    copy = os.path.join(run.folder or "", COPY)
    return read_meta(copy if run.folder and os.path.isfile(copy) else path)


def keep_copy(run: Any) -> None:
    """Copy the graph into the folder of a run, unless it is there."""
    copy = os.path.join(run.folder, COPY)
    if not os.path.isfile(copy):
        with open(run.options.meta, "rb") as file, atomic_write(copy, durable=True) as target:
            target.write(file.read())
