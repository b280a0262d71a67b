"""Report the steps that the non-finite guard skipped.

The guard itself is in the graph (graph/guard.py): a step whose loss or gradient is not finite
changes no variable. With `--on-nonfinite stop` the session fails and the loop reports it; with
`skip` this hook counts.
"""

from __future__ import annotations

from typing import Any

from ...errors import DivergedError
from ...graph.guard import SKIPPED_STEPS
from .base import NEVER, Every, SessionHook

WINDOW = 100  # steps; independent of --log-steps, which does not affect the result


class Guard(SessionHook):
    """Reports skipped steps, and ends a run in which every step was skipped: of the run, or from
    one multiple of WINDOW to the next. `counter` is an int64 scalar, the number of skipped steps up
    to and with this one; None with `--on-nonfinite stop`.
    """

    name = "guard"

    def __init__(self, counter: Any, steps: int):
        self.every = None if counter is None else Every(steps)
        self._counter = counter
        self._reported = 0  # of the skipped steps
        self._before_window = 0  # skipped steps up to the last multiple of WINDOW

    def state(self):
        if self._counter is None:
            return {}
        counts = {"seen": self._reported, "window": self._before_window}
        return {key: {SKIPPED_STEPS: count} for key, count in counts.items()}

    def set_state(self, state):
        counts = [state.get(key, {}).get(SKIPPED_STEPS, 0) for key in ("seen", "window")]
        self._reported, self._before_window = counts

    def next_due_step(self, step: int) -> float:
        next_window = NEVER if self._counter is None else (step // WINDOW + 1) * WINDOW
        return min(super().next_due_step(step), next_window)

    def is_due(self, step: int) -> bool:
        return super().is_due(step) or (self._counter is not None and step % WINDOW == 0)

    def fetches(self):
        return self._counter

    def on_step(self, step, values, context):
        if values is None:
            return
        count = int(values)
        if super().is_due(step):
            skipped = count - self._reported
            if skipped > 0:
                event = {"step": step, "kind": "event", "event": SKIPPED_STEPS, "count": skipped}
                self.loop.record(event)
                self.loop.log(f"warning: {skipped} non-finite step(s) skipped up to step {step}")
            self._reported = count
        # Where all steps of a window or of the run were skipped, the run ends.
        ends_window, lost = step % WINDOW == 0, count - self._before_window
        if ends_window:  # before the error, too: a resume begins with the next window
            self._before_window = count
        if (ends_window and lost >= WINDOW) or (count >= step > 1 and self.loop.is_last(step)):
            raise DivergedError(
                f"All of the last {lost} steps up to step {step} were non-finite.",
                hint="Try a lower --learning-rate, or --clip global-norm.",
            )
