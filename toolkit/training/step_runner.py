"""Run steps without hooks: several in one session call, if the graph has a loop for that.

How many, and by which threads, is found by timing the run's own calls; neither has an effect on
what they compute.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from ..compat import make_callable
from ..graph.build import TrainingGraph
from ..graph.guard import GuardValues
from ..graph.session_config import is_small_step
from .peers import RUN, NoPeers

# A call is long enough that Python costs nothing, and short enough that a signal or a deadline
# does not wait.
CALL_SECS = 0.02
MAX_STEPS = 200
TRIAL_CALLS = 16  # of each way to call, before the faster stays


class CallResult(NamedTuple):
    """What a call of the session did."""

    step: Optional[int]  # the global step after it; None if the graph does not return it
    num_steps: int  # how many steps it should have made
    refusal: Optional[List[GuardValues]] = None  # what the guard saw in a refused step, as texts
    refused_step: Optional[int] = None  # the step that it refused if it counts; None: the next one


class StepRunner:
    """Makes steps and nothing else, by prepared calls of a session, whose variables hold a state.

    Without `in_memory`, tf.data reads the examples; with `steps_per_call` None, a call makes as
    many steps as take about CALL_SECS.
    """

    def __init__(
        self,
        session,
        graph: TrainingGraph,
        in_memory: bool,
        steps_per_call: Optional[int] = None,
        peers: Optional[NoPeers] = None,
    ):
        self._graph, loop = graph, graph.loop
        self._peers = NoPeers() if peers is None else peers
        fetches = [graph.step_after] + refusal_fetches(graph) if loop else [graph.train_op]
        feeds = [loop.num_steps] if loop else []
        self._calls = [make_callable(session, fetches, feeds)]
        # A small step may be faster in this thread, unless it has ops that wait for no other, as
        # augmentation has. tf.data would take the thread for its own, and so would a server.
        if in_memory and not self._peers.count and is_small_step(graph.tf_graph):
            self._calls.append(make_callable(session, fetches, feeds, inline=True))
        self._trials: List[List[float]] = [[] for _ in self._calls]  # seconds of a step by call
        self._max_steps = (
            min(steps_per_call or MAX_STEPS, loop.max_steps or MAX_STEPS) if loop else 1
        )
        self._num_steps = 1 if steps_per_call is None else self._max_steps  # of the next call
        self._is_fixed = steps_per_call is not None

    def run(self, max_steps: int) -> CallResult:
        """Make up to `max_steps` steps, at least one, in one call."""
        num_steps = min(self._num_steps, max_steps)
        arguments = [np.int32(num_steps)] if self._graph.loop else []
        start = time.perf_counter()
        with self._peers.calling(RUN, num_steps):
            values = self._calls[0](*arguments)
        secs = max((time.perf_counter() - start) / num_steps, 1e-9)
        if len(self._calls) > 1:
            self._compare(secs)
        if not self._is_fixed:
            # At most twice as many: the first calls are no measure of those that follow.
            steps = min(CALL_SECS / secs, 2 * self._num_steps, self._max_steps)
            self._num_steps = max(1, int(steps))
        if self._graph.loop is None:
            return CallResult(None, 1)
        step, *refusal = values
        return CallResult(int(step), num_steps, parse_refusal(self._graph, refusal))

    def _compare(self, secs: float) -> None:
        """Note what a step of the first way to call took, and put the other first; or the faster
        alone, once each had its trials.
        """
        self._trials[0].append(secs)
        self._trials.reverse()
        self._calls.reverse()
        if len(self._trials[0]) == TRIAL_CALLS:
            medians = [statistics.median(each) for each in self._trials]
            self._calls = [self._calls[medians.index(min(medians))]]


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
