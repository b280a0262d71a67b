"""The variables of a model: how many numbers they are, and which of them training changes."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ..compat import tf
from .run import Run, step_builder_of


def list_model_variables(run: Run, tf_graph: tf.Graph) -> List[Dict[str, Any]]:
    """The variables of the model of a run's training graph, in the order of their creation, as JSON
    values. Not trained are averages, such as those of batch norm, and what is frozen.
    """
    builder = step_builder_of(run)
    trained = {v.op.name for v in tf_graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    trained -= builder.frozen_variables()
    variables = []
    for v in builder.parameters:
        numbers, dtype = int(v.shape.num_elements() or 0), v.dtype.base_dtype
        facts = {
            "name": v.op.name,
            "shape": [int(n or 0) for n in v.shape.as_list()] if v.shape.rank is not None else [],
            "dtype": dtype.name,
            "numbers": numbers,
            "bytes": numbers * dtype.size,
            "is_trained": v.op.name in trained,
        }
        variables.append(facts)
    return variables


def count_parameters(variables: Sequence[Dict[str, Any]]) -> Dict[str, int]:
    """How many numbers some of these variables have, how many of them training changes, and how
    many variables they are.
    """
    trained = sum(variable["numbers"] for variable in variables if variable["is_trained"])
    total = sum(variable["numbers"] for variable in variables)
    return {"parameters": total, "trainable": trained, "variables": len(variables)}
