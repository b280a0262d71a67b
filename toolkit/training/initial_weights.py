"""The values with which a run begins where they are others than the model's: the weights of another
model (--init-from), and what is computed from the training data (`Run.fit_initial_values`).
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..compat import tf
from ..errors import CheckpointError, ToolkitError, UsageError
from ..graph.run import Run, step_builder_of
from ..options import split_step
from ..storage.commit_log import Checkpoint
from ..storage.entries import Parent
from ..storage.run_folder import RunFolder
from ..storage.variables import (
    find_misfit,
    find_renamed_scope,
    parse_map,
    read_variable_specs,
    stored_specs,
    variable_specs,
)
from ..storage.weights import WeightSource, open_weights, plan_weights, read_weights

if TYPE_CHECKING:
    from .trainer import Trainer

WAY_OUT = (
    "The run has committed nothing yet, so it begins with these weights again: put them back, "
    "name their new place (toolkit resume RUN --init-from PATH --allow init_from), or start a new "
    "run."
)


class InitialWeights:
    """Values of variables before the first step, instead of their initial values; `renames` leads
    from the names of the source to those of the graph.
    """

    def __init__(self, source: WeightSource, renames: Dict[str, str]):
        self.parent = source.parent
        self._source, self._renames = source, renames
        self.sentences: List[str] = []  # which variables begin with which weights
        self.values: Dict[str, np.ndarray] = {}  # of the variables by name, once they are planned

    def plan(self, variables: Sequence[tf.Variable]) -> None:
        """Choose the weights of the model's variables, without slots, before a session exists.
        Raises UsageError if --map is wrong, CheckpointError if no variable fits.
        """
        source, in_graph = self._source, variable_specs(variables)
        plan = plan_weights(source, in_graph, self._renames)
        self.values = read_weights(source, plan, in_graph)
        self.sentences = plan.sentences(source.describe())
        self._source = source._replace(values={})  # those that are not used need no memory

    def feeds(self, graph: tf.Graph) -> Dict[tf.Tensor, np.ndarray]:
        """What to feed while the variables of a graph are initialised, so that whatever depends on
        an initial value follows the weights.
        """
        return {v.initializer.inputs[1]: value for v, value in self._pairs(graph)}

    def assign(self, session: tf.Session) -> None:
        """Assign the weights in a session. No op is added to its graph."""
        for variable, value in self._pairs(session.graph):  # two may share one initial value
            session.run(variable.initializer, {variable.initializer.inputs[1]: value})

    def _pairs(self, graph: tf.Graph) -> List[Tuple[tf.Variable, np.ndarray]]:
        """The variables of a graph that begin with weights, and these."""
        variables = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        return [(v, self.values[v.op.name]) for v in variables if v.op.name in self.values]


def open_initial_weights(
    init_from: Optional[str],
    renames: Sequence[str],
    recorded: Optional[Parent],
    warn: Callable[[str], None],
    way_out: str = WAY_OUT,
) -> Optional[InitialWeights]:
    """The weights that --init-from names, with the renames of --map; None if it names none.

    A run that began has recorded its parent. `warn` is called with a message for each damaged
    checkpoint that is skipped; `way_out` is the hint for a run that began. Raises UsageError if
    there are no such weights, or --map is wrong; CheckpointError if they cannot be read, or are not
    those with which the run began.
    """
    if not init_from:
        return None
    names = parse_map(renames)
    path, step = split_step(init_from)
    if recorded is not None and recorded.head and not step:
        step = str(recorded.step)
    try:
        source = open_weights(path, step, warn)
    except (UsageError, CheckpointError) as error:
        if recorded is not None:
            error.hint = way_out
        raise
    if recorded is not None and recorded.tensors != source.parent.tensors:
        raise CheckpointError(
            f"The weights of {source.describe()} have changed since the run began with them: "
            f"tensors {source.parent.tensors[:16]}, expected {recorded.tensors[:16]}.",
            hint=way_out,
        )
    return InitialWeights(source, names)


def check_model(folder: RunFolder, checkpoint: Checkpoint, graph: tf.Graph) -> None:
    """Compare a checkpoint with the variables of a graph, before a session exists. Raises
    CheckpointError if the model is another one.
    """
    in_checkpoint = read_variable_specs(checkpoint.path)
    in_graph = stored_specs(graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES))
    misfit = find_misfit(in_checkpoint, in_graph)
    if misfit:
        renamed = find_renamed_scope(in_checkpoint, in_graph)
        raise CheckpointError(
            misfit,
            hint="Resume with the plugin and the options with which the run was started, or begin "
            f"a new run with its weights: toolkit run --config {folder.argument}/config.json "
            f"--init-from {folder.argument} {renamed}".rstrip(),
        )


def read_parents(folder: RunFolder) -> Dict[str, Parent]:
    """See `CommitLog.parents`; those of a new run are none: its files may belong to another."""
    return {} if folder.is_new else folder.commits.parents()


# ------------------------------------------------------------------------------------ in a session


def assign_initial_values(trainer: Trainer, session: tf.Session, run: Run) -> None:
    """Assign the initial weights of a run that begins in the session of a graph of it, whose
    variables are initialised; then compute and assign the values of all `run.fit_initial_values`,
    but of those that all have weights. No op is added to the graph. Raises ToolkitError if a
    function failed, or returned arrays that do not fit the variables.
    """
    weights = trainer.initial_weights
    if weights is not None:
        weights.assign(session)
    subject = "function of run.fit_initial_values"
    builder = step_builder_of(run)
    names = {variable.op.name for variable in builder.model_variables}
    names -= set(weights.values if weights else ())
    for fit in builder.initial_fits:
        if not (fit.is_of_data or any(variable.op.name in names for variable in fit.variables)):
            continue
        dtypes = [variable.dtype.as_numpy_dtype for variable in fit.variables]
        values = trainer.job.plugins.call_plugin_code(
            subject,
            lambda split, function, dtypes: [
                np.asarray(value, dtype) for value, dtype in zip_longest(function(split), dtypes)
            ],
            trainer.run_data.prepare_split("train"),
            fit.function,
            dtypes,
        )
        shapes = [list(value.shape) for value in values]
        expected = [variable.shape.as_list() for variable in fit.variables]
        if shapes != expected:
            names_of = ", ".join(variable.op.name for variable in fit.variables)
            raise ToolkitError(
                f"The {subject} returned arrays of shapes {shapes} for {names_of}, expected "
                f"{expected}."
            )
        for variable, value in zip(fit.variables, values):
            session.run(variable.initializer, {variable.initializer.inputs[1]: value})
