"""The training loop: steps without hooks up to the next due step, that step with hooks, and again.

`MonitoredTrainingSession` makes the session, restores it through the Scaffold and calls the hooks;
its built-in hooks are off.

One step, from its beginning to its end (paths below toolkit/):

1. loop.py asks every hook for its next due step, and runs the steps before it without hooks, many
   in one session call (training/step_runner.py), and counts them (`Loop._count`).
2. The due step runs in the monitored session, with the tensors that the due hooks fetch
   (training/hooks/base.py). Its train op was built in graph/build.py: batch, forward pass, loss,
   gradients, guard, updates, global step.
3. `step counter` (here): counts the step, and compares the count with the graph's.
4. `guard`, `metrics`: report skipped steps; record and show losses (training/hooks/guard.py,
   metrics.py).
5. The plugins' hooks, then `summaries` (training/hooks/summaries.py) and `profile`.
6. `checkpoint`: saves, makes durable and commits (training/hooks/checkpoints.py, storage/).
7. `evaluation`: evaluates the committed checkpoint, moves `best`, asks for early stopping
   (training/hooks/validation.py, inference/evaluator.py).
8. `stop`: asks for the end at the last step or after --max-secs (training/hooks/stop.py).
"""

from __future__ import annotations

import contextlib
import enum
import signal
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..compat import tf
from ..errors import InterruptedRun, RetryError, ToolkitError
from ..graph.build import TrainingGraph
from .faults import diverged, diverged_before, translated_errors
from .hooks.base import NEVER, SessionHook
from .peers import STEP, NoPeers
from .step_runner import CallResult, StepRunner, parse_refusal, refusal_fetches

MAX_RETRIES = 3
CLOSE_SECS = 10


class TrainResult(NamedTuple):
    """How training ended.

    Attributes:
        step: the last step.
        seconds: how long the loop took.
        reason: why it ended.
        is_done: False if it paused, to continue another time.
    """

    step: int
    seconds: float
    reason: str
    is_done: bool


class Writers(NamedTuple):
    """Where hooks may write: metrics.jsonl, the TensorBoard events, the console."""

    record: Callable[[Dict[str, Any]], None]
    summarize: Callable[[int, tf.Summary], None]
    log: Callable[[str], None]


class StopKind(enum.Enum):
    """How far a stop has come.

    DONE: the run is complete after the step under way.
    REQUESTED: one more step is to be made and saved.
    PAUSING: that step is under way or made; the run can continue later.
    """

    DONE = "done"
    REQUESTED = "requested"
    PAUSING = "pausing"


class StopRequest(NamedTuple):
    """Why and how training stops before its target."""

    kind: StopKind
    reason: str


class StepCounter(SessionHook):
    """Counts the steps with hooks, and compares the count with the graph's."""

    name = "counter"

    def __init__(self, graph: TrainingGraph):
        self._graph = graph

    def is_due(self, step: int) -> bool:
        return True

    def next_due_step(self, step: int) -> float:
        return NEVER

    def after_create_session(self, session, coord):
        self.loop.begin_session(session, int(session.run(self._graph.run.global_step)))

    def fetches(self):
        refusal = refusal_fetches(self._graph)
        return [self._graph.step_after, list(self._graph.averages), *refusal]

    def on_step(self, step, values, context):
        self.loop.collect()
        step_after, _, *refusal = values
        self.loop.count(CallResult(int(step_after), 1, parse_refusal(self._graph, refusal)))


