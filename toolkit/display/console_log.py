"""What the console of a run showed, `console.log`: a line of text each, after its time in UTC.

The file serves people. Nothing reads it back, no hash covers it, and a failure to write it, as on
a full disk, ends nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import time
from typing import List, Optional, Sequence

from ..files import open_without_links
from .escapes import escape_line

CONSOLE_LOG = "console.log"
MAX_BYTES = 64 << 20  # what a plugin prints in each step must not fill the disk
_MAX_LINE = 10_000  # characters
_MAX_WAITING = 10_000  # records of a process that opens no file
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK


class ConsoleLog(logging.Handler):
    """Appends texts to a file at once, so that a kill loses none; `open` it when the run begins."""

    def __init__(self) -> None:
        super().__init__()
        formatter = logging.Formatter("%(asctime)s %(message)s\n", "%Y-%m-%dT%H:%M:%SZ")
        formatter.converter = time.gmtime
        self.setFormatter(formatter)
        self._waiting: Optional[List[str]] = []  # texts before it is open
        self._descriptor: Optional[int] = None

    def open(self, folder: str, command: Sequence[str]) -> None:
        """Write the texts so far, and all further ones, to the log of a run's folder, after the
        command of this session.
        """
        waiting = self._waiting or []
        self.end()
        with contextlib.suppress(OSError):
            self._descriptor = open_without_links(os.path.join(folder, CONSOLE_LOG), _FLAGS)
        self._waiting = None
        self.write(f"session: {' '.join(map(shlex.quote, command))}")
        self._append("".join(waiting))

    def write(self, text: str) -> None:
        """Add a text, a record for each line, whatever somebody did to the loggers."""
        for line in text.rstrip("\n").split("\n"):
            text = escape_line(line[:_MAX_LINE])
            self.handle(logging.LogRecord("", logging.INFO, "", 0, text, None, None))

    def emit(self, record: logging.LogRecord) -> None:
        if self._waiting is None:
            self._append(self.format(record))
        elif len(self._waiting) < _MAX_WAITING:
            self._waiting.append(self.format(record))

    def end(self) -> None:
        """End the file; later texts wait for the next `open`. `logging` calls `close`, not this."""
        self._waiting = []
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    def _append(self, text: str) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                if os.fstat(self._descriptor).st_size < MAX_BYTES:
                    os.write(self._descriptor, text.encode())
