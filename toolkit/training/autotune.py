"""Make steps in the way that is faster here: which one that is depends on the size of their ops."""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, List, Sequence

WARM_UP = 5
MOST_CALLS = 40
ENOUGH_SECS = 0.5


class Fastest:
    """Calls one of several functions that do the same, each in turn, until it knows the fastest.

    A function is given a number of steps and makes them. After a warm-up each is timed up to
    MOST_CALLS times, or until ENOUGH_SECS were spent and each had five calls; the least median
    time of a step wins. clock: seconds.
    """

    def __init__(
        self,
        functions: Sequence[Callable[[int], Any]],
        clock: Callable[[], float] = time.perf_counter,
    ):
        self._functions = list(functions)
        self._clock = clock
        self._times: List[List[float]] = [[] for _ in functions]
        self._spent = 0.0
        self._calls = 0
        self.chosen: Callable[[int], Any] = self if len(functions) > 1 else self._functions[0]

    def __call__(self, steps: int) -> Any:
        which = self._calls % len(self._functions)
        started = self._clock()
        result = self._functions[which](steps)
        elapsed = self._clock() - started
        self._calls += 1
        if self._calls > WARM_UP * len(self._functions):
            self._times[which].append(elapsed / steps)
            self._spent += elapsed
            self._decide()
        return result

    def _decide(self) -> None:
        fewest = min(map(len, self._times))
        if fewest >= MOST_CALLS or (fewest >= 5 and self._spent >= ENOUGH_SECS):
            medians = [statistics.median(times) for times in self._times]
            self.chosen = self._functions[medians.index(min(medians))]
