"""Stop at a step, or after a time."""

from __future__ import annotations

import time
from typing import Callable, Optional

from .base import NEVER, Hook


class Stop(Hook):
    """Asks for the end at the target, and for one last step when `secs` have passed."""

    name = "stop"

    def __init__(self, secs: Optional[float], clock: Callable[[], float] = time.monotonic):
        self._secs = secs
        self._clock = clock
        self._until = NEVER

    def on_restore(self, session, step):
        if self._secs is not None and self._until == NEVER:
            self._until = self._clock() + self._secs

    def deadline(self) -> float:
        return self._until

    def is_due(self, step: int) -> bool:
        return step >= self.loop.target or self._clock() >= self._until

    def on_step(self, step, values, context):
        if step >= self.loop.target:
            self.loop.request_stop(f"reached step {step}")
        else:
            self.loop.request_last_step(f"{self._secs:g} seconds have passed")
