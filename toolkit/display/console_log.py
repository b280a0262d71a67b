"""What the console of a run showed, `console.log`: a line of text each, after its time in UTC.

The file serves people. Nothing reads it back, no hash covers it, and a failure to write it, as on
a full disk, ends nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shlex
from typing import Callable, List, Optional, Sequence

from ..files import open_without_links
from .escapes import escape_line

CONSOLE_LOG = "console.log"
MAX_BYTES = 64 << 20  # what a plugin prints in each step must not fill the disk
_MAX_LINE = 10_000  # characters
_MAX_WAITING = 10_000  # lines before the run has a folder
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


class ConsoleLog:
    """Appends lines to a file at once, so that a kill loses none; `open` it when the run begins.

    Args:
        now: returns the time in UTC.
    """

    def __init__(self, now: Callable[[], datetime.datetime] = _now):
        self._now = now
        self._waiting: List[bytes] = []
        self._descriptor: Optional[int] = None
        self._is_open = False

    def open(self, folder: str, command: Sequence[str]) -> None:
        """Write the lines so far, and all further ones, to the log of a run's folder.

        Args:
            folder: its path.
            command: of this session, with which its lines begin.
        """
        self.close()
        self._is_open = True
        with contextlib.suppress(OSError):
            self._descriptor = open_without_links(os.path.join(folder, CONSOLE_LOG), _FLAGS)
        lines, self._waiting = self._waiting, []
        self.write(f"session: {' '.join(map(shlex.quote, command))}")
        for line in lines:
            self._append(line)

    def write(self, text: str) -> None:
        """Append a text; each of its lines with the time."""
        time = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        for line in text.rstrip("\n").split("\n"):
            content = f"{time} {escape_line(line[:_MAX_LINE])}\n".encode()
            if self._is_open:
                self._append(content)
            elif len(self._waiting) < _MAX_WAITING:
                self._waiting.append(content)

    def close(self) -> None:
        """End the file; later lines wait for the next `open`."""
        self._is_open = False
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    def _append(self, content: bytes) -> None:
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            if os.fstat(self._descriptor).st_size < MAX_BYTES:
                os.write(self._descriptor, content)
