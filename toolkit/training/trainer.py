"""Train: from a job to a run folder that holds a trained model, and its summary."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Optional

from ..compat import tf
from ..data.files.hash_list import LIST_FILE
from ..data.same_data import check_same_classes, check_same_data
from ..display.console import Console
from ..display.waits import waiting
from ..errors import ToolkitError, UsageError
from ..graph.replica import Replica
from ..graph.run import step_builder_of
from ..graph.session_config import session_config
from ..inference.evaluator import Evaluator
from ..options import ORIGINS, CoreOptions
from ..run_data import open_run_data
from ..storage.commit_log import Checkpoint
from ..storage.entries import FINISHED
from ..storage.parent import WEIGHTS, Parent
from .devices import open_devices
from .hook_list import build_hooks, build_plugin_hooks
from .hooks import hook_state
from .hooks.hook_profiler import HookProfiler
from .initial_fits import compute_initial_values
from .initial_weights import InitialWeights, name_step, open_initial_weights, read_parents
from .length import check_other_length, describe_early_end
from .loop import Loop, TrainResult
from .peers import NoPeers, shared_facts
from .restore import Restorer, check_model
from .run_evaluator import RunEvaluator
from .run_log import RunLog
from .run_summary import list_summary_lines
from .setup import Job, check_options, check_own_updates, read_spec
from .step_mode import PlanBuilder, TrainingPlan, plan_builder

__all__ = ["Job", "Trainer"]


class Trainer:
    """One training run in one process, which locks its folder. `train` may be called once.

    Args:
        job: what to train.
        console: shows progress.
        peers: the other processes of the run, of which this is the chief. Without them the
            process trains alone, on as many devices as the options say.

    Attributes:
        total_steps: the step at which training stops.
        page: the path of the run's page; "" until `train_and_test` has written it.
    """

    def __init__(self, job: Job, console: Console, peers: Optional[NoPeers] = None):
        self._job = job
        self._console = console
        self._peers = open_devices(job.options) if peers is None else peers
        self._run_evaluator: Optional[RunEvaluator] = None
        self.page = ""
        try:
            start = self._open_folder()
            self._start = start
            self._restorer = Restorer(job.folder, start, self._warn)
            parents = read_parents(job.folder)
            self._initial_weights = self._open_initial_weights(parents.get(WEIGHTS))
            if self._initial_weights is not None:
                parents.setdefault(WEIGHTS, self._initial_weights.parent)
            config = name_step(job.config, parents.get(WEIGHTS))
            self._job = job = job._replace(config=config)
            recorded = read_spec(job.folder)
            origins = job.config.get(ORIGINS)
            self._run_data = open_run_data(
                job.plugins, job.options, recorded, is_training=True, origins=origins
            )
            self._job = job = job.with_presets(self._run_data)
            check_options(job.options, self._run_data, origins)
            with waiting("Building the graph"), _naming_origin(job):
                self._plan = self._build_plan()
                if recorded is None:
                    check_own_updates(job, self._plan.graph.run)
                self._run_evaluator = RunEvaluator(job, self._run_data, self._plan, console)
                self._run_evaluator.prepare()
            self.total_steps = self._plan.total_steps
            self._steps_before = self._read_total_steps()
            self._best_metric = self._run_evaluator.best_metric()
            parent = parents.get(WEIGHTS) if start is None else None
            self._log = RunLog(
                job,
                self._run_data,
                self._plan,
                console,
                parent,
                self._initial_weights,
                self._peers,
            )
            self._hooks, self._summaries, self._writers = build_hooks(
                job,
                self._run_data,
                self._plan,
                console,
                self._run_evaluator.validate,
                self._best_metric,
            )
        except BaseException as error:
            self._end(error)
            raise

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], traceback: Any) -> None:
        self._end(error)

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
        job, plan, console = self._job, self._plan, self._console
        # See that the checkpoint fits the model, before anything is written.
        if self._start is not None:
            with plan.graph.tf_graph.as_default():
                check_model(job.folder, self._start)
        if self._initial_weights is not None:
            class_names = self._run_data.dataset.spec.class_names
            variables = step_builder_of(plan.graph.run).model_variables
            self._initial_weights.plan(variables, class_names)
        mode = plan.mode.value
        self._peers.join(shared_facts(dict(self.session_facts(), mode=mode)))
        # Describe the run in its folder and on the console, before the first step.
        self._log.begin(self._hooks)
        profiler = HookProfiler()
        loop = Loop(
            plan.graph,
            profiler.wrap(self._hooks),
            self.total_steps,
            plan.reader,
            self._writers,
            job.options.steps_per_call,
            job.pause_at,
            self._peers,
        )
        self._log.announce(self._hooks, self._describe_changes(), self._best_metric)
        # Make the session, restore it, and train.
        weights = self._initial_weights
        scaffold = tf.train.Scaffold(
            saver=plan.saver,
            init_feed_dict=weights.feeds(plan.graph.tf_graph) if weights else None,
            init_fn=lambda _, session: self._restore(session, loop),
        )
        console.start(self.total_steps, lambda: loop.step)
        try:
            config = self._peers.configure(session_config(plan.options))
            self._peers.start(config)
            result = loop.run(scaffold, config)
        except BaseException as error:
            console.stop()
            with contextlib.suppress(ToolkitError):  # the first failure is the one to report
                self._summaries.close()
            if isinstance(error, ToolkitError):
                self._log.fail(error, loop.step, loop.seconds)
            raise
        console.stop()
        self._summaries.close()
        times = loop.num_steps, loop.bare_secs, loop.due_secs
        for line in profiler.table(*times) if job.options.profile_hooks else ():
            console.log(line)
        self._log.end(result, profiler.ms_per_step(*times))
        return result

    def _restore(self, session, loop: Loop) -> None:
        """Restore a new session, after its initializers: variables, records, hooks, input."""
        checkpoint = self._restorer.newest_checkpoint()
        if checkpoint is None and self._initial_weights is not None:
            self._initial_weights.assign(session)
        self._restorer.restore(session, checkpoint, self._plan.saver, self.session_facts())
        if checkpoint is None:
            run = self._plan.graph.run
            names = {variable.op.name for variable in step_builder_of(run).model_variables}
            names -= set(self._initial_weights.names if self._initial_weights else ())
            read_split = self._run_data.prepare_split
            compute_initial_values(session, run, self._job.plugins, read_split, names)
        states = hook_state.load(checkpoint.path) if checkpoint else {}
        loop.restore_states(states)
        step = checkpoint.step if checkpoint else 0
        self._peers.begin(session, step)
        self._plan.reader.initialize(session, step)

    def train_and_test(self) -> Dict[str, Any]:
        """Train, test, and return the summary that the seal has, too.

        However the run ends, its page is written, and the plugins are notified.
        """
        try:
            summary = self._train_and_test()
        except (ToolkitError, KeyboardInterrupt):
            self.page = self._log.write_page()
            if self.page:
                self._console.log(f"page   {self.page}")
            try:
                self._notify_end()
            except ToolkitError as error:  # the first failure is the one to report
                self._console.log(f"warning: {error}")
            raise
        self.page = self._log.write_page()
        self._notify_end()
        for line in list_summary_lines(summary, self.page):
            self._console.record(line)
        return summary

    def _notify_end(self) -> None:
        """Call the hook `run_ended`, if the run has begun, and write the page again: the hook finds
        a page, and what it adds to the folder is on the last one.
        """
        if self._job.folder.is_new or not self._job.plugins.has_hook("run_ended"):
            return
        state = self._job.folder.state()
        try:
            self._job.plugins.call_hook(
                "run_ended",
                run=self._plan.graph.run,
                status=state["status"],
                reason=state.get("reason", ""),
            )
        finally:
            if self.page:
                self.page = self._log.write_page()

    def _train_and_test(self) -> Dict[str, Any]:
        result = self.train()
        pause_at = self._job.pause_at
        is_paused = pause_at is not None and not result.is_done and result.step >= pause_at
        if not is_paused:
            for options in self._schedules():
                self._log.note(describe_early_end(options, result.step, self.total_steps))
            self._log.note(self._evaluations.describe_better())
        try:
            test = None if is_paused else self.test()
        except (ToolkitError, KeyboardInterrupt) as error:
            self._log.fail_test(error)
            raise
        summary = self._log.finish(result, test)
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
        record, dataset = self._job.folder.state()["data"], self._run_data.dataset
        check_same_classes(record, dataset)
        if not self._job.allow_other_data:
            check_same_data(record, dataset, self._job.folder.file(LIST_FILE))

    def check_length(self) -> None:
        """Refuse another length at which the learning rate would jump, unless that is allowed.

        Raises:
            UsageError: names both rates.
        """
        self._describe_other_length(self._job.allow_other_rate)

    def check_steps_left(self) -> None:
        """Refuse a branch from the last step.

        Raises:
            UsageError: names the step.
        """
        if self._start is not None and self._start.step >= self.total_steps:
            raise UsageError(
                f"No step is left after step {self._start.step}: the run ends at step "
                f"{self.total_steps}.",
                hint="Branch off an earlier step, or set a larger --steps or --epochs.",
            )

    def is_finished(self) -> bool:
        """Whether the run is finished, and its newest checkpoint at the target."""
        if self._start is None or self._job.folder.state()["status"] != FINISHED:
            return False
        return self._start.step >= self.total_steps

    def close(self) -> None:
        """Close the evaluator and unlock the folder."""
        if self._run_evaluator is not None:
            self._run_evaluator.close()
        self._console.close_file()
        self._job.folder.unlock()

    def _end(self, error: Optional[BaseException]) -> None:
        """Close, and end the other processes, if they have not ended.

        Args:
            error: that ends this one, or None.
        """
        self.close()
        self._peers.end(error)

    def _open_folder(self) -> Optional[Checkpoint]:
        """Lock the folder of an existing run, and find the checkpoint to continue from."""
        folder = self._job.folder
        if folder.is_new:
            return None
        folder.lock()
        with waiting(f"Opening {folder}"):  # its files are hashed
            return folder.checkpoints.newest(self._warn)

    def _open_initial_weights(self, recorded: Optional[Parent]) -> Optional[InitialWeights]:
        """The weights to begin with; None where a checkpoint of the run has all that is needed.

        Args:
            recorded: those with which the run began, if it did.
        """
        if self._start is not None:
            return None
        return open_initial_weights(self._job.options, recorded, self._warn)

    def _build_plan(self) -> TrainingPlan:
        job = self._job
        builder = self._plan_builder(self._peers.replica(job.options.batch_size))
        if job.folder.is_new:
            plan = builder.build()
        else:
            was_compiled = job.folder.state().get("xla", False)
            plan = builder.build(self._start.step if self._start else 0, was_compiled)
        return self._peers.complete(
            plan, lambda replica, first: self._plan_builder(replica).build_like(first)
        )

    def _plan_builder(self, replica: Replica) -> PlanBuilder:
        job, run_data = self._job, self._run_data
        return plan_builder(
            job,
            run_data,
            replica,
            self._peers.plan_options(job.options),
            self._peers.strategy,
            lambda graph: build_plugin_hooks(job.plugins, graph, run_data),
        )

    def _read_total_steps(self) -> Optional[int]:
        """The length of the run in its last session; None if it has none."""
        folder = self._job.folder
        return None if folder.is_new else folder.state().get("total_steps")

    def _describe_other_length(self, is_allowed: bool) -> str:
        if self._start is None or self._steps_before is None:
            return ""
        step, before, now = self._start.step, self._steps_before, self.total_steps
        texts = [
            check_other_length(options, step, before, now, is_allowed)
            for options in self._schedules()
        ]
        return "; ".join(text for text in texts if text)

    def _schedules(self) -> List[CoreOptions]:
        """The run's options with each schedule that a learning rate of the step follows."""
        names = step_builder_of(self._plan.graph.run).schedules()
        return [self._job.options.model_copy(update={"schedule": name}) for name in names]

    def _describe_changes(self) -> List[str]:
        """Where the weights are from, and how the learning rate differs from the session before."""
        weights = self._initial_weights.describe() if self._initial_weights else []
        return [*weights, self._describe_other_length(True)]

    @property
    def _evaluations(self) -> RunEvaluator:
        assert self._run_evaluator is not None
        return self._run_evaluator

    def _warn(self, text: str) -> None:
        self._console.log("warning: " + text)


@contextlib.contextmanager
def _naming_origin(job: Job) -> Iterator[None]:
    """Let an error of an option say where its value is from."""
    try:
        yield
    except UsageError as error:
        origin = (job.config.get(ORIGINS) or {}).get(error.option)
        if origin:
            error.message = f"Option '{error.option}' ({origin}): {error.message}"
        raise
