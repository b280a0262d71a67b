"""The session hooks of a training run, in the order in which they run."""

from __future__ import annotations

from typing import List, Tuple

from ..display.console import Console
from .hooks.base import Every, SessionHook
from .hooks.checkpoints import Checkpoints
from .hooks.guard import Guard
from .hooks.metrics import Metrics
from .hooks.profile import Profile
from .hooks.runner import RunHook
from .hooks.stop import Stop
from .hooks.summaries import Summaries
from .hooks.validation import Validation
from .opening import Training
from .setup import evaluates, evaluation_steps, record_steps

DEFAULT_CHECKPOINT_SECS = 60.0


def build_hooks(training: Training, console: Console) -> Tuple[List[RunHook], Summaries]:
    """The hooks of a run, and the one of them that writes TensorBoard events."""
    job, run_data, plan = training.job, training.run_data, training.plan
    options, folder, graph = job.options, job.folder, plan.graph
    log_steps = record_steps(options, plan.total_steps, run_data)
    has_schedule = options.summary_steps is not None or options.summary_secs is not None
    summary_steps = options.summary_steps if has_schedule else log_steps
    summaries = Summaries(folder, Every(summary_steps, options.summary_secs), graph.tf_graph)
    secs = options.checkpoint_secs
    if secs is None and options.checkpoint_steps is None:
        secs = DEFAULT_CHECKPOINT_SECS
    schedule = [Every(options.checkpoint_steps, secs)]
    hooks: List[SessionHook] = [
        Guard(graph.counters, log_steps),
        Metrics(graph, options, Every(log_steps), folder.speed, console),
    ]
    others: List[SessionHook] = [summaries]
    if options.profile_steps:
        others.append(Profile(folder.file("profile"), options.profile_steps))
    others.append(Checkpoints(schedule))
    if evaluates(options, run_data):
        steps = evaluation_steps(options, plan.total_steps, run_data)
        schedule.append(Every(steps))
        validate, patience = training.evaluator.validate, options.early_stopping
        others.append(Validation(folder, steps, validate, patience, training.best_metric))
    others.append(Stop(options.max_secs))
    return [*map(RunHook, hooks), *plan.plugin_hooks, *map(RunHook, others)], summaries
