"""The session hooks of a training run, in the order in which they run."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..compat import tf, under_construction
from ..display.console import MAX_METRICS, Console
from ..graph.build import TrainingGraph
from ..options import CoreOptions
from ..plugins import Answer, Plugins, Problem, describe_value
from ..run_data import RunData
from .best_metric import BestMetric
from .hooks.base import Every, PluginHook, SessionHook
from .hooks.checkpoints import Checkpoints
from .hooks.guard import Guard
from .hooks.metrics import Metrics
from .hooks.profile import Profile
from .hooks.stop import Stop
from .hooks.summaries import Summaries
from .hooks.validation import Validation, ValidationResult
from .loop import StepCounter, Writers
from .setup import Job, evaluates, evaluation_steps, examples_per_step, record_steps
from .step_mode import TrainingPlan

DEFAULT_CHECKPOINT_SECS = 60.0


class HookList(NamedTuple):
    """The hooks of a run.

    Attributes:
        hooks: in their order.
        summaries: the one of them that writes TensorBoard events; the trainer closes it.
        writers: where all of them may write.
    """

    hooks: List[SessionHook]
    summaries: Summaries
    writers: Writers


def build_hooks(
    job: Job,
    run_data: RunData,
    plan: TrainingPlan,
    console: Console,
    evaluate: Callable[[str], ValidationResult],
    best_metric: Optional[BestMetric],
) -> HookList:
    """Build the hooks of a run.

    Args:
        evaluate: from the path of a checkpoint to its result on the validation split.
        best_metric: chooses the best checkpoint; None for no choice.
    """
    options, folder, graph = job.options, job.folder, plan.graph
    steps = record_steps(options, plan.total_steps, run_data)
    summaries = Summaries(folder, _summary_schedule(options, steps), graph.tf_graph)
    writers = Writers(folder.metrics.append, summaries.write, console.log)
    record, log = writers.record, writers.log
    metrics = Metrics(
        graph.sums,
        graph.run.replica.weights,
        {**graph.losses, **graph.logged},
        examples_per_step(options),
        Every(steps),
        record,
        folder.speed.append,
        lambda values: _show(values, console, summaries),
    )
    hooks: List[SessionHook] = [StepCounter(graph), Guard(graph.counters, steps, record, log)]
    hooks.append(metrics)
    hooks += plan.plugin_hooks
    hooks.append(summaries)
    if options.profile_steps:
        hooks.append(Profile(folder.file("profile"), options.profile_steps))
    hooks.append(_checkpoints(job, run_data, plan))
    if evaluates(options, run_data):
        steps = evaluation_steps(options, plan.total_steps, run_data)
        record_evaluation = _evaluation_recorder(writers, summaries, best_metric)
        patience = options.early_stopping
        hooks.append(Validation(folder, steps, evaluate, patience, record_evaluation, best_metric))
    hooks.append(Stop(options.max_secs))
    return HookList(hooks, summaries, writers)


def _checkpoints(job: Job, run_data: RunData, plan: TrainingPlan) -> Checkpoints:
    options = job.options
    secs = options.checkpoint_secs
    if secs is None and options.checkpoint_steps is None:
        secs = DEFAULT_CHECKPOINT_SECS
    schedule = [Every(options.checkpoint_steps, secs)]
    if evaluates(options, run_data):
        schedule.append(Every(evaluation_steps(options, plan.total_steps, run_data)))

    def announce(step: int, path: str) -> None:
        job.plugins.call_hook("checkpoint_saved", run=plan.graph.run, step=step, path=path)

    return Checkpoints(plan.saver, job.folder, schedule, options, announce)


def _show(values: Dict[str, Any], console: Console, summaries: Summaries) -> None:
    """Show the metrics of a step on the console and in TensorBoard."""
    console.show_metrics(values)
    others = ("step", "kind", "secs_left")
    scalars = {name: value for name, value in values.items() if name not in others}
    summaries.write_scalars(values["step"], scalars)


def _evaluation_recorder(
    writers: Writers, summaries: Summaries, best_metric: Optional[BestMetric]
) -> Callable[[Dict[str, Any]], None]:
    """A function that takes the record of an evaluation to metrics.jsonl, events and console.

    Of many metrics, the console has the one that chooses the best checkpoint, and the last ones:
    scores come after the values of the graph.
    """

    def record_evaluation(values: Dict[str, Any]) -> None:
        writers.record(values)
        metrics = {name: value for name, value in values.items() if isinstance(value, float)}
        prefixed = {"validation/" + name: value for name, value in metrics.items()}
        summaries.write_scalars(values["step"], prefixed)
        names = sorted(metrics)
        if len(names) > MAX_METRICS:
            names = [name for name in reversed(list(metrics)) if not name.endswith("_noise")]
            names.sort(key=lambda name: best_metric is None or name != best_metric.name)  # stable
        text = "  ".join(f"{name} {metrics[name]:.4f}" for name in names[:MAX_METRICS])
        writers.log(f"step {values['step']}  validation  {text}")

    return record_evaluation


def _summary_schedule(options: CoreOptions, log_steps: int) -> Every:
    steps = options.summary_steps
    if steps is None and options.summary_secs is None:
        steps = log_steps
    return Every(steps, options.summary_secs)


def build_plugin_hooks(
    plugins: Plugins, graph: TrainingGraph, run_data: RunData
) -> List[SessionHook]:
    """What the plugins' hook `session_hooks` returns for a graph, in which it may make ops."""
    step_ops = set(graph.tf_graph.get_operations())
    with under_construction(graph.tf_graph):
        answers = plugins.call_each(
            "session_hooks",
            model=graph.model,
            features=graph.batch.features,
            labels=graph.batch.labels,
            outputs=graph.step.outputs,
            losses=graph.losses,
            run=graph.run,
            splits=run_data.prepare_split,
        )
        lists = [_as_list(plugins, answer) for answer in answers]
    return [
        PluginHook(hook, answer.plugin, answer.place, step_ops)
        for answer, hooks in zip(answers, lists)
        for hook in hooks
    ]


def _as_list(plugins: Plugins, answer: Answer) -> List[tf.train.SessionRunHook]:
    """The session hooks that one plugin returned. Raises ToolkitError for anything else."""
    hooks = answer.value
    if inspect.isgenerator(hooks):
        hooks = plugins.call_plugin_code("hook 'session_hooks'", list, hooks)
    if not isinstance(hooks, (list, tuple)):
        text = f"returned {describe_value(hooks)}, expected a list of session hooks"
        raise answer.error(Problem(text, "Return a list: [hook]."))
    for hook in hooks:
        if not isinstance(hook, tf.train.SessionRunHook):
            hint = "It returns a list of tf.train.SessionRunHooks."
            if inspect.isclass(hook):
                hint = f"Return an object of the class: [{hook.__name__}()]."
            text = f"returned a list with {describe_value(hook)}, expected session hooks"
            raise answer.error(Problem(text, hint))
    return list(hooks)
