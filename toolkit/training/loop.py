"""The loop: run the bare train op to the next due step, run that one with the hooks, until a stop.

`MonitoredTrainingSession` makes the session, restores it through our Scaffold and calls the hooks;
all hooks are ours, its built-in ones are off. What ends a run other than its target is told as
what it is: an interruption, a divergence, data that ran dry, a fault of the machine.
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..compat import tf
from ..errors import DataError, DivergedError, InterruptedRun, RetryError, ToolkitError
from ..graph.optimizer import NOT_FINITE
from .hooks.base import NEVER, Hook
from .step_runner import Called, Calls
from .tf_messages import telling

MOST_RETRIES = 3
CLOSE_SECS = 10


class Ended(NamedTuple):
    """How training ended: the last step, the seconds of the loop, and why.

    is_done: False where it left off, to go on another time.
    """

    step: int
    seconds: float
    reason: str
    is_done: bool


class Outlets(NamedTuple):
    """Where hooks may write: metrics.jsonl and the TensorBoard events."""

    record: Callable[[Dict[str, Any]], None]
    summarize: Callable[[int, tf.Summary], None]


class Clock(Hook):
    """Counts the steps; where hooks are called, compares the count with the graph's."""

    name = "clock"

    def __init__(self, graph, restored: Callable[[Any], int]):
        self._graph = graph
        self._restored = restored

    def is_due(self, step: int) -> bool:
        return True

    def next_step(self, step: int) -> float:
        return NEVER

    def after_create_session(self, session, coord):
        self.loop.on_session(session, self._restored(session))

    def fetches(self):
        graph = self._graph
        if graph.going is None:
            return [graph.step_after]
        return [graph.step_after, graph.going] + [x for one in graph.judged for x in one[1:]]

    def on_step(self, step, values, context):
        after, *guard = values
        refused = [float(x) for x in guard[1:]] if guard and not guard[0] else None
        self.loop.advance(Called(int(after), 1, refused))


