"""How a run makes its steps: one a call, several in a loop of the graph, or that loop compiled.

The first two give the same bits. XLA's differ, so a run that has begun keeps to what it began with.
"""

from __future__ import annotations

import math
import statistics
import time
from typing import Any, Callable, NamedTuple, Optional, Tuple

from ..compat import HAS_XLA, tf
from ..errors import ToolkitError, UsageError
from ..graph import build
from ..graph.step_strategy import XLA
from ..graph.session_config import session_config, with_threads
from .step_runner import MOST_STEPS, Calls

# XLA has to be compiled, here and again in the session of the run: that takes seconds.
WORTH_SECS = 60.0
FEWEST_STEPS = 20000
TRIAL_SECS = 0.4
GAIN = 1.1
COMPILED_STEPS = 50


class Stepping(NamedTuple):
    """graph: a `TrainingGraph`. reader: in it. options: with the threads settled. note: or "".

    plain: what a compiled one was made of.
    """

    graph: Any
    reader: Any
    options: Any
    note: str = ""
    plain: Optional[Any] = None

    @property
    def compiled(self) -> bool:
        return self.graph.run.compiled


class Stepper:
    """Builds the graph of training.

    make_reader, make_run: called in a new graph for each form that is tried; make_run is told
    whether XLA compiles it.
    """

    def __init__(self, plugins, options, make_reader, make_run: Callable[..., Any]):
        self._plugins = plugins
        self._options = options
        self._make_reader = make_reader
        self._make_run = make_run

    def build(self, step: int = 0, compiled: Optional[bool] = None) -> Stepping:
        """The form that the options ask for, or that is faster.

        step: steps made so far. compiled: whether XLA made them, None for a new run. Raises
        UsageError for options that cannot be had.
        """
        options = self._options
        if options.steps_per_call == 1 and options.xla != "on" and not compiled:
            return self._built(in_loop=False)
        wanted = self._wants_xla(compiled)
        looped = self._in_loop()
        if wanted:
            return self._tried(looped, 0.0)[0]
        if wanted is False or looped.graph.loop is None:
            return looped
        return self._faster(looped, looped.graph.run.total_steps - step)

    def _wants_xla(self, began: Optional[bool]) -> Optional[bool]:
        """None where a trial is to tell."""
        if HAS_XLA:
            return {"on": True, "off": False, "auto": began}[self._options.xla]
        if self._options.xla == "on":
            raise UsageError(
                "XLA compiles steps on TensorFlow 2.x, not on this one.", hint="Set --xla off."
            )
        return False

    # --------------------------------------------------------------------------------------- forms

    def _built(self, in_loop: bool) -> Stepping:
        graph = tf.Graph()
        with graph.as_default():
            reader = self._make_reader()
        run = self._make_run(reader)
        built = build.build_training(self._plugins, run, reader, graph, in_loop)
        return Stepping(built, reader, with_threads(self._options, graph))

    def _in_loop(self) -> Stepping:
        try:
            return self._built(in_loop=True)
        except Exception as error:
            return self.single(error)

    def single(self, why: BaseException) -> Stepping:
        """One step a call, since a plugin cannot do with the loop, as `why` tells.

        Where the fault is another one, it is raised again here. Raises UsageError where several
        steps a call were asked for.
        """
        single = self._built(in_loop=False)
        reason = f"a loop of steps cannot be built: {_first_line(why)}"
        asked, hint = self._options.steps_per_call, "Leave it at auto, or set it to 1."
        if asked is not None:
            raise UsageError(f"--steps-per-call is {asked}, but {reason}.", hint) from why
        if self._options.xla == "on":
            raise UsageError(f"--xla is on, but {reason}.", "Set --xla off.") from why
        return single._replace(note="one step a call; " + reason)

    def _compiled(self, looped: Stepping) -> Stepping:
        if looped.graph.loop is None:
            raise UsageError(looped.note)
        if looped.graph.step.summaries:
            raise UsageError("a plugin makes tf.summary ops in its step, which are texts")
        graph = tf.Graph()
        with graph.as_default():
            reader = self._make_reader()
        run = self._make_run(reader, XLA)
        # Whatever --steps-per-call is: XLA's code, and so its rounding, depends on it.
        most = min(COMPILED_STEPS, reader.max_chunk_steps)
        built = build.build_compiled(self._plugins, run, reader, graph, looped.graph, most)
        note = "the step is compiled by XLA"
        return Stepping(built, reader, looped.options, note, looped)

    def _tried(self, looped: Stepping, secs: float) -> Tuple[Stepping, float]:
        """The compiled loop, and the time of a step. Raises UsageError where XLA cannot have it."""
        try:
            made = self._compiled(looped)
            return made, self._step_secs(made, secs)
        except (ToolkitError, tf.errors.OpError, TypeError, ValueError) as error:
            raise UsageError(
                f"XLA cannot compile the step: {_first_line(error)}.",
                hint="Set --xla off.",
            ) from error

    # --------------------------------------------------------------------------------------- trial

    def _faster(self, looped: Stepping, steps_left: int) -> Stepping:
        """XLA's form where it is faster by a trial on steps that do not count."""
        if steps_left < FEWEST_STEPS:
            return looped
        try:
            before = self._step_secs(looped, TRIAL_SECS)
            if min(before * steps_left, self._options.max_secs or math.inf) < WORTH_SECS:
                return looped
            made, after = self._tried(looped, TRIAL_SECS)
        except (UsageError, tf.errors.OpError):  # a fault of the step itself is told by the run
            return looped
        return made if after * GAIN < before else looped

    def _step_secs(self, stepping: Stepping, secs: float) -> float:
        """The median time of a step in a session of its own, after its first calls."""
        graph = stepping.graph
        with tf.Session(graph=graph.tf_graph, config=session_config(stepping.options)) as session:
            with graph.tf_graph.as_default():
                session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            stepping.reader.initialize(session, 0)
            calls = Calls(session, graph, stepping.reader.in_memory, self._options.steps_per_call)
            calls.make(1)
            times, ends = [], time.perf_counter() + secs
            while time.perf_counter() < ends or len(times) < min(3, secs * 100):
                started = time.perf_counter()
                called = calls.make(MOST_STEPS)
                times.append((time.perf_counter() - started) / called.steps)
        return statistics.median(times[len(times) // 2 :]) if times else 0.0


def _first_line(error: BaseException) -> str:
    text = getattr(error, "message", None) or str(error)
    return (text.strip().split("\n") or [""])[0].rstrip(".")
