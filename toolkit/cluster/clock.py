"""The time of a channel."""

from __future__ import annotations

import threading
import time
from typing import Union


class Clock:
    """The time by which a channel waits and judges silence. Tests have one that they move."""

    def now(self) -> float:
        """The time in seconds."""
        return time.monotonic()

    def wait(self, happening: Union[threading.Event, threading.Condition], secs: float) -> bool:
        """Wait until something happens; False if it does not within a time."""
        return happening.wait(secs)