class Loop:
    """The state of the loop that hooks may read, and the loop itself.

    step: steps made so far. target: the run's last step. pause_at: the step to leave off at, as if
    interrupted; the run can go on later. made, bare_secs, due_secs: steps of this
    loop, and the seconds of those without hooks and of those with.
    """

    def __init__(
        self,
        graph,
        hooks: List[Hook],
        target: int,
        talk: Callable[[str], None],
        reader,
        outlets: Optional[Outlets] = None,
        steps_per_call: Optional[int] = None,
        pause_at: Optional[int] = None,
    ):
        self.step = 0
        self.target = target
        self._pause_at = min(pause_at or target, target)
        self.reason = ""
        self.made, self.bare_secs, self.due_secs = 0, 0.0, 0.0
        self.session: Any = None
        self.signum: Optional[int] = None
        self._graph = graph
        self._hooks = hooks
        self._talk = talk
        self._reader = reader
        self._outlets = outlets
        self._retries: List[int] = []
        self._steps_per_call = steps_per_call
        self._calls: Any = None
        self._last = False  # the next step is to be the last one
        self._closing = False  # the step under way is the last one
        self._ended = False
        for hook in hooks:
            hook.loop = self

    @property
    def reader_failure(self) -> Optional[ToolkitError]:
        """What a plugin's Python did wrong in the input, where TensorFlow only says that an op
        failed.
        """
        return getattr(self._reader, "failure", None)

    # ------------------------------------------------------------------------------ for the hooks

    def request_stop(self, reason: str) -> None:
        """End after the step that is under way; the first reason given is kept."""
        self.reason = self.reason or reason
        self._ended = True

    def request_last_step(self, reason: str) -> None:
        """Make one more step, and leave off when it is saved. The run can go on later."""
        if not self.reason:
            self._last, self.reason = True, reason

    def is_last(self, step: int) -> bool:
        """Whether the run is done with this step: every hook is due on it."""
        return step >= self.target

    def is_leaving(self, step: int) -> bool:
        """Whether training leaves off after this step, the last or not: it is to be saved."""
        return self._closing or step >= self._pause_at

    def states(self) -> Dict[str, Dict[str, Any]]:
        """What the hooks want to have saved, by their names, numbered where one comes twice."""
        states = {_numbered(self._hooks, hook): hook.state() for hook in self._hooks}
        return {name: state for name, state in states.items() if state}

    def before_commit(self) -> None:
        """Have every hook put on the disk what it wrote."""
        for hook in self._hooks:
            hook.on_commit()

    def set_states(self, states: Dict[str, Dict[str, Any]]) -> None:
        """Give the hooks back what they had saved."""
        for hook in self._hooks:
            hook.set_state(states.get(_numbered(self._hooks, hook), {}))

    def advance(self, called: Called) -> None:
        """Count the steps of a call. Raises DivergedError where one of them was refused."""
        expected = self.step + called.steps
        after = expected if called.step is None else called.step
        if called.refused is not None:
            self.step = after
            raise _diverged(after, _told(self._graph.judged, called.refused))
        if after != expected:
            raise ToolkitError(
                f"The train op moved the global step to {after}, expected {expected}.",
                hint="One step of 'optimize' advances run.global_step by exactly one.",
            )
        self.made += called.steps
        self.step = after

    def say(self, text: str) -> None:
        """One line for the person who watches."""
        self._talk(text)

    def record(self, values: Dict[str, Any]) -> None:
        """One line of metrics.jsonl: `step`, `kind` ("event") and what there is to keep."""
        if self._outlets:
            self._outlets.record(values)

    def summarize(self, step: int, summary: tf.Summary) -> None:
        """Add a summary, an image for example, to the TensorBoard events of `step`."""
        if self._outlets:
            self._outlets.summarize(step, summary)

    def on_session(self, session, step: int) -> None:
        """A session was made (or made anew after a fault) and holds the state of `step`."""
        if self.session is not None:
            self._retry(step)
        self.session = session
        self.step = step
        in_memory = self._reader.in_memory
        self._calls = Calls(session, self._graph, in_memory, self._steps_per_call)
        for hook in self._hooks:
            hook.on_restore(session, step)

    def _retry(self, step: int) -> None:
        self._retries = [s for s in self._retries if s >= self.step] + [self.step]
        if len(self._retries) > MOST_RETRIES:
            raise RetryError(
                f"The session was lost {len(self._retries)} times at step {self.step}.",
                hint="Resume the run when the machine is well again.",
            )
        self._talk(f"warning: the session was lost at step {self.step}; going on from step {step}")

    # ----------------------------------------------------------------------------------- the loop

    def run(self, scaffold, config) -> Ended:
        """Train to the target or to a stop. Raises InterruptedRun, DivergedError, DataError, ..."""
        started = time.monotonic()
        with self._graph.graph.as_default(), _Signals(self):
            with _faults_told(self):
                monitored = tf.train.MonitoredTrainingSession(
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
            with monitored:
                try:
                    with _faults_told(self):
                        self._train(monitored)
                except BaseException as error:
                    self._finish(error)
                    raise
                self._finish(None)
        seconds = time.monotonic() - started
        if self.signum is not None:
            raise InterruptedRun("", signum=self.signum)
        is_done = self.is_last(self.step) or (self._ended and not self._closing)
        word = "reached" if is_done else "paused at"
        reason = "" if self.is_last(self.step) else self.reason
        reason = reason or f"{word} step {self.step}"
        return Ended(self.step, seconds, reason, is_done)

    def _train(self, monitored) -> None:
        while self.step < self._pause_at and not self._ended:
            monitored.run_step_fn(self._to_next_due_step)
            if monitored.should_stop():  # run_context.request_stop() of a hook that is no `Hook`
                self.request_stop("a session hook asked for the end")

    def _to_next_due_step(self, step_context) -> None:
        started = time.monotonic()
        self._run_bare()
        bare = time.monotonic()
        self.bare_secs += bare - started
        if self.step < self._pause_at:
            self._closing = self._last
            step_context.run_with_hooks(self._graph.train_op)
            self.due_secs += time.monotonic() - bare
            # A last step that was asked for during this one is still to be made.
            self._ended = self._ended or self._closing

    def _run_bare(self) -> None:
        """Bare steps up to the one before the next due step, or until a deadline or a signal."""
        due = min(h.next_step(self.step) for h in self._hooks)
        until = min(due, self._pause_at) - 1
        deadline = min(h.deadline() for h in self._hooks)
        while self.step < until and time.monotonic() < deadline and not self._last:
            try:
                called = self._calls.make(until - self.step)
            except tf.errors.OpError:
                self._find_step()
                raise
            self.advance(called)

    def _find_step(self) -> None:
        """After a call that failed: it may have made some of its steps."""
        if self._graph.budget is not None:
            with contextlib.suppress(tf.errors.OpError, RuntimeError):  # of a session that is lost
                self.step = int(self.session.run(self._graph.run.global_step))

    def _finish(self, error: Optional[BaseException]) -> None:
        if self.session is not None:
            for hook in self._hooks:
                hook.on_stop(self.session, self.step, error)


def _numbered(hooks: List[Hook], hook: Hook) -> str:
    alike = [other for other in hooks if other.name == hook.name]
    number = next(i for i, other in enumerate(alike) if other is hook)
    return f"{hook.name}#{number}" if number else hook.name


class _Signals:
    """The first SIGINT or SIGTERM asks for a last step; the second ends the process at once."""

    def __init__(self, loop: Loop):
        self._loop = loop
        self._before: List[Any] = []

    def __enter__(self):
        try:
            self._before = [
                (s, signal.signal(s, self._first)) for s in (signal.SIGINT, signal.SIGTERM)
            ]
        except ValueError:  # not in the main thread: whoever runs us handles the signals
            self._before = []
        return self

    def __exit__(self, *_):
        for signum, handler in self._before:
            signal.signal(signum, handler)

    def _first(self, signum, frame):
        self._loop.signum = signum
        self._loop.request_last_step(f"interrupted by signal {signum}")
        signal.signal(signum, signal.SIG_DFL)


class _faults_told:
    """Turn TensorFlow's errors into what they mean, so that none passes for success."""

    def __init__(self, loop: Loop):
        self._loop = loop

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None or isinstance(error, (ToolkitError, KeyboardInterrupt)):
            return
        step = self._loop.step
        if isinstance(error, tf.errors.OpError) and self._loop.reader_failure is not None:
            raise self._loop.reader_failure from error
        if isinstance(error, tf.errors.InvalidArgumentError) and NOT_FINITE in error.message:
            raise _diverged(step, _values(error.message)) from error
        if isinstance(error, (tf.errors.OutOfRangeError, StopIteration)):
            raise DataError(
                f"The data ran dry in step {step + 1} of {self._loop.target}.",
                hint="Input repeats without end; a plugin's own input has to repeat as well.",
            ) from error
        if isinstance(error, tf.errors.DataLossError):
            raise DataError(
                f"The data cannot be read in step {step + 1}: {telling(error.message)}.",
                hint="Look at it with 'toolkit data check'.",
            ) from error
        if isinstance(error, (tf.errors.AbortedError, tf.errors.UnavailableError)):
            raise RetryError(
                f"The session was lost in step {step + 1}: {telling(error.message)}.",
                hint="Resume the run when the machine is well again.",
            ) from error
        if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)):
            raise RetryError(
                f"Step {step + 1} needs more memory than there is: "
                f"{telling(str(getattr(error, 'message', error)))}.",
                hint="Free some, then resume the run; or train anew with a smaller --batch-size.",
            ) from error
        if isinstance(error, tf.errors.OpError):
            raise ToolkitError(
                f"Step {step + 1} failed: {telling(error.message)}.",
                hint="Run again with -v for the traceback.",
            ) from error


def _diverged(step: int, values: str) -> DivergedError:
    return DivergedError(
        f"Training diverged in step {step + 1}: {values}.",
        hint=f"Step {step} is kept; try a lower --learning-rate, or --on-nonfinite skip.",
    )


def _values(message: str) -> str:
    """The numbers of the guard's assertion, of what was not finite alone: `critic: loss nan, ...`.

    After the assertion's text come a name, a loss and a gradient norm for each update.
    """
    found = re.findall(r"\[([^\]]*)\]", message[message.index(NOT_FINITE) :].replace("-nan", "nan"))
    return _not_finite(zip(found[0::3], found[1::3], found[2::3]))


def _told(judged, values: List[float]) -> str:
    """The same from numbers: a loss and a gradient norm for each update."""
    names = [one.name for one in judged]
    texts = [f"{value:g}" for value in values]
    return _not_finite(zip(names, texts[0::2], texts[1::2]))


def _not_finite(updates) -> str:
    told = []
    for name, loss, norm in updates:
        if any(word in loss + norm for word in ("nan", "inf")):
            told.append(f"{name and name + ': '}loss {loss}, gradient norm {norm}")
    return "; ".join(told) or NOT_FINITE
