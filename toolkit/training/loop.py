"""The session of a run: one step, one commit, and the state that the session gets at a resume.

`MonitoredTrainingSession` makes the session, restores it through the Scaffold (`Loop.restore`) and
calls one hook, the runner (hooks/runner.py); its built-in hooks are off.

One step, from its beginning to its end (paths below toolkit/):

1. `Loop._run_to_next_due_step` asks every hook for its next due step, and makes the steps before it
   without hooks, many in one session call (training/step_runner.py), and counts them.
2. The due step runs in the monitored session, with the tensors that the due hooks fetch
   (training/hooks/runner.py). Its train op was built in graph/build.py: batch, forward pass, loss,
   gradients, guard, updates, global step. `Loop.count` compares the count with the graph's.
3. `guard`, `metrics`: report skipped steps; record and show losses (training/hooks/guard.py,
   metrics.py).
4. The plugins' hooks, then `summaries` (training/hooks/summaries.py) and `profile`.
5. `checkpoint` (training/hooks/timed.py) says when `Loop.commit` saves and commits; the loop does
   where it ends in another step.
6. `evaluation`: evaluates the committed checkpoint, moves `best`, asks for early stopping
   (training/hooks/validation.py, inference/evaluator.py).
7. `stop`: asks for the end at the last step or after --max-secs (training/hooks/timed.py).

A resume: `Trainer._open` has chosen the checkpoint, and `Trainer._train` has seen that it fits the
model. `Loop.restore` gives their state to variables, hooks, folder, other processes and input; then
`Loop.begin_session` lets the hooks begin, of which `evaluation` repeats that of the checkpoint.
"""

from __future__ import annotations

import contextlib
import enum
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

from ..compat import summarize_tf_error, tf
from ..display.console import Console
from ..errors import CheckpointError, DivergedError, InterruptedRun, RetryError, ToolkitError
from ..files import plain_path
from ..graph.session_config import session_config
from ..storage.checkpoint_reader import fingerprint
from .faults import diverged, translated_errors
from .hooks import hook_state
from .hooks.base import NEVER
from .hooks.runner import ASKED, HookRunner, RunHook
from .hooks.summaries import Summaries
from .initial_weights import assign_initial_values
from .peers import STEP
from .session_record import TrainResult
from .signals import FirstSignal
from .step_runner import CallResult, StepRunner, parse_refusal, refusal_fetches

if TYPE_CHECKING:
    from .trainer import Trainer

CLOSE_SECS = 10


class StopKind(enum.Enum):
    """How far a stop has come."""

    DONE = "done"  # the run is complete after the step under way
    REQUESTED = "requested"  # one more step is to be made and saved
    PAUSING = "pausing"  # that step is under way or made; the run can continue later


def open_session(
    master: str,
    scaffold: tf.train.Scaffold,
    config: tf.ConfigProto,
    hooks: Sequence[tf.train.SessionRunHook] = (),
) -> Any:
    """A `MonitoredTrainingSession` without hooks of its own."""
    return tf.train.MonitoredTrainingSession(
        master=master,
        scaffold=scaffold,
        hooks=hooks,
        config=config,
        save_checkpoint_secs=None,
        save_checkpoint_steps=None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
        stop_grace_period_secs=CLOSE_SECS,
    )


