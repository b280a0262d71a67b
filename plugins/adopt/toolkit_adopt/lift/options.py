"""The options of the plugin `lift`. This module imports no TensorFlow."""

from __future__ import annotations

from typing import Dict, List

import pydantic

from toolkit import Options, option

from .rules import parse_rule


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
