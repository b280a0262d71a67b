"""Initial values that are computed from the training data: see `Run.fit_initial_values`."""

from __future__ import annotations

from typing import Any, Callable, Container, List, Tuple

import numpy as np

from ..compat import tf
from ..errors import ToolkitError
from ..graph.initial_values import InitialFit
from ..graph.run import Run, step_builder_of
from ..plugins import Plugins

SUBJECT = "function of run.fit_initial_values"


def compute_initial_values(
    session: tf.Session,
    run: Run,
    plugins: Plugins,
    read_split: Callable[[str], Any],
    names: Container[str],
) -> None:
    """Compute and assign the values of all `run.fit_initial_values`. No op is added to the graph.

    Args:
        session: of a run that begins, whose variables are initialised.
        run: of the graph.
        plugins: of the run.
        read_split: from the name of a split to the `Split` after `filter` and `convert`.
        names: of the variables that initial weights gave no value.

    Raises:
        ToolkitError: a function failed, or returned arrays that do not fit the variables.
    """
    for fit in step_builder_of(run).initial_fits:
        if fit.is_of_data or any(variable.op.name in names for variable in fit.variables):
            for variable, value in _compute(fit, plugins, read_split("train")):
                initial_value = variable.initializer.inputs[1]
                session.run(variable.initializer, {initial_value: value})


def _compute(fit: InitialFit, plugins: Plugins, split: Any) -> List[Tuple[Any, np.ndarray]]:
    """Each variable with its value."""
    values = plugins.call_plugin_code(SUBJECT, lambda: list(map(np.asarray, fit.function(split))))
    shapes = [list(value.shape) for value in values]
    expected = [variable.shape.as_list() for variable in fit.variables]
    if shapes != expected:
        names = ", ".join(variable.op.name for variable in fit.variables)
        raise ToolkitError(
            f"The {SUBJECT} returned arrays of shapes {shapes} for {names}, expected {expected}."
        )
    return list(zip(fit.variables, values))
