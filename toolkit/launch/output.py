"""One log of several processes: each line with the name of its process in front.

On a terminal, the progress bar of one process stays below the lines.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, List, Match, NamedTuple, Optional, Sequence

from ..cli_options import optional_output
from ..display.console import Console
from ..display.escapes import escape_controls

LAUNCHER = "launch"  # the name in front of the launcher's own lines
MAX_LINE = 1 << 16  # bytes; a longer line is broken
_CODES = (36, 33, 35, 34, 32)  # of colours, in turn
_SEQUENCE = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")  # moves the cursor, erases or colours
_COLOUR = re.compile("(\x1b\\[[0-9;]*m)")
_UP = b"\x1b[1A"
_ERASE_BELOW = "\r\x1b[J"


class Output(NamedTuple):
    """What a piece of a process's output adds to the log."""

    lines: List[bytes]
    drawing: Optional[bytes]  # the progress bar as it now is; None: the process cannot draw one


class LineSplitter:
    """Splits the output of a process into lines and drawings of a progress bar.

    What ends with a carriage return is a drawing: the next one, or a line, replaces it.

    Args:
        is_terminal: whether the process writes to a terminal, where its bar erases and moves.
    """

    def __init__(self, is_terminal: bool = False):
        self._is_terminal = is_terminal
        self._rest = b""
        self._drawing = b""
        self._has_returned = False  # after a carriage return
        self._lines: List[bytes] = []

    def feed(self, data: bytes) -> Output:
        """Split what the process wrote next."""
        parts = re.split(rb"([\r\n])", self._rest + data)
        for text, end in zip(parts[::2], parts[1::2]):
            self._end_line(text) if end == b"\n" else self._end_drawing(text)
        self._rest = parts[-1]
        while len(self._rest) > MAX_LINE:
            size = _character_boundary(self._rest, MAX_LINE)
            self._add_line(self._rest[:size])
            self._rest = self._rest[size:]
        if self._drop_last_line(self._rest):
            self._rest = self._rest[len(_UP) :]
        return self._flush()

    def close(self) -> Output:
        """The unfinished last line, at the end of the output."""
        rest, self._rest, self._drawing = self._rest, b"", b""
        if self._plain(rest).strip():
            self._add_line(rest)
        return self._flush()

    def _flush(self) -> Output:
        lines, self._lines = self._lines, []
        return Output(lines, self._drawing if self._is_terminal else None)

    def _end_line(self, text: bytes) -> None:
        if self._has_returned and not text:  # the end of a line is \r\n, or a bar ends
            text = self._drawing
        self._has_returned = False
        self._add_line(text)

    def _end_drawing(self, text: bytes) -> None:
        self._has_returned = True
        if self._plain(text).strip():
            self._drop_last_line(text)
            self._drawing = text
        elif text:  # it only erases
            self._drop_last_line(text)
            self._drawing = b""

    def _add_line(self, text: bytes) -> None:
        self._drop_last_line(text)
        self._drawing = b""
        self._lines.append(self._plain(text))

    def _drop_last_line(self, text: bytes) -> bool:
        """Take back the line that an ending bar leaves, if the text begins with its erasure."""
        is_erasure = self._is_terminal and text.startswith(_UP) and bool(self._lines)
        if is_erasure:
            self._lines.pop()
        return is_erasure

    def _plain(self, text: bytes) -> bytes:
        return _SEQUENCE.sub(b"", text) if self._is_terminal else text


def _character_boundary(data: bytes, limit: int) -> int:
    """The largest size up to `limit` at which no character in UTF-8 is broken."""
    for size in range(limit, limit - 4, -1):
        if data[size] & 0xC0 != 0x80:
            return size
    return limit


class MergedLog:
    """Writes the lines of all processes to stderr, and the results of one to stdout.

    Args:
        names: of all processes.
    """

    def __init__(self, names: Sequence[str]):
        stream: Any = sys.stderr
        self._stream = getattr(stream, "unescaped", stream)  # this class escapes what it writes
        self.is_terminal = Console(stream).is_terminal
        self._has_colours = self.is_terminal and not os.environ.get("NO_COLOR")
        self._names = [LAUNCHER, *names]
        self._width = max(map(len, self._names))
        self._status = ""

    def prefix(self, name: str) -> str:
        """What is in front of each line of a process: `chief    | `."""
        text = f"{name:{self._width}} |"
        if self._has_colours:
            code = _CODES[self._names.index(name) % len(_CODES)]
            text = f"\x1b[{code}m{text}\x1b[0m"
        return text + " "

    @property
    def prefix_width(self) -> int:
        """The number of columns of a prefix."""
        return self._width + 3

    def write(self, name: str, text: str) -> None:
        """Write one line; above the progress bar if there is one."""
        line = (self.prefix(name) + escape_controls(text).replace("\n", "\\n")).rstrip()
        self._write(f"{_ERASE_BELOW}{line}\n{self._status}" if self.is_terminal else f"{line}\n")

    def add(self, name: str, output: Output) -> None:
        """Write what a process put out."""
        for line in output.lines:
            self.write(name, decode(line))
        if output.drawing is not None:
            self.draw(name, output.drawing)

    def draw(self, name: str, drawing: bytes) -> None:
        """Show the progress bar of a process below the lines; none if the drawing is empty."""
        text = _clean_drawing(drawing)
        status = f"{self.prefix(name)}{text}\x1b[0m\r" if text.strip() else ""
        if self.is_terminal and status != self._status:
            self._status = status
            self._write(_ERASE_BELOW + status)

    def write_result(self, text: str) -> None:
        """Write to stdout, without a prefix."""
        if self.is_terminal and self._status:
            self._write(_ERASE_BELOW)
        with optional_output():  # the result of the run is in its folder
            sys.stdout.write(text)
            sys.stdout.flush()
        if self.is_terminal and self._status:
            self._write(self._status)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def decode(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _clean_drawing(drawing: bytes) -> str:
    """A drawing without control characters, but with its colours."""
    text = re.sub(_SEQUENCE, _without_movement, drawing)
    parts = _COLOUR.split(decode(text))
    parts[::2] = [escape_controls(part) for part in parts[::2]]
    return "".join(parts)


def _without_movement(match: Match[bytes]) -> bytes:
    return match.group() if match.group().endswith(b"m") else b""
