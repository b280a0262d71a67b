"""Stop at the run's last step, or after a time."""

from __future__ import annotations

import time
from typing import Optional

from .base import NEVER, SessionHook


class Stop(SessionHook):
    """Ends the run at its target, and pauses it after seconds of training; None for no limit."""

    name = "stop"

    def __init__(self, secs: Optional[float]):
        self._secs, self._deadline = secs, NEVER

    def on_restore(self, session, step):
        if self._secs is not None and self._deadline == NEVER:
            self._deadline = time.monotonic() + self._secs

    def deadline(self) -> float:
        return self._deadline

    def is_due(self, step: int) -> bool:
        return step >= self.loop.target or time.monotonic() >= self._deadline

    def on_step(self, step, values, context):
        if step >= self.loop.target:
            self.loop.request_stop(f"reached step {step}")
        else:
            self.loop.request_last_step(f"{self._secs:g} seconds have passed")
