"""The variables of a model: how many numbers they are, and which of them training changes."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple

from ..compat import tf
from .run import Run, step_builder_of


class ParameterCounts(NamedTuple):
    """The size of a model, without the slots of its optimizers."""

    parameters: int  # numbers in all variables
    trainable: int  # numbers in those that training changes
    variables: int  # how many variables there are


class ModelVariable(NamedTuple):
    """A variable of a model."""

    name: str
    shape: List[int]
    dtype: str
    numbers: int
    bytes: int
    is_trained: bool  # neither an average, such as those of batch norm, nor frozen


def list_model_variables(run: Run, tf_graph: tf.Graph) -> List[ModelVariable]:
    """The variables of the model of a run's training graph, in the order of their creation."""
    builder = step_builder_of(run)
    trained = {v.op.name for v in tf_graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    trained -= builder.frozen_variables()
    variables = []
    for v in builder.parameters:
        numbers, dtype = int(v.shape.num_elements() or 0), v.dtype.base_dtype
        sizes = [int(size or 0) for size in v.shape.as_list()] if v.shape.rank is not None else []
        facts = (v.op.name, sizes, dtype.name, numbers, numbers * dtype.size, v.op.name in trained)
        variables.append(ModelVariable(*facts))
    return variables


def count_parameters(variables: Iterable[ModelVariable]) -> ParameterCounts:
    """The size of a model."""
    variables = list(variables)
    trained = sum(variable.numbers for variable in variables if variable.is_trained)
    return ParameterCounts(sum(v.numbers for v in variables), trained, len(variables))


def scope_sizes(variables: Iterable[ModelVariable]) -> Dict[str, ParameterCounts]:
    """The size of each scope, such as each network of several, by the first part of the names."""
    scopes: Dict[str, List[ModelVariable]] = {}
    for variable in variables:
        scopes.setdefault(variable.name.partition("/")[0], []).append(variable)
    return {name: count_parameters(members) for name, members in scopes.items()}
