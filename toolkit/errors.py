"""What can go wrong, each kind with its exit code.

    ToolkitError          1   training or a plugin failed
    +-- UsageError        2   a flag, option, plugin name or configuration is wrong
    +-- DivergedError     3   a loss or a gradient is not finite
    +-- DataError         4   the data cannot be used as it is
    +-- CheckpointError   5   a checkpoint is damaged or fits another model
    +-- CheckFailed       6   a check that the user asked for did not hold
    +-- InterruptedRun    130 or 143, with the state committed
    +-- RetryError        138 a fault of the machine: the same command may succeed later

A message is one sentence with the values and the place; the hint is one sentence with the way out.
"""

from __future__ import annotations

import difflib
from typing import Iterable


class ToolkitError(Exception):
    """A mistake or a fault that is told in a sentence, never with a traceback."""

    exit_code = 1

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(part for part in (self.message, self.hint) if part)


class UsageError(ToolkitError):
    exit_code = 2


class DivergedError(ToolkitError):
    exit_code = 3


class DataError(ToolkitError):
    exit_code = 4


class CheckpointError(ToolkitError):
    exit_code = 5


class CheckFailed(ToolkitError):
    exit_code = 6


class InterruptedRun(ToolkitError):
    """Ctrl-C (signal 2, exit 130) or a request to end (signal 15, exit 143)."""

    def __init__(self, message: str, hint: str = "", signum: int = 2):
        super().__init__(message, hint)
        self.exit_code = 128 + signum


class RetryError(ToolkitError):
    exit_code = 138


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, or with all of them where none is near."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"Known: {', '.join(known)}." if known else "None is known."
