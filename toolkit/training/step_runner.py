"""Run steps without hooks: several in one session call, if the graph has a loop for that."""

from __future__ import annotations

import time
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

import numpy as np

from ..compat import make_callable
from ..graph.build import TrainingGraph
from ..graph.guard import GuardValues
from .autotune import AdaptiveStepCount, FastestVariant
from .peers import RUN, NoPeers


class CallResult(NamedTuple):
    """What a call of the session did.

    Attributes:
        step: the global step after it; None if the graph does not return it.
        num_steps: how many steps it should have made.
        refusal: what the guard saw in a step that it refused, as texts; or None.
        refused_step: the step that it refused, if that is counted; None: the next step.
    """

    step: Optional[int]
    num_steps: int
    refusal: Optional[List[GuardValues]] = None
    refused_step: Optional[int] = None


class StepRunner:
    """Makes steps and nothing else, by prepared calls of a session.

    Args:
        session: whose variables hold a state.
        graph: of the session.
        in_memory: False if tf.data reads the examples.
        steps_per_call: None to choose it by time.
        clock: returns seconds.
        peers: the processes that make each call, too.
    """

    def __init__(
        self,
        session,
        graph: TrainingGraph,
        in_memory: bool,
        steps_per_call: Optional[int] = None,
        clock: Callable[[], float] = time.perf_counter,
        peers: Optional[NoPeers] = None,
    ):
        self._session, self._graph, self._clock = session, graph, clock
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
        start = self._clock()
        with self._peers.calling(RUN, num_steps):
            result = self._fastest.next(num_steps)
        secs = self._clock() - start
        self._step_count.observe(secs / num_steps)
        self._fastest.observe(secs, num_steps)
        return result

    def _prepare(self, inline: bool) -> Callable[[int], CallResult]:
        """A function that makes a number of steps.

        Args:
            inline: runs all ops in the thread of the caller.
        """
        graph = self._graph
        if graph.loop is None:
            return self._prepare_single_step(inline)
        fetches = [graph.step_after] + refusal_fetches(graph)
        call = make_callable(self._session, fetches, [graph.loop.num_steps], inline)

        def make_steps(num_steps: int) -> CallResult:
            step, *refusal = call(np.int32(num_steps))
            return CallResult(int(step), num_steps, parse_refusal(graph, refusal))

        return make_steps

    def _prepare_single_step(self, inline: bool) -> Callable[[int], CallResult]:
        call = make_callable(self._session, [self._graph.train_op], inline=inline)
        result = CallResult(None, 1)

        def make_step(num_steps: int) -> CallResult:
            call()
            return result

        return make_step


def refusal_fetches(graph: TrainingGraph) -> List[Any]:
    """What a call has to fetch to learn of a step that the guard refused, for `parse_refusal`.

    Without XLA the guard fails the call, and there is nothing to fetch.
    """
    if graph.loop is None or graph.loop.all_finite is None:
        return []
    values = graph.step.guard_values
    return [graph.loop.all_finite] + [x for v in values for x in (v.loss, v.gradient_norm)]


def parse_refusal(graph: TrainingGraph, values: Sequence[Any]) -> Optional[List[GuardValues]]:
    """What the guard saw in a step that it refused, or None for no such step.

    Args:
        values: of `refusal_fetches`.
    """
    if not values or values[0]:
        return None
    texts = [f"{float(value):g}" for value in values[1:]]
    names = [v.name for v in graph.step.guard_values]
    return [GuardValues(*row) for row in zip(names, texts[0::2], texts[1::2])]
