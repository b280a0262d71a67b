"""The exceptions of the toolkit, each with the exit code of a command that it ends.

    ToolkitError          1           training or a plugin failed
    +-- UsageError        2           a flag, option, plugin name or configuration is wrong
    +-- DivergedError     3           a loss or a gradient is not finite
    +-- DataError         4           the data cannot be used
    +-- CheckpointError   5           a checkpoint is damaged or belongs to another model
    +-- CheckFailed       6           a check that the user requested failed
    +-- InterruptedRun    129-143     SIGHUP, Ctrl-C or SIGTERM; the state is committed
    +-- RetryError        138         a fault of the machine; the same command may succeed later

A message is one sentence with the values and the place; the hint is one sentence with the way out.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from typing import Collection, Iterable, List


class ToolkitError(Exception):
    """A mistake or a fault that users see as a message and a hint, without a traceback.

    Args:
        message: what is wrong and where, one sentence with the values.
        hint: what to do about it, one sentence.

    Attributes:
        exit_code: of a command that ends with this error.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "", path: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path = path  # of the file that is missing or damaged, if it is one

    def __str__(self) -> str:
        return "\n".join(part for part in (self.message, self.hint) if part)


class UsageError(ToolkitError):
    """A flag, option, plugin name or configuration is wrong; exit code 2.

    Attributes:
        option: the name of the option whose value is wrong, if it is known while a graph is built;
            the run then says where the value is from.
    """

    option = ""

    exit_code = 2


class DivergedError(ToolkitError):
    """A loss or a gradient is not finite; exit code 3.

    Attributes:
        is_repeatable: whether the next step from the last good one is the one that was refused.
    """

    exit_code = 3
    is_repeatable = True


class DataError(ToolkitError):
    """The data cannot be used; exit code 4."""

    exit_code = 4


class CheckpointError(ToolkitError):
    """A checkpoint is damaged or belongs to another model; exit code 5."""

    exit_code = 5


class CheckFailed(ToolkitError):
    """A check that the user requested failed; exit code 6."""

    exit_code = 6


class InterruptedRun(ToolkitError):
    """A signal ended the run after it committed its state.

    Args:
        message: one sentence.
        hint: one sentence.
        signum: 1 (SIGHUP), 2 (SIGINT, Ctrl-C) or 15 (SIGTERM); the exit code is 128 more, as in a
            shell.
    """

    exit_code = 130

    def __init__(self, message: str, hint: str = "", signum: int = 2):
        super().__init__(message, hint)
        self.exit_code = 128 + signum


class RetryError(ToolkitError):
    """A fault of the machine: the same command may succeed later; exit code 138."""

    exit_code = 138


def is_verbose() -> bool:
    """Whether `-v` or the variable TOOLKIT_VERBOSE asks for tracebacks and TensorFlow's log."""
    return os.environ.get("TOOLKIT_VERBOSE", "") not in ("", "0")


def suggest(name: str, valid_names: Iterable[str]) -> str:
    """A hint for a wrong name: the most similar valid name, or all of them if none is similar."""
    names = sorted(valid_names)
    matches = difflib.get_close_matches(name, names, n=1)
    if matches:
        return f"Did you mean '{matches[0]}'?"
    return f"Known: {', '.join(names)}." if names else "None is known."


def join_names(names: Collection[str], limit: int = 5) -> str:
    """The first names, separated by commas, and how many there are besides; of a set sorted."""
    first = (sorted(names) if isinstance(names, set) else list(names))[:limit]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def suggest_path(path: str) -> str:
    """A hint for a path where nothing is: the most similar name beside it; else ""."""
    folder, name = os.path.split(path)
    matches: List[str] = []
    if not os.path.exists(path) and os.path.isdir(folder or os.curdir):
        with contextlib.suppress(OSError):
            matches = difflib.get_close_matches(name, os.listdir(folder or os.curdir), n=1)
    return f"Did you mean '{os.path.join(folder, matches[0])}'?" if matches else ""
