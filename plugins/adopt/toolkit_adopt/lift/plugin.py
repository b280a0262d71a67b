"""The hooks of what is lifted, and the plugin `lift`: a graph without its source, from a .meta.

This module imports no TensorFlow.
"""

from __future__ import annotations

from typing import Dict, List

import pydantic

from toolkit import LazyModules, Options, hookimpl, option

from .rules import parse_rule

modules = LazyModules(__package__)


class LiftOptions(Options):
    meta: str = option("", "the graph to train, a file .meta", group="Graph", path=True)
    train_op: List[str] = option(
        [], "names of the train ops of a period, in order; A+B are run in one call", group="Graph"
    )
    losses: List[str] = option(
        [], "names of scalars to report; empty for those whose gradients are taken", group="Graph"
    )
    feed: Dict[str, str] = option(
        {}, "how tensors are fed that have not the form of the data: NAME=RULE,...", group="Graph"
    )
    infer_feed: Dict[str, str] = option(
        {}, "rules that replace those of --feed in evaluations and predictions", group="Graph"
    )
    graph_input: str = option("", "the tensor that predictions are fed", group="Graph")
    graph_output: List[str] = option(
        [], "the tensors that predictions are of: NAME or KEY=NAME,...", group="Graph"
    )

    @pydantic.field_validator("feed", "infer_feed")
    @classmethod
    def _check_rules(cls, value):
        for name, text in value.items():
            parse_rule(name, text)
        return value


class Lifted:
    """The hooks of a `graph.LiftedModel`; a subclass has the hook `build`."""

    @hookimpl
    def call(self, model, features, labels, run):
        return model.build("outputs", features, labels, run)

    @hookimpl
    def loss(self, model, features, labels, run):
        return model.build("losses", features, labels, run)

    @hookimpl
    def optimize(self, model, losses, run):
        model.add_slots()
        return run.adopt(model.parts["losses"].train_op, list(losses.values()))

    @hookimpl
    def predict(self, model, features, outputs, run):
        return model.predict(features, outputs, run)


class Lift(Lifted):
    """Trains ops of a graph that was built elsewhere."""

    @hookimpl
    def options(self):
        return LiftOptions

    @hookimpl
    def inputs(self, run):
        return modules.graph.input_specs(run)

    @hookimpl
    def build(self, run):
        return modules.graph.build(run)

    @hookimpl
    def checkpoint_saved(self, run):
        modules.graph.keep_copy(run)
