"""Bare steps: several in one call of the session, where the graph has a loop for that."""

from __future__ import annotations

import time
from typing import Any, Callable, List, NamedTuple, Optional

import numpy as np

from ..compat import make_callable
from .autotune import Fastest

# Long enough that Python costs nothing, short enough that a signal or a deadline does not wait.
CALL_SECS = 0.02
MOST_STEPS = 200


class Called(NamedTuple):
    """What came of a call. step: the global step behind it, None where the graph does not tell.

    steps: how many were to be made. refused: the losses and gradient norms of a step that was not
    made, or None.
    """

    step: Optional[int]
    steps: int
    refused: Optional[List[float]] = None


class Pace:
    """How many steps a call makes: a fixed number, or as many as take about CALL_SECS.

    What a run computes does not depend on it. most: at most so many. clock: seconds.
    """

    def __init__(
        self,
        fixed: Optional[int] = None,
        most: Optional[int] = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        self._fixed, self._clock = fixed is not None, clock
        self._most = min(fixed or MOST_STEPS, most or MOST_STEPS)
        self.steps = self._most if self._fixed else 1

    def timed(self, function: Callable[[int], Called], most: int) -> Called:
        """Call the function with a number of steps, and learn from the time that it takes."""
        steps = min(self.steps, most)
        if self._fixed:
            return function(steps)
        started = self._clock()
        called = function(steps)
        step_secs = (self._clock() - started) / steps
        # At most twice as many: the first calls are no measure of those that follow.
        wanted = min(CALL_SECS / max(step_secs, 1e-9), 2 * self.steps, self._most)
        self.steps = max(1, int(wanted))
        return called


class Calls:
    """The prepared calls of a session that make steps and nothing else.

    graph: a `TrainingGraph`. in_memory: False where tf.data reads. steps_per_call: None to choose
    it by time.
    """

    def __init__(self, session, graph, in_memory: bool, steps_per_call: Optional[int] = None):
        self._session, self._graph = session, graph
        ways = [self._prepared(inline=False)]
        if in_memory:  # tf.data would take the thread of the first call for its own
            ways.append(self._prepared(inline=True))
        self._fastest = Fastest(ways)
        loop = graph.loop
        self._pace = Pace(steps_per_call if loop else 1, loop.max_steps if loop else None)

    def make(self, most: int) -> Called:
        """Make up to `most` steps, at least one."""
        return self._pace.timed(self._fastest.chosen, most)

    def _single(self, inline: bool) -> Callable[[int], Called]:
        run, called = (
            make_callable(self._session, [self._graph.train_op], inline=inline),
            Called(None, 1),
        )

        def make(steps: int) -> Called:
            run()
            return called

        return make

    def _prepared(self, inline: bool) -> Callable[[int], Called]:
        graph = self._graph
        loop = graph.loop
        if loop is None:
            return self._single(inline)
        fetches: List[Any] = [graph.step_after]
        if loop.all_finite is not None:
            fetches += [loop.all_finite] + [x for v in graph.step.guard_values for x in v[1:]]
        several = make_callable(self._session, fetches, [loop.num_steps], inline)

        def make(steps: int) -> Called:
            step, *guard = several(np.int32(steps))
            refused = [float(x) for x in guard[1:]] if guard and not guard[0] else None
            return Called(int(step), steps, refused)

        return make
