"""Train: from a job to a run folder that holds a trained model, and its summary.

opening.py makes ready what is trained, loop.py makes the steps, the commits and a resume, and
run_log.py writes what the run reports of itself. This is the order in which a run calls them.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, List, Optional, Tuple

from ..data.files.hash_list import LIST_FILE
from ..data.same_data import check_same_classes, check_same_data
from ..display.console import Console
from ..errors import ToolkitError, UsageError
from ..graph.run import step_builder_of
from ..inference.evaluator import Evaluator
from ..storage.entries import FINISHED
from .devices import open_devices
from .hooks.base import Every, SessionHook
from .hooks.checkpoints import Checkpoints
from .hooks.guard import Guard
from .hooks.metrics import Metrics
from .hooks.profile import Profile
from .hooks.runner import RunHook, list_costs
from .hooks.stop import Stop
from .hooks.summaries import Summaries
from .hooks.validation import Validation
from .length import check_other_length
from .loop import Loop
from .opening import check_model, open_training
from .peers import NoPeers, shared_facts
from .run_log import RunLog
from .run_summary import list_summary_lines
from .session_record import TrainResult
from .setup import Job, evaluates, evaluation_steps, record_steps

__all__ = ["Job", "Trainer"]

DEFAULT_CHECKPOINT_SECS = 60.0


class Trainer:
    """One training run in one process, which locks its folder. `train` may be called once.

    Args:
        job: what to train.
        console: shows progress.
        peers: the other processes of the run, of which this is the chief. Without them the
            process trains alone, on as many devices as the options say.

    Attributes:
        training: the run, opened.
        total_steps: the step at which training stops.
        page: the path of the run's page; "" until `train_and_test` has written it.
    """

    def __init__(self, job: Job, console: Console, peers: Optional[NoPeers] = None):
        self._console = console
        self._peers = open_devices(job.options) if peers is None else peers
        self._opened = contextlib.ExitStack()
        self.page = ""
        try:
            self.training = open_training(job, console, self._peers, self._opened)
            self.total_steps = self.training.plan.total_steps
            self._folder = job.folder
            self._log = RunLog(self.training, console)
        except BaseException as error:
            self.__exit__(None, error, None)
            raise

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], traceback: Any) -> None:
        self.close()
        self._peers.end(error)

    def close(self) -> None:
        """Close the evaluator and unlock the folder."""
        self._opened.close()

    # ---------------------------------------------------------------------------- before training

    def check_resume(self, is_branch: bool = False) -> None:
        """Refuse to continue with other data than the run began with, or with another length at
        which the learning rate would jump, unless that is allowed; and a branch from the last step.

        Raises:
            DataError: names what differs. Other classes are never allowed.
            UsageError: names both rates, or the step.
        """
        if self._folder.is_new:
            return
        record, dataset = self._folder.state()["data"], self.training.run_data.dataset
        check_same_classes(record, dataset)
        if not self.training.job.allow_other_data:
            check_same_data(record, dataset, self._folder.file(LIST_FILE))
        self._describe_other_length(self.training.job.allow_other_rate)
        start = self.training.start
        if is_branch and start is not None and start.step >= self.total_steps:
            raise UsageError(
                f"No step is left after step {start.step}: the run ends at step "
                f"{self.total_steps}.",
                hint="Branch off an earlier step, or set a larger --steps or --epochs.",
            )

    def is_finished(self) -> bool:
        """Whether the run is finished, and its newest checkpoint at the target."""
        start = self.training.start
        if start is None or self._folder.state()["status"] != FINISHED:
            return False
        return start.step >= self.total_steps

    def session_facts(self) -> Dict[str, Any]:
        """See `RunLog.session_facts`."""
        return self._log.session_facts()

    # ----------------------------------------------------------------------------------- training

    def train_and_test(self) -> Dict[str, Any]:
        """Train, test, and return the summary that the seal has, too.

        Where the run fails, its page is written, and the plugins are notified, too.
        """
        try:
            summary = self._finish(self.train())
        except (ToolkitError, KeyboardInterrupt):
            self._end(has_failed=True)
            raise
        self._end(has_failed=False)
        for line in list_summary_lines(summary, self.page):
            self._console.record(line)
        return summary

    def train(self) -> TrainResult:
        """Train to the end, from the newest intact checkpoint. See `Loop.run` for errors."""
        try:
            result = self._train()
        except BaseException as error:
            self._peers.end(error)
            raise
        if self._peers.count:  # they have nothing to do in the test
            self._peers.end()
        return result

    def _train(self) -> TrainResult:
        training, console = self.training, self._console
        job, plan, weights = training.job, training.plan, training.initial_weights
        # See that the checkpoint or the weights fit the model, before anything is written.
        if training.start is not None:
            with plan.graph.tf_graph.as_default():
                check_model(self._folder, training.start)
        if weights is not None:
            class_names = training.run_data.dataset.spec.class_names
            weights.plan(step_builder_of(plan.graph.run).model_variables, class_names)
        self._peers.join(shared_facts(dict(self.session_facts(), mode=plan.mode.value)))
        # Describe the run in its folder and on the console, before the first step.
        hooks, summaries = self._build_hooks()
        self._log.begin(hooks)
        changes = [*(weights.describe() if weights else ()), self._describe_other_length(True)]
        loop = Loop(training, hooks, summaries, self.session_facts(), console)
        self._log.announce(hooks, changes, training.best_metric)
        # Make the session, restore it, and train.
        console.start(self.total_steps, lambda: loop.step)
        try:
            result = loop.run()
        except BaseException as error:
            console.stop()
            with contextlib.suppress(ToolkitError):  # the first failure is the one to report
                summaries.close()
            if isinstance(error, ToolkitError):
                self._log.fail(error, loop.step, loop.seconds)
            raise
        console.stop()
        summaries.close()
        costs = loop.ms_per_step()
        for line in list_costs(costs) if job.options.profile_hooks else ():
            console.log(line)
        self._log.end(result, costs)
        return result

    def _build_hooks(self) -> Tuple[List[RunHook], Summaries]:
        """The session hooks in their order, and the one of them that writes TensorBoard events."""
        training, folder, total = self.training, self._folder, self.total_steps
        options, graph, run_data = training.job.options, training.plan.graph, training.run_data
        log_steps = record_steps(options, total, run_data)
        has_schedule = options.summary_steps is not None or options.summary_secs is not None
        summary_steps = options.summary_steps if has_schedule else log_steps
        summaries = Summaries(folder, Every(summary_steps, options.summary_secs), graph.tf_graph)
        secs = options.checkpoint_secs
        if secs is None and options.checkpoint_steps is None:
            secs = DEFAULT_CHECKPOINT_SECS
        schedule = [Every(options.checkpoint_steps, secs)]
        hooks: List[SessionHook] = [
            Guard(graph.counters, log_steps),
            Metrics(graph, options, Every(log_steps), folder.speed, self._console),
        ]
        others: List[SessionHook] = [summaries]
        if options.profile_steps:
            others.append(Profile(folder.file("profile"), options.profile_steps))
        others.append(Checkpoints(schedule))
        if evaluates(options, run_data):
            steps = evaluation_steps(options, total, run_data)
            schedule.append(Every(steps))
            validate, patience = training.evaluator.validate, options.early_stopping
            others.append(Validation(folder, steps, validate, patience, training.best_metric))
        others.append(Stop(options.max_secs))
        hook_list = [*map(RunHook, hooks), *training.plan.plugin_hooks, *map(RunHook, others)]
        return hook_list, summaries

    def _finish(self, result: TrainResult) -> Dict[str, Any]:
        """Test what was trained, unless it only paused, and write the summary."""
        job = self.training.job
        is_paused = job.pause_at is not None and not result.is_done and result.step >= job.pause_at
        try:
            test = None if is_paused else self.training.evaluator.test()
        except (ToolkitError, KeyboardInterrupt) as error:
            self._log.fail_test(error)
            raise
        summary = self._log.finish(result, test)
        job.plugins.call_hook("run_finished", run=self.training.plan.graph.run, summary=summary)
        return summary

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of the run's checkpoints."""
        return self.training.evaluator.evaluator

    def _end(self, has_failed: bool) -> None:
        """Write the page, and call the hook `run_ended` if the run has begun. The hook finds a
        page, which is written again: what the hook adds to the folder is on the last one.
        """
        self.page = self._log.write_page()
        if self.page and has_failed:
            self._console.log(f"page   {self.page}")
        job = self.training.job
        if self._folder.is_new or not job.plugins.has_hook("run_ended"):
            return
        try:
            state, run = self._folder.state(), self.training.plan.graph.run
            facts = {name: state[name] for name in ("status", "reason")}
            job.plugins.call_hook("run_ended", run=run, **facts)
        except ToolkitError as error:
            if not has_failed:
                raise
            self._console.log(f"warning: {error}")  # the first failure is the one to report
        finally:
            if self.page:
                self.page = self._log.write_page()

    def _describe_other_length(self, is_allowed: bool) -> str:
        """How another length than that of the session before changes the learning rate."""
        start, before, now = self.training.start, self.training.steps_before, self.total_steps
        if start is None or before is None:
            return ""
        texts = []
        for name in step_builder_of(self.training.plan.graph.run).schedules():
            options = self.training.job.options.model_copy(update={"schedule": name})
            texts.append(check_other_length(options, start.step, before, now, is_allowed))
        return "; ".join(text for text in texts if text)
