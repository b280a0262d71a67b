"""The non-finite guard, as the loop sees it.

The guard itself is in the graph (see `toolkit.graph.optimizer`): no variable changes in a step
whose loss or gradient is not finite. With the policy "stop" the session raises and the loop tells;
with "skip" this hook counts.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from ...errors import DivergedError
from .base import Every, Hook


class Guard(Hook):
    """Reports skipped steps every `steps`, and gives up when none of them went through.

    counters: name -> int64 scalar, the number of skipped steps up to and with this one; empty with
    the policy "stop".
    """

    name = "guard"

    def __init__(self, counters: Dict[str, Any], steps: int, record, talk: Callable[[str], None]):
        self.every = Every(steps) if counters else Every()
        self._counters = counters
        self._record = record
        self._talk = talk
        self._seen: Dict[str, int] = {}
        self._seen_at = 0

    def state(self):
        return {"seen": self._seen, "at": self._seen_at} if self._counters else {}

    def set_state(self, state):
        self._seen = dict(state.get("seen", dict.fromkeys(self._counters, 0)))
        self._seen_at = state.get("at", 0)

    def fetches(self):
        return dict(self._counters) or None

    def on_step(self, step, values, context):
        for name, value in (values or {}).items():
            skipped = int(value) - self._seen[name]
            if skipped > 0:
                self._tell(name, step, skipped)
            self._seen[name] = int(value)
        self._seen_at = step

    def _tell(self, name: str, step: int, skipped: int) -> None:
        self._record({"step": step, "kind": "event", "event": name, "count": skipped})
        self._talk(f"warning: {skipped} non-finite step(s) skipped up to step {step}")
        if skipped >= step - self._seen_at > 1:
            raise DivergedError(
                f"All of the last {skipped} steps up to step {step} were non-finite.",
                hint="Try a lower --learning-rate, or --clip global-norm.",
            )
