"""Run steps without hooks: several in one session call, if the graph has a loop for that.

How many, and which of two ways to call the session, is found by timing the run's own calls; it has
no effect on what they compute.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

import numpy as np

from ..compat import make_callable
from ..graph.build import TrainingGraph
from ..graph.guard import GuardValues
from .peers import RUN, NoPeers

# A call is long enough that Python costs nothing, and short enough that a signal or a deadline
# does not wait.
CALL_SECS = 0.02
MAX_STEPS = 200

WARM_UP_CALLS = 5
MAX_TRIAL_CALLS = 40
ENOUGH_SECS = 0.5


class CallResult(NamedTuple):
    """What a call of the session did."""

    step: Optional[int]  # the global step after it; None if the graph does not return it
    num_steps: int  # how many steps it should have made
    refusal: Optional[List[GuardValues]] = None  # what the guard saw in a refused step, as texts
    refused_step: Optional[int] = None  # the step that it refused if it counts; None: the next one


class StepRunner:
    """Makes steps and nothing else, by prepared calls of a session, whose variables hold a state.

    Without `in_memory`, tf.data reads the examples; `steps_per_call` None is chosen by time.
    """

    def __init__(
        self,
        session,
        graph: TrainingGraph,
        in_memory: bool,
        steps_per_call: Optional[int] = None,
        peers: Optional[NoPeers] = None,
    ):
        self._session, self._graph = session, graph
        self._peers = NoPeers() if peers is None else peers
        variants = [self._prepare(inline=False)]
        # tf.data would take the thread of the first call for its own, and so would a server.
        if in_memory and not self._peers.count:
            variants.append(self._prepare(inline=True))
        self._fastest = FastestVariant(variants)
        if graph.loop is None:
            self._step_count = AdaptiveStepCount(1)
        else:
            self._step_count = AdaptiveStepCount(steps_per_call, graph.loop.max_steps)

    def run(self, max_steps: int) -> CallResult:
        """Make up to `max_steps` steps, at least one, in one call."""
        num_steps = min(self._step_count.steps, max_steps)
        start = time.perf_counter()
        with self._peers.calling(RUN, num_steps):
            result = self._fastest.next(num_steps)
        secs = time.perf_counter() - start
        self._step_count.observe(secs / num_steps)
        self._fastest.observe(secs, num_steps)
        return result

    def _prepare(self, inline: bool) -> Callable[[int], CallResult]:
        """A function that makes a number of steps."""
        graph, loop = self._graph, self._graph.loop
        fetches = [graph.train_op]
        if loop is not None:
            fetches = [graph.step_after] + refusal_fetches(graph)
        call = make_callable(self._session, fetches, [loop.num_steps] if loop else [], inline)

        def make_steps(num_steps: int) -> CallResult:
            if loop is None:
                call()
                return CallResult(None, 1)
            step, *refusal = call(np.int32(num_steps))
            return CallResult(int(step), num_steps, parse_refusal(graph, refusal))

        return make_steps


def refusal_fetches(graph: TrainingGraph) -> List[Any]:
    """What a call has to fetch to learn of a step that the guard refused, for `parse_refusal`.

    Without XLA the guard fails the call, and there is nothing to fetch.
    """
    if graph.loop is None or graph.loop.all_finite is None:
        return []
    values = graph.step.guard_values
    return [graph.loop.all_finite] + [x for v in values for x in (v.loss, v.gradient_norm)]


def parse_refusal(graph: TrainingGraph, values: Sequence[Any]) -> Optional[List[GuardValues]]:
    """What the guard saw in a step that it refused, from values of `refusal_fetches`; or None."""
    if not values or values[0]:
        return None
    texts = [f"{float(value):g}" for value in values[1:]]
    names = [v.name for v in graph.step.guard_values]
    return [GuardValues(*row) for row in zip(names, texts[0::2], texts[1::2])]


class AdaptiveStepCount:
    """How many steps a call makes: a fixed number, or as many as take about CALL_SECS, up to
    `max_steps` if there is such a limit. `steps` is the number for the next call.
    """

    def __init__(self, fixed: Optional[int] = None, max_steps: Optional[int] = None):
        self._is_fixed = fixed is not None
        self._max_steps = min(fixed or MAX_STEPS, max_steps or MAX_STEPS)
        self.steps = self._max_steps if self._is_fixed else 1

    def observe(self, step_secs: float) -> None:
        """Learn from the seconds that a step of the last call took."""
        if not self._is_fixed:
            # At most twice as many: the first calls are no measure of those that follow.
            steps = min(CALL_SECS / max(step_secs, 1e-9), 2 * self.steps, self._max_steps)
            self.steps = max(1, int(steps))


class FastestVariant:
    """The fastest of several functions that do the same, found by timing each in turn.

    After a warm-up each is timed up to MAX_TRIAL_CALLS times, or until ENOUGH_SECS were spent and
    each had five calls. The least median time of a step wins: it stays the function `next`.
    """

    def __init__(self, variants: Sequence[Callable[[int], Any]]):
        self._variants = list(variants)
        self._step_secs: List[List[float]] = [[] for _ in variants]
        self._spent_secs = 0.0
        self._calls = 0
        self.next = self._variants[0]
        self.is_decided = len(self._variants) == 1

    def observe(self, secs: float, steps: int) -> None:
        """Learn from a call of `next`, which took `secs` seconds for its steps."""
        if self.is_decided:
            return
        index = self._calls % len(self._variants)
        self._calls += 1
        if self._calls > WARM_UP_CALLS * len(self._variants):
            self._step_secs[index].append(secs / steps)
            self._spent_secs += secs
            fewest = min(map(len, self._step_secs))
            is_enough = fewest >= 5 and self._spent_secs >= ENOUGH_SECS
            self.is_decided = fewest >= MAX_TRIAL_CALLS or is_enough
        if self.is_decided:
            medians = [statistics.median(secs) for secs in self._step_secs]
            self.next = self._variants[medians.index(min(medians))]
        else:
            self.next = self._variants[self._calls % len(self._variants)]
