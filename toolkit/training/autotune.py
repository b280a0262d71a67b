"""Choices that are made by timing a run's own calls, without an effect on what it computes."""

from __future__ import annotations

import statistics
from typing import Any, Callable, List, Optional, Sequence

# A call is long enough that Python costs nothing, and short enough that a signal or a deadline
# does not wait.
CALL_SECS = 0.02
MAX_STEPS = 200

WARM_UP_CALLS = 5
MAX_TRIAL_CALLS = 40
ENOUGH_SECS = 0.5


class AdaptiveStepCount:
    """How many steps a call makes: a fixed number, or as many as take about CALL_SECS.

    Args:
        fixed: the number; None to adapt it to the time of a step.
        max_steps: the largest number of steps of a call, or None.

    Attributes:
        steps: how many steps the next call should make.
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
    each had five calls. The least median time of a step wins.

    Attributes:
        next: the function to call next; the fastest one when it is known.
    """

    def __init__(self, variants: Sequence[Callable[[int], Any]]):
        self._variants = list(variants)
        self._step_secs: List[List[float]] = [[] for _ in variants]
        self._spent_secs = 0.0
        self._calls = 0
        self.next = self._variants[0]
        self.is_decided = len(self._variants) == 1

    def observe(self, secs: float, steps: int) -> None:
        """Learn from a call of `next`.

        Args:
            secs: how long the call took.
            steps: how many steps it made.
        """
        if self.is_decided:
            return
        index = self._calls % len(self._variants)
        self._calls += 1
        if self._calls > WARM_UP_CALLS * len(self._variants):
            self._step_secs[index].append(secs / steps)
            self._spent_secs += secs
            self.is_decided = self._is_known()
        if self.is_decided:
            medians = [statistics.median(secs) for secs in self._step_secs]
            self.next = self._variants[medians.index(min(medians))]
        else:
            self.next = self._variants[self._calls % len(self._variants)]

    def _is_known(self) -> bool:
        fewest = min(map(len, self._step_secs))
        is_enough = fewest >= 5 and self._spent_secs >= ENOUGH_SECS
        return fewest >= MAX_TRIAL_CALLS or is_enough
