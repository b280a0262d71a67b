"""Open a run for training: from a job to all that its session needs, in order.

Nothing is written, and what is open does not change any more.
"""

from __future__ import annotations

import contextlib
from typing import Iterator, NamedTuple, Optional

from ..compat import tf
from ..display.console import Console
from ..display.waits import waiting
from ..errors import CheckpointError, UsageError
from ..graph.replica import Replica
from ..run_data import RunData
from ..storage.commit_log import Checkpoint
from ..storage.entries import WEIGHTS, Parent
from ..storage.run_folder import RunFolder
from ..storage.variables import (
    find_misfit,
    find_renamed_scope,
    read_variable_specs,
    variable_specs,
)
from .best_metric import BestMetric
from .initial_weights import InitialWeights, open_initial_weights, read_parents
from .peers import NoPeers
from .run_evaluator import RunEvaluator
from .setup import Job, check_own_updates, open_job
from .step_mode import PlanBuilder, TrainingPlan


class Training(NamedTuple):
    """What a session trains.

    Attributes:
        job: with the presets that the data chose.
        peers: the other processes of the run, of which this is the chief.
        start: the checkpoint to continue from, or None.
        initial_weights: those to begin with, if they are others than the model's.
        parent: what the run began from, if this session has to record it.
        run_data: the examples.
        plan: of the steps.
        evaluator: of the run's checkpoints.
        best_metric: chooses the best checkpoint; None for no choice.
        steps_before: the length of the run in its last session; None if it has none.
    """

    job: Job
    peers: NoPeers
    start: Optional[Checkpoint]
    initial_weights: Optional[InitialWeights]
    parent: Optional[Parent]
    run_data: RunData
    plan: TrainingPlan
    evaluator: RunEvaluator
    best_metric: Optional[BestMetric]
    steps_before: Optional[int]


def open_training(
    job: Job, console: Console, peers: NoPeers, opened: contextlib.ExitStack
) -> Training:
    """Open a run, or raise a ToolkitError. The console shows what takes its time, and warnings; the
    stack closes what was opened, also where this fails.
    """

    def warn(text: str) -> None:
        console.log("warning: " + text)

    # The folder of a run that continues, which no other process may train meanwhile.
    folder = job.folder
    opened.callback(folder.unlock)
    opened.callback(console.close_file)
    start, state = None, {}
    if not folder.is_new:
        folder.lock()
        with waiting(f"Opening {folder}"):  # its files are hashed
            start = folder.checkpoints.newest(warn)
        state = folder.state()
    # The weights to begin with, where no checkpoint has them.
    parents = read_parents(folder)
    weights = None
    if start is None:
        options = job.options
        weights = open_initial_weights(options.init_from, options.map, parents.get(WEIGHTS), warn)
    if weights is not None:
        parents.setdefault(WEIGHTS, weights.parent)
    # The data, which decide the presets that are still open: this is the job that is trained.
    job, run_data = open_job(job, parents.get(WEIGHTS))
    # The graphs, so that their faults show before anything is written.
    with waiting("Building the graph"), _naming_origin(job):
        place = peers.place(job.options)
        was_compiled = None if folder.is_new else state.get("xla", False)
        plan = PlanBuilder(job, run_data, place).build(start.step if start else 0, was_compiled)

        def build_other(replica: Replica) -> TrainingPlan:
            return PlanBuilder(job, run_data, place._replace(replica=replica)).build_like(plan.mode)

        plan = peers.complete(plan, build_other)
        if folder.is_new:
            check_own_updates(job, plan.graph.run)
        evaluator = RunEvaluator(job, run_data, plan, console)
        opened.callback(evaluator.close)
        evaluator.prepare()
    return Training(
        job=job,
        peers=peers,
        start=start,
        initial_weights=weights,
        parent=parents.get(WEIGHTS) if start is None else None,
        run_data=run_data,
        plan=plan,
        evaluator=evaluator,
        best_metric=evaluator.best_metric(),
        steps_before=state.get("total_steps"),
    )


def check_model(folder: RunFolder, checkpoint: Checkpoint) -> None:
    """Compare a checkpoint with the variables of the default graph, before a session exists.

    Raises:
        CheckpointError: the model is another one.
    """
    in_checkpoint = read_variable_specs(checkpoint.path)
    in_graph = variable_specs(tf.global_variables())
    misfit = find_misfit(in_checkpoint, in_graph)
    if misfit:
        renamed = find_renamed_scope(in_checkpoint, in_graph)
        raise CheckpointError(
            misfit,
            hint="Resume with the plugin and the options with which the run was started, or begin "
            f"a new run with its weights: toolkit run --config {folder.argument}/config.json "
            f"--init-from {folder.argument} {renamed}".rstrip(),
        )


@contextlib.contextmanager
def _naming_origin(job: Job) -> Iterator[None]:
    """Let an error of an option say where its value is from."""
    try:
        yield
    except UsageError as error:
        origin = job.origins.get(error.option)
        if origin:
            error.message = f"Option '{error.option}' ({origin}): {error.message}"
        raise