class Loop:
    """The training loop, and its state that hooks may read: `step`, the number of steps so far,
    `target`, the last one, and `session`, the raw session. `run` may be called once. Of the hooks,
    `summaries` writes TensorBoard events.
    """

    def __init__(
        self, trainer: Trainer, hooks: Sequence[RunHook], summaries: Summaries, console: Console
    ):
        self._trainer, self._summaries, self._console = trainer, summaries, console
        self._job, self._peers, self._plan = trainer.job, trainer.peers, trainer.plan
        self._folder, self._weights = trainer.job.folder, trainer.initial_weights
        self._graph, self.reader = trainer.plan.graph, trainer.plan.reader
        self.tf_graph = self._graph.tf_graph
        self.step = trainer.start.step if trainer.start else 0
        self.target = trainer.total_steps
        self.session: Any = None
        # What the loop needs of a step with hooks.
        self.fetches = [self._graph.step_after, list(self._graph.averages)]
        self.fetches += refusal_fetches(self._graph)
        self._hooks = HookRunner(hooks, self)
        self._until = min(self._job.pause_at or self.target, self.target)
        self._committed_step: Optional[int] = None
        self._stop: Optional[StopKind] = None
        self._stop_reason = ""
        self._signum: Optional[int] = None
        self._has_begun = False
        self._step_runner: Any = None
        self._start: Optional[float] = None
        self._deadline = NEVER  # from which the next step is due
        self._num_steps, self._bare_secs, self._due_secs = 0, 0.0, 0.0

    # ----------------------------------------------------------------------------------- the loop

    def run(self) -> TrainResult:
        """Train to the target or to a stop.

        A signal raises InterruptedRun, and a step that the guard refused DivergedError, once the
        state before is saved. Data that end or cannot be read raise DataError, a failure of the
        machine RetryError, and any other failure ToolkitError.
        """
        master, config = self._peers.start(session_config(self._plan.options))
        self._start = time.monotonic()
        scaffold = tf.train.Scaffold(
            saver=self._plan.saver,
            init_feed_dict=self._weights.feeds(self.tf_graph) if self._weights else None,
            init_fn=lambda _, session: self.restore(session),
        )
        with self.tf_graph.as_default(), FirstSignal(self.interrupt), translated_errors(
            self
        ), open_session(master, scaffold, config, [self._hooks]) as monitored:
            try:
                while self.step < self._until and self._stop in (None, StopKind.REQUESTED):
                    monitored.run_step_fn(self._run_to_next_due_step)
                    if monitored.should_stop():  # by a thread of a hook from elsewhere
                        self.request_stop(ASKED)
            except BaseException as error:
                self._end(error)
                raise
            self._end(None)
        if self._signum is not None:
            raise InterruptedRun("", signum=self._signum)
        is_last = self.is_last(self.step)
        is_done = is_last or self._stop is StopKind.DONE
        reason = f"{'reached' if is_done else 'paused at'} step {self.step}"
        if self._stop is not None and not is_last:
            reason = self._stop_reason
        return TrainResult(self.step, self.seconds, reason, is_done)

    @property
    def seconds(self) -> float:
        """The time since the loop began; 0 before."""
        return 0.0 if self._start is None else time.monotonic() - self._start

    def _end(self, error: Optional[BaseException]) -> None:
        """Commit, unless a fault may have left half a step, and tell the hooks of the end."""
        if self.session is not None:
            with translated_errors(self), self._peers.explained():
                try:
                    # The guard keeps every variable at the last good step.
                    if error is None or isinstance(error, DivergedError):
                        self.commit(self.step)
                finally:
                    self._hooks.tell("on_stop", self.session, self.step, error)

    # ----------------------------------------------------------------------------------- one step

    def _run_to_next_due_step(self, step_context: Any) -> None:
        with translated_errors(self), self._peers.explained():  # here: outside, TensorFlow retries
            start = time.monotonic()
            # Steps without hooks, many per call, up to the one before the next due step.
            self._run_bare_steps()
            bare = time.monotonic()
            self._bare_secs += bare - start
            # One step with hooks: it is counted, then each due hook runs, in the order printed.
            if self.step < self._until:
                if self._stop is StopKind.REQUESTED:
                    self._stop = StopKind.PAUSING
                with self._peers.calling(STEP):
                    step_context.run_with_hooks(self._graph.train_op)
                self._due_secs += time.monotonic() - bare

    def _run_bare_steps(self) -> None:
        until = int(min(self._hooks.next_due_step(self.step), self._until)) - 1
        self._deadline = self._hooks.deadline()
        while self.step < until and not self._is_due_early():
            try:
                result = self._step_runner.run(until - self.step)
            except tf.errors.OpError:  # the call may have made some of its steps
                if self._graph.loop is not None:
                    with contextlib.suppress(tf.errors.OpError, RuntimeError):  # a lost session
                        self.step = int(self.session.run(self._graph.run.global_step))
                raise
            self.collect()
            self.count(result)

    def _is_due_early(self) -> bool:
        """Whether a step with hooks is due at once: by the time, or since a stop was requested."""
        return self._stop is not None or time.monotonic() >= self._deadline

    def should_interrupt(self) -> bool:
        """Whether a call that makes steps until others are ready should end early."""
        self.collect()
        return self._is_due_early()

    def collect(self) -> None:
        """Wait until all processes have made the call, and stop if one of them was asked to."""
        for signum, process in self._peers.collect():
            self._signum = signum
            self.request_last_step(f"{process} was interrupted by signal {signum}")

    def count_due_step(self, values: Sequence[Any]) -> None:
        """Count a step with hooks, from the values of `fetches`."""
        step_after, _, *refusal = values
        self.collect()
        self.count(CallResult(int(step_after), 1, parse_refusal(self._graph, refusal)))

    def count(self, result: CallResult) -> None:
        """Count the steps of a call. Raises DivergedError if the guard refused one of them,
        ToolkitError if the train op moved the global step by another number.
        """
        expected = self.step + result.num_steps
        step = expected if result.step is None else result.step
        if result.refusal is not None:
            self.step = step
            raise diverged(step, result.refusal, result.refused_step)
        if step != expected:
            raise ToolkitError(
                f"The train op moved the global step to {step}, expected {expected}"
                f"{self._job.plugins.describe_place('optimize')}.",
                hint="One step of 'optimize' advances run.global_step by exactly one.",
            )
        self._num_steps += result.num_steps
        self.step = step

    # --------------------------------------------------------------------------------- one commit

    def commit(self, step: int) -> None:
        """Save and commit the state of `step`, unless that is done already.

        A kill at any moment leaves this checkpoint or the one before: the entry in the commit log
        comes after all files, and older checkpoints are deleted after the entry. Raises
        ToolkitError if the replicas differ, or what was written cannot be read; RetryError if the
        folder cannot be written.
        """
        if step == self._committed_step:
            return
        # The state has to be the same in all processes.
        self._peers.check_equal(self.session, step)
        # The tensors. No meta graph: it would dominate the time and the size of a save.
        folder, options = self._folder, self._job.options
        path = folder.checkpoints.prefix(step)
        try:
            with folder.writing(), plain_path(path) as plain:
                self._plan.saver.save(
                    self.session, plain, write_meta_graph=False, latest_filename="checkpoint"
                )
        except (tf.errors.AbortedError, tf.errors.UnavailableError):
            raise  # a lost session
        except (tf.errors.OpError, ValueError) as error:  # ValueError: where there is no folder
            raise folder.write_error(summarize_tf_error(str(error))) from error
        # What the hooks wrote, and what they remember.
        self._hooks.tell("on_commit")
        states = self._hooks.states()
        if states:
            with folder.writing():
                hook_state.save(path, states)
        # The entry. Only then older checkpoints go, but for the best one.
        keep, hours = options.keep_checkpoints, options.keep_every_hours
        end = self._stop_reason if self._stop is StopKind.DONE else ""  # which a resume must know
        folder.checkpoints.commit(step, time.time(), fingerprint(path), keep, hours, end)
        self._committed_step = step
        # Who waits for it: plugins, then hooks, of which `evaluation` evaluates it next.
        self._job.plugins.call_hook("checkpoint_saved", run=self._graph.run, step=step, path=path)
        self._hooks.tell("on_committed", step, path)

    # --------------------------------------------------------------------------------- one resume

    def restore(self, session: tf.Session) -> None:
        """Give the session the state of the newest intact checkpoint, or that of the beginning.

        It is called after the initializers of the variables. Then TensorFlow initializes what no
        checkpoint has, such as local variables, and `begin_session` tells the hooks. Raises
        RetryError for a second session, with which TensorFlow replaces one that was lost before the
        first step: a resume continues, as after a kill.
        """
        trainer, folder, checkpoint = self._trainer, self._folder, self._trainer.start
        if self._has_begun:
            raise RetryError(f"The session was lost at step {self.step}.")
        self._has_begun = True
        # The variables of the checkpoint. Damage to it was reported.
        if checkpoint is not None:
            try:
                with plain_path(checkpoint.path) as path:
                    self._plan.saver.restore(session, path)
            except (tf.errors.AbortedError, tf.errors.UnavailableError):
                raise  # a lost session
            except (tf.errors.OpError, ValueError) as error:  # ValueError: its files are gone
                raise CheckpointError(
                    f"{checkpoint.path} cannot be restored: {summarize_tf_error(str(error))}."
                ) from error
        # The hooks' memory, which one may refuse: then the run stays as it is.
        self._hooks.set_states(hook_state.load(checkpoint.path) if checkpoint else {})
        # The folder: an entry of this session; what came after the checkpoint goes.
        warn, facts = self._console.warn, trainer.log.session_facts()
        folder.write_config(self._job.config)
        folder.checkpoints.begin_session(checkpoint, warn, **facts)
        # At the beginning, the values of --init-from, and those that are computed from the data.
        if checkpoint is None:
            assign_initial_values(trainer, session, self._graph.run)
        # The other processes, and the input, at its position.
        self._peers.begin(session, self.step)
        self.reader.initialize(session, self.step)

    def begin_session(self, session: tf.Session) -> None:
        """Begin in the session whose state `restore` has given."""
        step = int(session.run(self._graph.run.global_step))
        self.session = session
        self.step = self._committed_step = step  # step 0 needs no file
        in_memory, steps_per_call = self.reader.in_memory, self._job.options.steps_per_call
        self._step_runner = self._peers.open_runner(session, self._graph, self) or StepRunner(
            session, self._graph, in_memory, steps_per_call, peers=self._peers
        )
        self._hooks.tell("on_restore", session, step)
        if self._trainer.end is not None:
            self.request_stop(self._trainer.end)

    # ----------------------------------------------------------------------------------- stopping

    def request_stop(self, reason: str) -> None:
        """End after the step that is under way: the run is done. The first reason is kept."""
        if self._stop is None:
            self._stop_reason = reason
        if self._stop in (None, StopKind.REQUESTED):
            self._stop = StopKind.DONE

    def request_last_step(self, reason: str) -> None:
        """Make one more step, and pause when it is saved. The run can continue later."""
        if self._stop is None:
            self._stop, self._stop_reason = StopKind.REQUESTED, reason

    def interrupt(self, signum: int) -> None:
        """Make one more step, save it, and end as the signal asks."""
        self._signum = signum
        self.request_last_step(f"interrupted by signal {signum}")

    def is_last(self, step: int) -> bool:
        """Whether the run is done with this step: every hook is due on it."""
        return step >= self.target

    def is_leaving(self, step: int) -> bool:
        """Whether training ends after this step, the run's last or not: it has to be saved."""
        return self._stop is StopKind.PAUSING or step >= self._until

    # ------------------------------------------------------------------------------ for the hooks

    def log(self, text: str) -> None:
        """Show one line on the console."""
        self._console.log(text)

    def record(self, values: Dict[str, Any]) -> None:
        """Add a record to metrics.jsonl: `step`, `kind` ("event") and what there is to keep."""
        self._folder.metrics.append(values)

    def summarize(self, step: int, summary: tf.Summary) -> None:
        """Add a summary, an image for example, to the TensorBoard events of `step`."""
        self._summaries.write(step=step, summary=summary)

    def summarize_scalars(self, step: int, scalars: Dict[str, float]) -> None:
        """Add numbers by name to the TensorBoard events of `step`."""
        rows = [tf.Summary.Value(tag=n, simple_value=float(v)) for n, v in scalars.items()]
        self.summarize(step, tf.Summary(value=rows))

    def assign_sums(self, rows: Any) -> None:
        """Give the sums of the steps' scalars a value, in all processes; see `StepSums.rows`."""
        self._peers.assign_sums(self.session, self._graph.sums, rows)

    def list_costs(self) -> List[str]:
        """The lines of a table: what steps without hooks, those with them, and each hook took."""
        hooks = self._hooks
        with_hooks = max(0.0, self._due_secs - hooks.secs_in_steps)
        secs = {"bare steps": self._bare_secs, "steps with hooks": with_hooks, **hooks.seconds}
        width, total = max(map(len, secs)), max(sum(secs.values()), 1e-9)
        return [f"{'':<{width}}  ms per step   share"] + [
            f"{name:<{width}}  {1000 * x / max(self._num_steps, 1):11.4f}  {x / total:6.1%}"
            for name, x in secs.items()
        ]
