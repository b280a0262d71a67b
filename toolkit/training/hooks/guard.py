"""Report the steps that the non-finite guard skipped.

The guard itself is in the graph (graph/guard.py): a step whose loss or gradient is not finite
changes no variable. With `--on-nonfinite stop` the session fails and the loop reports it; with
`skip` this hook counts.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from ...errors import DivergedError
from .base import Every, SessionHook


class Guard(SessionHook):
    """Reports skipped steps, and ends a run in which every step was skipped.

    Args:
        counters: name -> int64 scalar, the number of skipped steps up to and with this one; empty
            with `--on-nonfinite stop`.
        steps: how often to look.
        record: takes an event's record.
        log: shows a line.
    """

    name = "guard"

    def __init__(
        self,
        counters: Dict[str, Any],
        steps: int,
        record: Callable[[Dict[str, Any]], None],
        log: Callable[[str], None],
    ):
        self.every = Every(steps) if counters else None
        self._counters = counters
        self._record = record
        self._log = log
        self._last_counts: Dict[str, int] = {}
        self._last_step = 0

    def state(self):
        return {"seen": self._last_counts, "at": self._last_step} if self._counters else {}

    def set_state(self, state):
        self._last_counts = dict(state.get("seen", dict.fromkeys(self._counters, 0)))
        self._last_step = state.get("at", 0)

    def fetches(self):
        return dict(self._counters) or None

    def on_step(self, step, values, context):
        for name, value in (values or {}).items():
            skipped = int(value) - self._last_counts[name]
            if skipped > 0:
                self._report(name, step, skipped)
            self._last_counts[name] = int(value)
        self._last_step = step

    def _report(self, name: str, step: int, skipped: int) -> None:
        self._record({"step": step, "kind": "event", "event": name, "count": skipped})
        self._log(f"warning: {skipped} non-finite step(s) skipped up to step {step}")
        if skipped >= step - self._last_step > 1:
            raise DivergedError(
                f"All of the last {skipped} steps up to step {step} were non-finite.",
                hint="Try a lower --learning-rate, or --clip global-norm.",
            )