class Loop:
    """The training loop, and its state that hooks may read.

    Args:
        graph: what to train.
        hooks: called in their order; the first is a `StepCounter`.
        target: the run's last step.
        reader: of the examples.
        writers: where hooks may write.
        steps_per_call: how many steps a call without hooks makes; None to choose it by time.
        pause_at: the step at which to pause, as if interrupted; None for none.
        peers: the other processes of the run.

    Attributes:
        step: the number of steps so far.
        target: the run's last step.
        session: the raw session; None before there is one.
        num_steps: how many steps this loop has made.
        bare_secs, due_secs: seconds of its steps without hooks, and of those with hooks.
    """

    def __init__(
        self,
        graph: TrainingGraph,
        hooks: List[SessionHook],
        target: int,
        reader: Any,
        writers: Writers,
        steps_per_call: Optional[int] = None,
        pause_at: Optional[int] = None,
        peers: Optional[NoPeers] = None,
    ):
        self.step = 0
        self.target = target
        self.session: Any = None
        self.num_steps, self.bare_secs, self.due_secs = 0, 0.0, 0.0
        self._graph = graph
        self._hooks = hooks
        self._reader = reader
        self._writers = writers
        self._peers = NoPeers() if peers is None else peers
        self._steps_per_call = steps_per_call
        self._until = min(pause_at or target, target)
        self._stop: Optional[StopRequest] = None
        self._signum: Optional[int] = None
        self._lost_at: List[int] = []
        self._step_runner: Any = None
        self._start: Optional[float] = None
        self._deadline = NEVER  # from which the next step is due
        for hook in hooks:
            hook.loop = self

    # ----------------------------------------------------------------------------------- the loop

    def run(self, scaffold: tf.train.Scaffold, config: tf.ConfigProto) -> TrainResult:
        """Train to the target or to a stop.

        Raises:
            InterruptedRun: after a signal; the state is saved.
            DivergedError: the guard refused a step; the state before it is saved.
            DataError: the data ended or cannot be read.
            RetryError: the machine failed.
            ToolkitError: any other failure.
        """
        self._start = time.monotonic()
        with self._graph.tf_graph.as_default(), _Signals(self):
            with translated_errors(self):
                monitored = self._open_session(scaffold, config)
            with monitored:
                try:
                    with translated_errors(self):
                        self._train(monitored)
                except BaseException as error:
                    self._end_hooks(error)
                    raise
                self._end_hooks(None)
        if self._signum is not None:
            raise InterruptedRun("", signum=self._signum)
        return self._result(self.seconds)

    @property
    def seconds(self) -> float:
        """The time since the loop began; 0 before."""
        return 0.0 if self._start is None else time.monotonic() - self._start

    def _train(self, monitored) -> None:
        while self.step < self._until and self._should_continue():
            monitored.run_step_fn(self._run_to_next_due_step)
            if monitored.should_stop():  # run_context.request_stop() of a hook from elsewhere
                self.request_stop("a session hook asked for the end")

    def _run_to_next_due_step(self, step_context) -> None:
        start = time.monotonic()
        # Steps without hooks, many per call, up to the one before the next due step.
        self._run_bare_steps()
        bare = time.monotonic()
        self.bare_secs += bare - start
        # One step with hooks: StepCounter counts it, then each due hook runs, in the order printed.
        if self.step < self._until:
            if self._stop is not None and self._stop.kind is StopKind.REQUESTED:
                self._stop = self._stop._replace(kind=StopKind.PAUSING)
            with self._peers.calling(STEP):
                step_context.run_with_hooks(self._graph.train_op)
            self.due_secs += time.monotonic() - bare

    def _run_bare_steps(self) -> None:
        due = min(hook.next_due_step(self.step) for hook in self._hooks)
        until = min(due, self._until) - 1
        self._deadline = min(hook.deadline() for hook in self._hooks)
        while self.step < until and not self._is_due_early():
            try:
                result = self._step_runner.run(until - self.step)
            except tf.errors.OpError:
                self._find_step()
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

    def count(self, result: CallResult) -> None:
        """Count the steps of a call.

        Raises:
            DivergedError: the guard refused one of them.
            ToolkitError: the train op moved the global step by another number.
        """
        expected = self.step + result.num_steps
        step = expected if result.step is None else result.step
        if result.refusal is not None:
            self.step = step
            if result.refused_step is not None:
                raise diverged_before(step, result.refused_step, result.refusal)
            raise diverged(step, result.refusal)
        if step != expected:
            raise ToolkitError(
                f"The train op moved the global step to {step}, expected {expected}"
                f"{self._graph.train_op_place}.",
                hint="One step of 'optimize' advances run.global_step by exactly one.",
            )
        self.num_steps += result.num_steps
        self.step = step

    def _find_step(self) -> None:
        """After a call that failed: it may have made some of its steps."""
        if self._graph.loop is not None:
            with contextlib.suppress(tf.errors.OpError, RuntimeError):  # the session may be lost
                self.step = int(self.session.run(self._graph.run.global_step))

    def _result(self, seconds: float) -> TrainResult:
        is_last = self.is_last(self.step)
        is_done = is_last or (self._stop is not None and self._stop.kind is StopKind.DONE)
        reason = f"{'reached' if is_done else 'paused at'} step {self.step}"
        if self._stop is not None and not is_last:
            reason = self._stop.reason
        return TrainResult(self.step, seconds, reason, is_done)

    # ------------------------------------------------------------------------------------ sessions

    def _open_session(self, scaffold, config):
        return tf.train.MonitoredTrainingSession(
            master=self._peers.master,
            scaffold=scaffold,
            hooks=self._hooks,
            config=config,
            save_checkpoint_secs=None,
            save_checkpoint_steps=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
            stop_grace_period_secs=CLOSE_SECS,
        )

    def restore_states(self, states: Dict[str, Dict[str, Any]]) -> None:
        """Give the hooks back what they remembered at the checkpoint that is being restored.

        Args:
            states: of `states`.
        """
        for hook in self._hooks:
            hook.set_state(states.get(_state_name(self._hooks, hook), {}))

    def begin_session(self, session, step: int) -> None:
        """Continue in a session whose variables hold the state of `step`.

        It is called again when a session was lost and replaced.
        """
        if self.session is not None:
            self._report_lost_session(step)
        self.session = session
        self.step = step
        in_memory, steps_per_call = self._reader.in_memory, self._steps_per_call
        runner = self._peers.open_runner(session, self._graph, self._reader, self)
        self._step_runner = runner or StepRunner(
            session, self._graph, in_memory, steps_per_call, peers=self._peers
        )
        for hook in self._hooks:
            hook.on_restore(session, step)

    def _report_lost_session(self, step: int) -> None:
        self._lost_at = [s for s in self._lost_at if s >= self.step] + [self.step]
        if len(self._lost_at) > MAX_RETRIES:
            raise RetryError(
                f"The session was lost {len(self._lost_at)} times at step {self.step}."
            )
        self.log(f"warning: the session was lost at step {self.step}; continuing from step {step}")

    def _end_hooks(self, error: Optional[BaseException]) -> None:
        if self.session is not None:
            for hook in self._hooks:
                hook.on_stop(self.session, self.step, error)

    @property
    def tf_graph(self) -> tf.Graph:
        """The graph of the session."""
        return self._graph.tf_graph

    @property
    def reader_failure(self) -> Optional[ToolkitError]:
        """The cause of a failure in the input, of which TensorFlow only says that an op failed."""
        return getattr(self._reader, "failure", None)

    def check_input_files(self) -> None:
        """Raise DataError if a file changed that the steps since the last commit have read."""
        change = getattr(self._reader, "file_change", None)
        if change is not None:
            raise change

    # ----------------------------------------------------------------------------------- stopping

    def request_stop(self, reason: str) -> None:
        """End after the step that is under way: the run is done. The first reason is kept."""
        if self._stop is None:
            self._stop = StopRequest(StopKind.DONE, reason)
        elif self._stop.kind is StopKind.REQUESTED:
            self._stop = self._stop._replace(kind=StopKind.DONE)

    def request_last_step(self, reason: str) -> None:
        """Make one more step, and pause when it is saved. The run can continue later."""
        if self._stop is None:
            self._stop = StopRequest(StopKind.REQUESTED, reason)

    def interrupt(self, signum: int) -> None:
        """Make one more step, save it, and end as the signal asks."""
        self._signum = signum
        self.request_last_step(f"interrupted by signal {signum}")

    def is_last(self, step: int) -> bool:
        """Whether the run is done with this step: every hook is due on it."""
        return step >= self.target

    def is_leaving(self, step: int) -> bool:
        """Whether training ends after this step, the run's last or not: it has to be saved."""
        is_pausing = self._stop is not None and self._stop.kind is StopKind.PAUSING
        return is_pausing or step >= self._until

    def _should_continue(self) -> bool:
        return self._stop is None or self._stop.kind is StopKind.REQUESTED

    # ------------------------------------------------------------------------------ for the hooks

    def states(self) -> Dict[str, Dict[str, Any]]:
        """What the hooks want to save, by their names, numbered where one name comes twice."""
        states = {_state_name(self._hooks, hook): hook.state() for hook in self._hooks}
        return {name: state for name, state in states.items() if state}

    def check_replicas(self, session) -> None:
        """Compare the variables of all processes. Raises ToolkitError where they differ."""
        self._peers.check_equal(session, self.step)

    def before_commit(self) -> None:
        """Have every hook flush to disk what it wrote."""
        for hook in self._hooks:
            hook.on_commit()

    def after_commit(self, step: int, path: str) -> None:
        """Tell every hook that the checkpoint of `step` is committed."""
        for hook in self._hooks:
            hook.on_committed(step, path)

    def assign_sums(self, rows: Any) -> None:
        """Give the sums of the steps' scalars a value, in all processes; see `StepSums.rows`."""
        self._peers.assign_sums(self.session, self._graph.sums, rows)

    def log(self, text: str) -> None:
        """Show one line on the console."""
        self._writers.log(text)

    def record(self, values: Dict[str, Any]) -> None:
        """Add a record to metrics.jsonl: `step`, `kind` ("event") and what there is to keep."""
        self._writers.record(values)

    def summarize(self, step: int, summary: tf.Summary) -> None:
        """Add a summary, an image for example, to the TensorBoard events of `step`."""
        self._writers.summarize(step, summary)


def _state_name(hooks: List[SessionHook], hook: SessionHook) -> str:
    namesakes = [other for other in hooks if other.name == hook.name]
    number = next(i for i, other in enumerate(namesakes) if other is hook)
    return f"{hook.name}#{number}" if number else hook.name


class _Signals:
    """The first SIGINT or SIGTERM asks for a last step; the second ends the process at once."""

    def __init__(self, loop: Loop):
        self._loop = loop
        self._handlers: List[Any] = []

    def __enter__(self):
        try:
            self._handlers = [
                (s, signal.signal(s, self._interrupt)) for s in (signal.SIGINT, signal.SIGTERM)
            ]
        except ValueError:  # not in the main thread: whoever runs us handles the signals
            self._handlers = []
        return self

    def __exit__(self, *_):
        for signum, handler in self._handlers:
            signal.signal(signum, handler)

    def _interrupt(self, signum, frame):
        self._loop.interrupt(signum)
        signal.signal(signum, signal.SIG_DFL)
