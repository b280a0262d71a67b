"""The variables of a model: how many numbers they are, and which of them training changes."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple

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
    """The variables of the model of a training graph, in the order in which it creates them.

    Args:
        run: of the graph.
        tf_graph: the graph.
    """
    builder = step_builder_of(run)
    frozen = builder.frozen_variables()
    trainable = {v.op.name for v in tf_graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    return [_describe(variable, trainable - frozen) for variable in builder.parameters]


def _describe(variable: Any, trained: Iterable[str]) -> ModelVariable:
    name, shape = variable.op.name, variable.shape
    numbers = int(shape.num_elements() or 0) if shape.is_fully_defined() else 0
    sizes = [int(size or 0) for size in shape.as_list()] if shape.rank is not None else []
    dtype = variable.dtype.base_dtype
    return ModelVariable(name, sizes, dtype.name, numbers, numbers * dtype.size, name in trained)


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
