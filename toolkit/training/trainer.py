"""Train: from resolved options to a run folder that holds a trained model, and its summary."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .. import autopsy
from ..compat import tf
from ..display.console import Console, download_progress
from ..errors import DataError, DivergedError, InterruptedRun, RetryError, ToolkitError, UsageError
from ..graph.run import Run
from ..graph.step_strategy import PLAIN, PlainStep
from ..graph.session_config import session_config, threads_in_use
from ..inference.evaluator import Evaluator
from ..inference.report import report
from ..options import Options
from ..plugins import Plugins
from ..run_data import RunData, open_run_data
from ..storage.checkpoint_diff import RestoreOptions
from ..storage.commit_log import Checkpoint
from ..storage.manifest import FINISHED
from ..storage.run_folder import RunFolder
from . import provenance
from .hooks import hook_state
from .hooks.base import Every, Hook, PluginHook
from .hooks.checkpoints import Checkpoints
from .hooks.guard import Guard
from .hooks.hook_profiler import HookTimes
from .hooks.metrics import Metrics, Summaries
from .hooks.profile import Profile
from .hooks.stop import Stop
from .hooks.validation import Target, Validation
from .loop import Clock, Ended, Loop, Outlets
from .restore import Restoring
from .setup import check_examples, examples_per_step, training_reader, training_run
from .step_mode import Stepper, Stepping

DEFAULT_SUMMARY_STEPS = 100
DEFAULT_CHECKPOINT_SECS = 60.0


class Job(NamedTuple):
    """What to train: the plugins, the options, where, and how it was asked for."""

    plugins: Plugins
    options: Options
    folder: RunFolder
    config: Dict[str, Any]  # what config.json will hold
    argv: Sequence[str]
    pause_at: Optional[int] = None  # leave off at this step, as if interrupted
    changes: RestoreOptions = RestoreOptions()  # of the model, that a resume may make
    other_data: bool = False  # whether a resume may go on with other data


def evaluate_every(options: Any, total: int) -> int:
    """On which multiples of steps the validation split is evaluated: a function of the options
    alone, so that a run that was killed evaluates as one that was not.
    """
    tenth = max(1, math.ceil(total / 10))
    return options.evaluate_steps or options.checkpoint_steps or tenth


class Trainer:
    """One training run in one process, which holds its folder. `train` may be called once."""

    def __init__(self, job: Job, console: Console):
        self._job = job
        self._console = console
        self._options = options = job.options
        self._folder = job.folder
        self._start: Optional[Checkpoint] = None
        self._evaluator: Optional[Evaluator] = None
        self._facts: Optional[Dict[str, Any]] = None
        try:
            if not job.folder.is_new:
                job.folder.lock()
                self._start = job.folder.checkpoints.newest(self._warn)
            self._restoring = Restoring(job.folder, self._start, self._warn)
            progress = download_progress(console)
            self._run_data: RunData = open_run_data(job.plugins, options, progress)
            self._build()
            self._target = self._make_target()
        except BaseException:
            self.close()
            raise

    def _make_target(self) -> Optional[Target]:
        best = self._options.best_metric
        return Target(best, self.evaluator.metric_names) if best else None

    def _build(self) -> None:
        options, run_data = self._options, self._run_data
        check_examples(options, len(run_data.splits["train"]))
        stepper = Stepper(self._job.plugins, options, self._make_reader, self._make_run)
        made = stepper.build(*self._begun())
        try:
            # In the plain loop first, where what a plugin cannot do with a loop is found out.
            self._take(made.plain or made)
        except UsageError:
            raise
        except Exception as error:  # a plugin's hook that makes ops of tensors within the loop
            if made.graph.loop is None:
                raise
            made = stepper.single(error)
            self._take(made)
        if made.plain is not None:
            self._take(made)

    def _take(self, stepping: Stepping) -> None:
        """Train with this graph: make the saver and the hooks for it."""
        self._stepping = stepping
        self._graph, self._reader = stepping.graph, stepping.reader
        self._session_options = stepping.options
        self.total = self._graph.run.total_steps
        with self._graph.tf_graph.as_default():
            # Retention is ours: a Saver deletes the old before the new is committed, and forgets
            # on restart.
            self._saver = tf.train.Saver(max_to_keep=0, save_relative_paths=True)
            self._hooks = self._make_hooks()

    def _begun(self):
        """The newest checkpoint's step, and whether XLA compiled the steps so far; 0 and None for a
        new run.
        """
        if self._folder.is_new:
            return 0, None
        compiled = self._folder.read_manifest().get("xla", False)
        return self._start.step if self._start else 0, compiled

    def _make_reader(self):
        return training_reader(self._options, self._run_data)

    def _make_run(self, reader, strategy: PlainStep = PLAIN) -> Run:
        return training_run(self._options, self._run_data, self._folder.path, reader, strategy)

    @property
    def evaluator(self) -> Evaluator:
        """Made when first needed, then kept."""
        if self._evaluator is None:
            self._evaluator = Evaluator(
                self._job.plugins,
                self._session_options,
                self._run_data.spec,
                total_steps=self.total,
                folder=self._folder.path,
                splits=self._run_data.prepare_split,
            )
        return self._evaluator

    # -------------------------------------------------------------------------------------- hooks

    def _make_hooks(self) -> List[Hook]:
        options, folder, graph = self._options, self._folder, self._graph
        self._validation = None
        scalars = dict(graph.losses)
        scalars.update(graph.logged)
        every_log = Every(options.log_steps)
        hooks: List[Hook] = [
            Clock(graph, lambda session: int(session.run(graph.run.global_step))),
            Guard(graph.counters, options.log_steps, self._record, self._console.log),
            Metrics(
                scalars,
                examples_per_step(options),
                every_log,
                self._record,
                folder.speed.append,
                self._console.show_metrics,
            ),
        ]
        hooks += self._plugin_hooks()
        summary_steps = options.summary_steps
        if summary_steps is None and options.summary_secs is None:
            summary_steps = DEFAULT_SUMMARY_STEPS
        self._summaries = Summaries(
            folder,
            scalars,
            examples_per_step(options),
            Every(summary_steps, options.summary_secs),
            graph.tf_graph,
        )
        hooks.append(self._summaries)
        if options.profile_steps:
            hooks.append(Profile(folder.file("profile"), options.profile_steps))
        hooks.append(self._checkpoint_hook())
        if options.evaluate and self._run_data.splits.get("validation"):
            self._validation = Validation(
                folder,
                evaluate_every(options, self.total),
                self._validate,
                options.early_stopping,
                self._record_evaluation,
            )
            hooks.append(self._validation)
        elif options.best_metric:
            raise UsageError(
                "There is no validation split to choose the best checkpoint by.",
                hint="Set --validation-share, or --best-metric none.",
            )
        hooks.append(Stop(options.max_secs))
        return hooks

    def _plugin_hooks(self) -> List[Hook]:
        plugins, made = self._job.plugins, []
        graph = self._graph
        answers = plugins.call_hook(
            "session_hooks",
            model=graph.model,
            losses=graph.losses,
            run=graph.run,
            splits=self._run_data.prepare_split,
            features=graph.step.batch.features,
            labels=graph.step.batch.labels,
            outputs=graph.step.outputs,
        )
        for hook in [hook for answer in answers for hook in answer or ()]:
            if not isinstance(hook, tf.train.SessionRunHook):
                raise ToolkitError(
                    f"Hook 'session_hooks' of a plugin returned {hook!r}.",
                    hint="It returns a list of tf.train.SessionRunHooks.",
                )
            made.append(PluginHook(hook, plugins.owner(hook) or plugins.model.name))
        return made

    def _checkpoint_hook(self) -> Checkpoints:
        options = self._options
        secs = options.checkpoint_secs
        if secs is None and options.checkpoint_steps is None:
            secs = DEFAULT_CHECKPOINT_SECS
        every = [Every(options.checkpoint_steps, secs)]
        if options.evaluate and self._run_data.splits.get("validation"):
            every.append(Every(evaluate_every(options, self.total)))
        return Checkpoints(self._saver, self._folder, every, options, self._committed)

    def _committed(self, step: int, path: str) -> None:
        self._job.plugins.call_hook("checkpoint_saved", run=self._graph.run, step=step, path=path)
        if self._validation is not None:
            self._validation.committed(step, path)

    def _validate(self, path: str) -> Dict[str, float]:
        self.evaluator.load(path)
        split = self._run_data.prepare_split("validation")
        evaluation = self.evaluator.evaluate(split, self._options.eval_batch_size)
        for line in evaluation.lines:
            self._console.log("validation  " + line)
        return evaluation.metrics

    def _warn(self, text: str) -> None:
        self._console.log("warning: " + text)

    def _record(self, record: Dict[str, Any]) -> None:
        self._folder.metrics.append(record)

    def _record_evaluation(self, record: Dict[str, Any]) -> None:
        self._record(record)
        measures = {n: v for n, v in record.items() if isinstance(v, float)}
        self._summaries.write(
            record["step"], {"validation/" + name: value for name, value in measures.items()}
        )
        told = "  ".join(f"{n} {v:.4f}" for n, v in sorted(measures.items()))
        self._console.log(f"step {record['step']}  validation  {told}")

    # -------------------------------------------------------------------------------------- train

    def check_data(self) -> None:
        """Refuse to go on with other data than the run began with, unless that is allowed. Raises
        DataError.
        """
        if self._folder.is_new or self._job.other_data:
            return
        known = self._folder.read_manifest()["data"]["sha256"]
        found = self._run_data.dataset.sha256
        for name in sorted(set(known) | set(found)):
            if known.get(name) != found.get(name):
                raise DataError(
                    f"The data is not the run's: {name} has SHA-256 {found.get(name)}, "
                    f"expected {known.get(name)}.",
                    hint="Put the same files back (--data says where), allow it with --allow data, "
                    "or start a new run.",
                )

    def nothing_left(self) -> bool:
        """Whether the run is finished, and its newest checkpoint at the target."""
        if self._start is None or self._folder.read_manifest()["status"] != FINISHED:
            return False
        return self._start.step >= self.total

    def train_and_test(self) -> Dict[str, Any]:
        """Train, test, and return the summary that is also kept in the manifest."""
        ended = self.train()
        summary = {
            "run": str(self._folder),
            "plugin": self._job.plugins.model.name,
            "steps": ended.step,
            "seconds": round(ended.seconds, 2),
            "reason": ended.reason,
            "finished": ended.is_done,
            "best": self._folder.checkpoints.best(),
            "test": None if self._is_paused(ended) else self.test(),
        }
        told = dict(summary, run=".")
        if ended.is_done:  # told last: what a kill cut short is made up for by a resume
            metrics = self._folder.metrics.position()._asdict()
            self._folder.update_manifest(status=FINISHED, summary=told, metrics=metrics)
        else:
            self._folder.update_manifest(summary=told)
        self._job.plugins.call_hook("run_finished", run=self._graph.run, summary=summary)
        return summary

    def _is_paused(self, ended: Ended) -> bool:
        pause_at = self._job.pause_at
        return pause_at is not None and not ended.is_done and ended.step >= pause_at

    def train(self) -> Ended:
        """Train to the end, from the newest checkpoint that is whole. See `Loop.run` for errors."""
        if self._validation is not None:
            self._validation.target = self._target
        with self._graph.tf_graph.as_default():
            self._restoring.fit(self._job.changes)
        self._prepare_folder()
        outlets = Outlets(self._record, self._summaries.add)
        loop = Loop(
            self._graph,
            self._hooks,
            self.total,
            self._console.log,
            self._reader,
            outlets,
            self._options.steps_per_call,
            self._job.pause_at,
        )
        self._loop = loop
        times = HookTimes(self._hooks) if self._options.profile_hooks else None
        self._announce(loop)
        scaffold = tf.train.Scaffold(saver=self._saver, init_fn=self._restore)
        self._console.start(self.total, lambda: loop.step)
        try:
            ended = loop.run(scaffold, session_config(self._session_options))
        except BaseException as error:
            self._console.stop()
            with contextlib.suppress(ToolkitError):  # what went wrong first is told
                self._summaries.close()
            if isinstance(error, ToolkitError):
                self._explain(error, loop)
            raise
        self._console.stop()
        self._summaries.close()
        for line in times.lines(loop.made, loop.bare_secs, loop.due_secs) if times else ():
            self._console.log(line)
        status = "trained" if ended.is_done else "stopped"
        self._tell_end(status, ended.step, ended.reason)
        return ended

    def _tell_end(self, status: str, step: int, reason: str) -> None:
        rows = self._folder.checkpoints.list()
        committed = rows[-1].step if rows else 0
        self._folder.update_manifest(status=status, step=step, reason=reason, committed=committed)

    def _restore(self, scaffold, session) -> None:
        """Runs on each new session, after the initialisers: checkpoint, records of it, input."""
        checkpoint = self._restoring.checkpoint()
        self._restoring.restore(session, checkpoint, self._saver, self.session_facts())
        if self._validation is not None:
            is_other = self._restoring.is_of_other_model(checkpoint)
            self._validation.is_other_model = is_other
        self._loop.set_states(hook_state.load(checkpoint.path) if checkpoint else {})
        self._reader.initialize(session, checkpoint.step if checkpoint else 0)

    def session_facts(self) -> Dict[str, Any]:
        """What the chain tells of this session: all that its bits depend on; read once."""
        if self._facts is None:
            facts = provenance.of_chain(self._job.plugins, self._run_data, self._job.config)
            facts["machine"][provenance.THREADS] = threads_in_use(self._session_options)
            self._facts = dict(facts, compiled=self._stepping.compiled)
        return self._facts

    def _prepare_folder(self) -> None:
        """Write what describes the run, before its first step."""
        folder, plugins, run_data = self._folder, self._job.plugins, self._run_data
        first = folder.is_new
        if first:
            folder.create(self._job.config)
        else:
            folder.write_config(self._job.config)
        told = provenance.of_session(
            self._job.argv, [hook.name for hook in self._hooks], self.total
        )
        told.update(xla=self._stepping.compiled, metrics=None)
        if first:
            told.update(provenance.of_run(plugins, run_data))
        elif self._job.other_data:
            told["data"] = provenance.of_run(plugins, run_data)["data"]
        folder.update_manifest(**told)

    def _announce(self, loop: Loop) -> None:
        say, run_data = self._console.log, self._run_data
        counts = ", ".join(f"{len(s)} {n}" for n, s in run_data.splits.items() if len(s))
        say(f"run    {self._folder}")
        say(f"data   {run_data.dataset.name} ({counts}; {_shape(run_data.spec)})")
        say(f"hooks  {' > '.join(hook.name for hook in self._hooks)}")
        slow = [h.name for h in self._hooks if isinstance(h, PluginHook) and h.on_every_step]
        notes = [self._stepping.note, self._restoring.sentence()] + self._since_last_session()
        for note in notes:
            if note:
                say(f"note   {note}")
        if slow:
            say(
                "note   one step a call, which costs speed; called on every step: "
                f"{', '.join(slow)}"
            )

    def _explain(self, error: ToolkitError, loop: Loop) -> None:
        """Complete what the loop could not know: the folder, and how to go on."""
        status = "failed"
        if isinstance(error, InterruptedRun):
            status = "interrupted"
            error.message = f"Interrupted; step {loop.step} is saved in {self._folder}."
            error.hint = f"Go on with: toolkit resume {self._folder}"
        elif isinstance(error, DivergedError):
            status = "diverged"
            with contextlib.suppress(ToolkitError):
                self._record(
                    {
                        "step": loop.step,
                        "kind": "event",
                        "event": "diverged",
                        "message": error.message,
                    }
                )
        elif isinstance(error, RetryError) and "toolkit resume" not in error.hint:
            error.hint = f"Go on with: toolkit resume {self._folder}"
        with contextlib.suppress(ToolkitError):  # the folder may be what failed
            self._tell_end(status, loop.step, error.message)
        if isinstance(error, DivergedError):
            self._examine(loop.step)

    def _examine(self, step: int) -> None:
        """Say where a divergence began, by making the step behind the last good one again."""
        try:
            start = self._folder.checkpoints.newest()
            if (start.step if start else 0) != step:
                return  # its state could not be saved: there is nothing to begin from
            found = autopsy.examine(
                self._job.plugins,
                self._make_reader,
                self._make_run,
                start.path if start else None,
                step,
            )
            if found is not None:
                name = f"autopsy-{step}"
                autopsy.write(found, self._folder.make_subfolder("reports", name))
        except Exception as error:  # the divergence is what counts
            self._warn(f"the autopsy failed: {type(error).__name__}: {error}")
            return
        for line in found.lines() if found else [autopsy.NOT_REPRODUCED]:
            self._console.log("autopsy  " + line)
        if found is not None:
            self._console.log(f"autopsy  The batch is in {self._folder}/reports/{name}")

    def _since_last_session(self) -> List[str]:
        """What a resume has to tell where its bits will not be those of an uninterrupted run."""
        sessions = self._folder.commits.sessions()
        if not sessions:
            return []
        changed = provenance.changed_since(sessions[-1], self.session_facts())
        return [f"exactness ends here: {'; '.join(changed)}"] if changed else []

    # --------------------------------------------------------------------------------- afterwards

    def test(self) -> Optional[Dict[str, Any]]:
        """Evaluate the test split with the best checkpoint, or the last one without --best-metric."""
        split = self._run_data.prepare_split("test")
        if split is None or not self._options.evaluate:
            return None
        which = "best" if self._target is not None else "last"
        if which == "best" and not self._folder.checkpoints.best():
            which = "last"
        checkpoint = self._folder.checkpoints.find(which)
        self.evaluator.load(checkpoint.path)
        result = report(
            self._job.plugins, self.evaluator, self._folder, "test", split, checkpoint.step
        )
        result["checkpoint"] = which
        return result

    def close(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()
        self._folder.unlock()


def _shape(spec) -> str:
    text = "x".join(map(str, spec.shape)) + " " + spec.dtype
    return text + (f", {spec.num_classes} classes" if spec.num_classes else ", unlabelled")
