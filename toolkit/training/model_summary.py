"""The variables of a model that a run would train, from its graph alone."""

from __future__ import annotations

from typing import Dict, List, NamedTuple

from ..compat import tf
from ..graph import build
from ..graph.model_summary import (
    ModelVariable,
    ParameterCounts,
    count_parameters,
    list_model_variables,
    scope_sizes,
)
from ..options import Resolved
from ..plugins import Plugins
from ..preset_choice import choose_presets
from ..run_data import open_run_data
from .setup import training_reader, training_run


class ModelSummary(NamedTuple):
    """What a model consists of."""

    variables: List[ModelVariable]  # in the order in which the model creates them
    scopes: Dict[str, ParameterCounts]  # by the first part of the names: a network, a layer
    model: ParameterCounts  # of all


def summarize_model(plugins: Plugins, resolved: Resolved) -> ModelSummary:
    """Build the graph of training without a session, and describe the variables of the model.

    Args:
        plugins: of a run.
        resolved: its options, which name the data.
    """
    run_data = open_run_data(plugins, resolved.options)
    options = choose_presets(resolved, run_data).options
    with tf.Graph().as_default() as tf_graph:
        reader = training_reader(options, run_data)
        run = training_run(options, run_data, "", reader)
        build.build_training(plugins, run, reader, tf_graph, False)
        variables = list_model_variables(run, tf_graph)
    return ModelSummary(variables, scope_sizes(variables), count_parameters(variables))
