"""Train: from a job to a run folder that holds a trained model, and its summary.

`Trainer` opens what is trained, describes the run, trains and tests: its methods stand in the order
in which a run calls them. loop.py makes the steps, the commits and a resume.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, List, Optional, Tuple

from ..data.same_data import LIST_FILE, check_same_classes, check_same_data
from ..display.console import Console
from ..display.waits import waiting
from ..errors import ToolkitError, UsageError
from ..graph.replica import Replica
from ..graph.run import step_builder_of
from ..inference.evaluator import Evaluator
from ..storage.commit_log import Checkpoint
from ..storage.entries import FINISHED, TRAINED, WEIGHTS
from .devices import open_devices
from .hooks.base import Every, SessionHook
from .hooks.guard import Guard
from .hooks.metrics import Metrics
from .hooks.runner import RunHook
from .hooks.summaries import Summaries
from .hooks.timed import Checkpoints, Profile, Stop
from .hooks.validation import Validation
from .initial_weights import check_model, open_initial_weights, read_parents
from .loop import Loop
from .peers import NoPeers, shared_facts
from .run_evaluator import RunEvaluator
from .run_log import RunLog
from .session_record import TrainResult, list_summary_lines
from .setup import Job, evaluates, evaluation_steps, open_job, record_steps
from .step_mode import PlanBuilder, TrainingPlan

__all__ = ["Job", "Trainer"]

DEFAULT_CHECKPOINT_SECS = 60.0


class Trainer:
    """One training run in one process, which locks its folder. `train` may be called once.

    The attribute `job` has the presets that the data chose. `peers` are the other processes of the
    run, of which this is the chief; without them it trains alone, on the devices of the options.
    """

    def __init__(self, job: Job, console: Console, peers: Optional[NoPeers] = None):
        self._console = console
        self.peers = open_devices(job.options) if peers is None else peers
        self.start: Optional[Checkpoint] = None  # from which to continue
        self.page = ""  # the path of the run's page, once `train_and_test` has written it
        self.lines: List[str] = []  # the last ones of the run, likewise
        self._opened = contextlib.ExitStack()
        try:
            self._open(job)
        except BaseException as error:
            self.__exit__(None, error, None)
            raise

    def _open(self, job: Job) -> None:
        """Open all that the session needs, in order. Nothing but the lock's file is written."""
        console, folder = self._console, job.folder
        # The folder of a run that continues, which no other process may train meanwhile.
        self._folder = folder
        self._opened.callback(folder.unlock)
        self._opened.callback(console.file.end)
        state: Dict[str, Any] = {}
        if not folder.is_new:
            folder.lock()
            with waiting(f"Opening {folder}"):  # its files are hashed
                self.start = folder.checkpoints.newest(console.warn)
            state = folder.state()
        self._steps_before = state.get("total_steps")
        # The weights to begin with, where no checkpoint has them.
        parents, weights = read_parents(folder), None
        if self.start is None:
            init_from, renames = job.options.init_from, job.options.map
            weights = open_initial_weights(init_from, renames, parents.get(WEIGHTS), console.warn)
        if weights is not None:
            parents.setdefault(WEIGHTS, weights.parent)
        self.initial_weights = weights
        # What the run began from, if this session has to record it.
        parent = parents.get(WEIGHTS) if self.start is None else None
        self.parent_facts = {"parent": parent._asdict()} if parent else {}
        # The data, which decide the presets that are still open: this is the job that is trained.
        self.job, self.run_data = open_job(job, parents.get(WEIGHTS))
        # The graphs, so that their faults show before anything is written.
        try:
            with waiting("Building the graph"):
                was_compiled = None if folder.is_new else state.get("xla", False)
                self.plan = self._build_plan(was_compiled)
                self._evaluator = RunEvaluator(self.job, self.run_data, self.plan, console)
                self._opened.callback(self._evaluator.close)
                self._best_metric = self._evaluator.best_metric()
        except UsageError as error:
            origin = self.job.origins.get(error.option)
            if origin:
                error.message = f"Option '{error.option}' ({origin}): {error.message}"
            raise
        self.total_steps = self.plan.total_steps
        # Why training ended, where only the test is left: then no step is made.
        self.end: Optional[str] = None
        if self.start is not None and self._is_end(self.start, state, TRAINED):
            self.end = state["reason"]
        self.log = RunLog(self, console)

    def _build_plan(self, was_compiled: Optional[bool]) -> TrainingPlan:
        """The plan of all replicas of this process."""
        place = self.peers.place(self.job.options)
        step = self.start.step if self.start else 0
        plan = PlanBuilder(self.job, self.run_data, place).build(step, was_compiled)

        def build_other(replica: Replica) -> TrainingPlan:
            other = place._replace(replica=replica)
            return PlanBuilder(self.job, self.run_data, other).build_plain(
                plan.graph.loop is not None
            )

        return self.peers.complete(plan, build_other)

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], traceback: Any) -> None:
        self.close()
        self.peers.end(error)

    def close(self) -> None:
        """Close the evaluator and unlock the folder."""
        self._opened.close()

    # ---------------------------------------------------------------------------- before training

    def check_resume(self, is_branch: bool = False) -> None:
        """Refuse to continue with other data than the run began with, unless that is allowed, as
        other classes never are: a DataError. Refuse a branch from the last step: a UsageError.
        """
        if self._folder.is_new:
            return
        record, dataset = self._folder.state()["data"], self.run_data.dataset
        check_same_classes(record, dataset)
        if not self.job.allow_other_data:
            check_same_data(record, dataset, self._folder.file(LIST_FILE))
        if is_branch and self.start is not None and self.start.step >= self.total_steps:
            raise UsageError(
                f"No step is left after step {self.start.step}: the run ends at step "
                f"{self.total_steps}.",
                hint="Branch off an earlier step, or set a larger --steps or --epochs.",
            )

    def is_finished(self) -> bool:
        """Whether the run is finished, and its newest checkpoint at the target; or, if it stopped
        before the same target with the same patience, at its last step.
        """
        if self.start is None:
            return False
        state = self._folder.state()
        is_at_target = state["status"] == FINISHED and self.start.step >= self.total_steps
        return is_at_target or self._is_end(self.start, state, FINISHED)

    def _is_end(self, start: Checkpoint, state: Dict[str, Any], status: str) -> bool:
        """Whether training ended at a checkpoint, by a state of this status, and has the same
        target and patience as then.
        """
        options = self._folder.commits.last_session().get("options")
        patience = options.get("early_stopping") if isinstance(options, dict) else None
        return (
            state["status"] == status
            and start.step >= state["step"]
            and self._steps_before == self.total_steps
            and patience in (None, self.job.options.early_stopping)
        )

    # ----------------------------------------------------------------------------------- training

    def train_and_test(self) -> Dict[str, Any]:
        """Train, test, and return the summary that the seal has, too.

        Where the run fails, its page is written, and the plugins are notified, too.
        """
        try:
            summary = self._test(self.train())
        except (ToolkitError, KeyboardInterrupt):
            self._end(has_failed=True)
            raise
        self._end(has_failed=False)
        resume = self.peers.describe_resume(self._folder.argument)
        self.lines = list_summary_lines(summary, self.page, resume)
        for line in self.lines:
            self._console.file.write(line)
        return summary

    def train(self) -> TrainResult:
        """Train to the end, from the newest intact checkpoint. See `Loop.run` for errors."""
        try:
            result = self._train()
        except BaseException as error:
            self.peers.end(error)
            raise
        if self.peers.count:  # they have nothing to do in the test
            self.peers.end()
        return result

    def _train(self) -> TrainResult:
        console, plan, weights = self._console, self.plan, self.initial_weights
        # See that the checkpoint or the weights fit the model, before anything is written.
        if self.start is not None:
            check_model(self._folder, self.start, plan.graph.tf_graph)
        if weights is not None:
            weights.plan(step_builder_of(plan.graph.run).model_variables)
        self.peers.join(shared_facts(dict(self.log.session_facts(), mode=plan.mode)))
        # Describe the run in its folder and on the console, before the first step.
        hooks, summaries = self._build_hooks()
        self.log.begin(hooks, weights.sentences if weights else (), self._best_metric)
        # Make the session, restore it, and train.
        loop = Loop(self, hooks, summaries, console)
        console.start(self.total_steps, lambda: loop.step)
        try:
            result = loop.run()
        except BaseException as error:
            console.stop()
            with contextlib.suppress(ToolkitError):  # the first failure is the one to report
                summaries.close()
            if isinstance(error, ToolkitError):
                self.log.fail(error, loop.step, loop.seconds)
            raise
        console.stop()
        summaries.close()
        for line in loop.list_costs() if self.job.options.profile_hooks else ():
            console.log(line)
        self.log.end(result)
        return result

    def _build_hooks(self) -> Tuple[List[RunHook], Summaries]:
        """The session hooks in their order, and the one of them that writes TensorBoard events."""
        folder, total, options = self._folder, self.total_steps, self.job.options
        graph, run_data = self.plan.graph, self.run_data
        log_steps = record_steps(options, total, run_data)
        has_schedule = options.summary_steps is not None or options.summary_secs is not None
        summary_steps = options.summary_steps if has_schedule else log_steps
        summaries = Summaries(folder, Every(summary_steps, options.summary_secs), graph.tf_graph)
        secs = options.checkpoint_secs
        if secs is None and options.checkpoint_steps is None:
            secs = DEFAULT_CHECKPOINT_SECS
        schedule = [Every(options.checkpoint_steps, secs)]
        hooks: List[SessionHook] = [
            Guard(graph.skipped_steps, log_steps),
            Metrics(graph, options, Every(log_steps), folder.speed, self._console),
        ]
        others: List[SessionHook] = [summaries]
        if options.profile_steps:
            others.append(Profile(folder, options.profile_steps))
        others.append(Checkpoints(schedule))
        if evaluates(options, run_data):
            steps = evaluation_steps(options, total, run_data)
            schedule.append(Every(steps))
            validate, patience = self._evaluator.validate, options.early_stopping
            others.append(Validation(folder, steps, validate, patience, self._best_metric))
        others.append(Stop(options.max_secs))
        return [*map(RunHook, hooks), *self.plan.plugin_hooks, *map(RunHook, others)], summaries

    # ------------------------------------------------------------------------------------- ending

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of the run's checkpoints."""
        return self._evaluator.evaluator

    def _test(self, result: TrainResult) -> Dict[str, Any]:
        """Test what was trained, unless it only paused, and write the summary."""
        pause_at = self.job.pause_at
        is_paused = pause_at is not None and not result.is_done and result.step >= pause_at
        try:
            test = None if is_paused else self._evaluator.test()
        except (ToolkitError, KeyboardInterrupt) as error:
            self.log.fail_test(error)
            raise
        summary = self.log.finish(result, test)
        self.job.plugins.call_hook("run_finished", run=self.plan.graph.run, summary=summary)
        return summary

    def _end(self, has_failed: bool) -> None:
        """Write the page, and call the hook `run_ended` if the run has begun. The hook finds a
        page, which is written again: what the hook adds to the folder is on the last one.
        """
        self.page = self.log.write_page()
        if self.page and has_failed:
            self._console.log(f"page   {self.page}")
        plugins = self.job.plugins
        if self._folder.is_new or not plugins.has_hook("run_ended"):
            return
        try:
            state, run = self._folder.state(), self.plan.graph.run
            plugins.call_hook("run_ended", run=run, status=state["status"], reason=state["reason"])
        except ToolkitError as error:
            if not has_failed:
                raise
            self._console.warn(str(error))  # the first failure is the one to report
        finally:
            if self.page:
                self.page = self.log.write_page()
