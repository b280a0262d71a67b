"""One log of several processes: each line with the name of its process in front."""

from __future__ import annotations

import os
import sys
from typing import Any, List, Sequence

from ..display.console import Console
from ..display.escapes import escape_controls

LAUNCHER = "launch"  # the name in front of the launcher's own lines
MAX_LINE = 1 << 16  # bytes; a longer line is broken
_CODES = (36, 33, 35, 34, 32)  # of colours, in turn


class LineSplitter:
    """Splits what a process writes into lines; of what a carriage return replaces, the last."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> List[bytes]:
        """The lines that end in what the process wrote next."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > MAX_LINE:
            lines.append(self._rest[:MAX_LINE])
            self._rest = self._rest[MAX_LINE:]
        return [line.rstrip(b"\r").rpartition(b"\r")[2] for line in lines]

    def close(self) -> List[bytes]:
        """The unfinished last line, at the end of the output."""
        return self.feed(b"\n") if self._rest.strip() else []


class MergedLog:
    """Writes the lines of all processes, of these names, to stderr, and the results of one to
    stdout.
    """

    def __init__(self, names: Sequence[str]):
        stream: Any = sys.stderr
        self._stream = getattr(stream, "unescaped", stream)  # this class escapes what it writes
        self._has_colours = Console(stream).is_terminal and not os.environ.get("NO_COLOR")
        self._names = [LAUNCHER, *names]
        self._width = max(map(len, self._names))

    def write(self, name: str, text: str) -> None:
        """Write one line, with the name of its process in front: `chief    | text`."""
        prefix = f"{name:{self._width}} |"
        if self._has_colours:
            code = _CODES[self._names.index(name) % len(_CODES)]
            prefix = f"\x1b[{code}m{prefix}\x1b[0m"
        line = f"{prefix} {escape_controls(text)}".replace("\n", "\\n").rstrip()
        self._stream.write(line + "\n")
        self._stream.flush()

    def add(self, name: str, lines: Sequence[bytes]) -> None:
        """Write lines that a process put out."""
        for line in lines:
            self.write(name, line.decode("utf-8", "backslashreplace"))

    def write_result(self, text: str) -> None:
        """Write to stdout, without a prefix."""
        sys.stdout.write(text)
        sys.stdout.flush()
