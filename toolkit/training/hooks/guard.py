"""Report the steps that the non-finite guard skipped.

The guard itself is in the graph (graph/guard.py): a step whose loss or gradient is not finite
changes no variable. With `--on-nonfinite stop` the session fails and the loop reports it; with
`skip` this hook counts.
"""

from __future__ import annotations

from typing import Any, Dict

from ...errors import DivergedError
from .base import NEVER, Every, SessionHook

WINDOW = 100  # steps; independent of --log-steps, which does not affect the result


class Guard(SessionHook):
    """Reports skipped steps, and ends a run in which every step was skipped: of the run, or from
    one multiple of WINDOW to the next. `counters` are int64 scalars by name, the number of skipped
    steps up to and with this one; none with `--on-nonfinite stop`.
    """

    name = "guard"

    def __init__(self, counters: Dict[str, Any], steps: int):
        self.every = Every(steps) if counters else None
        self._counters = counters
        self._last_counts: Dict[str, int] = {}
        self._last_step = 0
        self._window_counts: Dict[str, int] = {}  # at the last multiple of WINDOW

    def state(self):
        if not self._counters:
            return {}
        counts = {"seen": self._last_counts, "window": self._window_counts}
        return dict(counts, at=self._last_step)

    def set_state(self, state):
        self._last_counts = dict(state.get("seen", dict.fromkeys(self._counters, 0)))
        self._last_step = state.get("at", 0)
        self._window_counts = dict(state.get("window", self._last_counts))

    def next_due_step(self, step: int) -> float:
        next_window = (step // WINDOW + 1) * WINDOW if self._counters else NEVER
        return min(super().next_due_step(step), next_window)

    def is_due(self, step: int) -> bool:
        return super().is_due(step) or (bool(self._counters) and step % WINDOW == 0)

    def fetches(self):
        return dict(self._counters) or None

    def on_step(self, step, values, context):
        if super().is_due(step):
            for name, value in (values or {}).items():
                skipped = int(value) - self._last_counts[name]
                if skipped > 0:
                    event = {"step": step, "kind": "event", "event": name, "count": skipped}
                    self.loop.record(event)
                    self.loop.log(
                        f"warning: {skipped} non-finite step(s) skipped up to step {step}"
                    )
                self._last_counts[name] = int(value)
            self._last_step = step
        # Where all steps of a window or of the run were skipped, the run ends.
        ends_window, lost = step % WINDOW == 0, None
        for name, count in (values or {}).items():
            skipped = int(count) - self._window_counts[name]
            is_run_lost = count >= step > 1 and self.loop.is_last(step)
            if is_run_lost or (ends_window and skipped >= WINDOW):
                lost = skipped
            if ends_window:  # before the error, too: a resume begins with the next window
                self._window_counts[name] = int(count)
        if lost is not None:
            raise DivergedError(
                f"All of the last {lost} steps up to step {step} were non-finite.",
                hint="Try a lower --learning-rate, or --clip global-norm.",
            )
