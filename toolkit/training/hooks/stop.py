"""Stop at the run's last step, or after a time."""

from __future__ import annotations

import time
from typing import Callable, Optional

from .base import NEVER, SessionHook


class Stop(SessionHook):
    """Ends the run at its target, and pauses it when a time has passed.

    Args:
        secs: seconds of training after which the run pauses; None for no limit.
        clock: returns seconds.
    """

    name = "stop"

    def __init__(self, secs: Optional[float], clock: Callable[[], float] = time.monotonic):
        self._secs = secs
        self._clock = clock
        self._deadline = NEVER

    def on_restore(self, session, step):
        if self._secs is not None and self._deadline == NEVER:
            self._deadline = self._clock() + self._secs

    def deadline(self) -> float:
        return self._deadline

    def is_due(self, step: int) -> bool:
        return step >= self.loop.target or self._clock() >= self._deadline

    def on_step(self, step, values, context):
        if step >= self.loop.target:
            self.loop.request_stop(f"reached step {step}")
        else:
            self.loop.request_last_step(f"{self._secs:g} seconds have passed")
