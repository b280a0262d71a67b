"""Train: from a job to a run folder that holds a trained model, and its summary."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, List, Optional, Tuple

from ..compat import tf
from ..data.files.hash_list import LIST_FILE
from ..data.same_data import check_same_classes, check_same_data
from ..data.spec import DataSpec
from ..display.console import Console, data_progress
from ..errors import ToolkitError
from ..graph.session_config import session_config
from ..inference.evaluator import Evaluator
from ..options import ORIGINS
from ..run_data import open_run_data
from ..storage.commit_log import Checkpoint
from ..storage.manifest import FINISHED
from .hook_list import build_hooks, build_plugin_hooks
from .hooks import hook_state
from .hooks.base import SessionHook
from .hooks.hook_profiler import HookProfiler
from .length import check_other_length, describe_early_end
from .loop import Loop, TrainResult
from .restore import Restorer
from .run_evaluator import RunEvaluator, state_direction
from .run_log import RunLog
from .setup import Job, check_options, training_reader, training_run
from .step_mode import PlanBuilder, TrainingPlan

__all__ = ["Job", "Trainer"]


class Trainer:
    """One training run in one process, which locks its folder. `train` may be called once.

    Args:
        job: what to train.
        console: shows progress.

    Attributes:
        total_steps: the step at which training stops.
    """

    def __init__(self, job: Job, console: Console):
        self._job = job
        self._console = console
        self._run_evaluator: Optional[RunEvaluator] = None
        try:
            start = self._open_folder()
            self._start = start
            self._restorer = Restorer(job.folder, start, self._warn)
            progress = data_progress(console)
            recorded = self._read_spec()
            # A run that continues may have such options: earlier versions accepted them.
            origins = job.config.get(ORIGINS) if recorded is None else None
            self._run_data = open_run_data(
                job.plugins, job.options, progress, recorded, is_training=True, origins=origins
            )
            check_options(job.options, self._run_data)
            self._plan = self._build_plan()
            self.total_steps = self._plan.total_steps
            self._steps_before = self._read_total_steps()
            self._run_evaluator = RunEvaluator(job, self._run_data, self._plan, console)
            self._best_metric = self._run_evaluator.best_metric()
            self._job = job = state_direction(job, self._best_metric)
            self._log = RunLog(job, self._run_data, self._plan, console)
            self._hooks, self._summaries, self._writers = build_hooks(
                job,
                self._run_data,
                self._plan,
                console,
                self._run_evaluator.validate,
                self._best_metric,
            )
        except BaseException:
            self.close()
            raise

    def train(self) -> TrainResult:
        """Train to the end, from the newest intact checkpoint. See `Loop.run` for errors."""
        job, plan, console = self._job, self._plan, self._console
        # See that the checkpoint fits the model, before anything is written.
        with plan.graph.tf_graph.as_default():
            self._restorer.plan(job.restore_options)
        # Describe the run in its folder and on the console, before the first step.
        self._log.begin(self._hooks)
        profiler, hooks = self._profile_hooks()
        loop = Loop(
            plan.graph,
            hooks,
            self.total_steps,
            plan.reader,
            self._writers,
            job.options.steps_per_call,
            job.pause_at,
        )
        self._log.announce(self._hooks, self._describe_changes(), self._best_metric)
        # Make the session, restore it, and train.
        scaffold = tf.train.Scaffold(
            saver=plan.saver, init_fn=lambda _, session: self._restore(session, loop)
        )
        console.start(self.total_steps, lambda: loop.step)
        try:
            result = loop.run(scaffold, session_config(plan.options))
        except BaseException as error:
            console.stop()
            with contextlib.suppress(ToolkitError):  # the first failure is the one to report
                self._summaries.close()
            if isinstance(error, ToolkitError):
                self._log.fail(error, loop.step)
            raise
        console.stop()
        self._summaries.close()
        if profiler is not None:
            for line in profiler.table(loop.num_steps, loop.bare_secs, loop.due_secs):
                console.log(line)
        self._log.end(result)
        return result

    def _restore(self, session, loop: Loop) -> None:
        """Restore a new session, after its initializers: variables, records, hooks, input."""
        checkpoint = self._restorer.newest_checkpoint()
        self._restorer.restore(session, checkpoint, self._plan.saver, self.session_facts())
        states = hook_state.load(checkpoint.path) if checkpoint else {}
        loop.restore_states(states, self._restorer.is_of_other_model(checkpoint))
        self._plan.reader.initialize(session, checkpoint.step if checkpoint else 0)

    def train_and_test(self) -> Dict[str, Any]:
        """Train, test, and return the summary that is also kept in the manifest."""
        result = self.train()
        pause_at = self._job.pause_at
        is_paused = pause_at is not None and not result.is_done and result.step >= pause_at
        if not is_paused:
            self._log.note(describe_early_end(self._job.options, result.step, self.total_steps))
        summary = self._log.finish(result, None if is_paused else self.test())
        self._job.plugins.call_hook("run_finished", run=self._plan.graph.run, summary=summary)
        return summary

    def test(self) -> Optional[Dict[str, Any]]:
        """See `RunEvaluator.test`."""
        return self._evaluations.test()

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of the run's checkpoints."""
        return self._evaluations.evaluator

    def session_facts(self) -> Dict[str, Any]:
        """See `RunLog.session_facts`."""
        return self._log.session_facts()

    # ---------------------------------------------------------------------------- before training

    def check_data(self) -> None:
        """Refuse to continue with other data than the run began with, unless that is allowed.

        Raises:
            DataError: names what differs. Other classes are never allowed.
        """
        if self._job.folder.is_new:
            return
        record, dataset = self._job.folder.read_manifest()["data"], self._run_data.dataset
        check_same_classes(record, dataset)
        if not self._job.allow_other_data:
            check_same_data(record, dataset, self._job.folder.file(LIST_FILE))

    def check_length(self) -> None:
        """Refuse another length at which the learning rate would jump, unless that is allowed.

        Raises:
            UsageError: names both rates.
        """
        self._describe_other_length(self._job.allow_other_rate)

    def is_finished(self) -> bool:
        """Whether the run is finished, and its newest checkpoint at the target."""
        if self._start is None or self._job.folder.read_manifest()["status"] != FINISHED:
            return False
        return self._start.step >= self.total_steps

    def close(self) -> None:
        """Close the evaluator and unlock the folder."""
        if self._run_evaluator is not None:
            self._run_evaluator.close()
        self._job.folder.unlock()

    def _open_folder(self) -> Optional[Checkpoint]:
        """Lock the folder of an existing run, and find the checkpoint to continue from."""
        folder = self._job.folder
        if folder.is_new:
            return None
        folder.lock()
        return folder.checkpoints.newest(self._warn)

    def _build_plan(self) -> TrainingPlan:
        job, run_data = self._job, self._run_data
        builder = PlanBuilder(
            job.plugins,
            job.options,
            lambda pads_to_longest: training_reader(job.options, run_data, pads_to_longest),
            lambda reader, strategy: training_run(
                job.options, run_data, job.folder.path, reader, strategy
            ),
            lambda graph: build_plugin_hooks(job.plugins, graph, run_data),
        )
        if job.folder.is_new:
            return builder.build()
        was_compiled = job.folder.read_manifest().get("xla", False)
        return builder.build(self._start.step if self._start else 0, was_compiled)

    def _read_spec(self) -> Optional[DataSpec]:
        """The spec of the data with which the run began; None if it begins now."""
        folder = self._job.folder
        return None if folder.is_new else DataSpec.from_json(folder.read_manifest()["data"]["spec"])

    def _read_total_steps(self) -> Optional[int]:
        """The length of the run in its last session; None if it has none."""
        folder = self._job.folder
        return None if folder.is_new else folder.read_manifest().get("total_steps")

    def _describe_other_length(self, is_allowed: bool) -> str:
        if self._start is None or self._steps_before is None:
            return ""
        step, before, now = self._start.step, self._steps_before, self.total_steps
        return check_other_length(self._job.options, step, before, now, is_allowed)

    def _describe_changes(self) -> List[str]:
        """How the model and the learning rate differ from the session before."""
        return [self._restorer.describe_changes(), self._describe_other_length(True)]

    def _profile_hooks(self) -> Tuple[Optional[HookProfiler], List[SessionHook]]:
        """The hooks, each measured if the options ask for it."""
        if not self._job.options.profile_hooks:
            return None, self._hooks
        profiler = HookProfiler()
        return profiler, profiler.wrap(self._hooks)

    @property
    def _evaluations(self) -> RunEvaluator:
        assert self._run_evaluator is not None
        return self._run_evaluator

    def _warn(self, text: str) -> None:
        self._console.log("warning: " + text)
