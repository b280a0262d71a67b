"""Values of a run folder, which anybody may have written, made safe and short for a page."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, Iterator, List, Optional

from ..display.escapes import escape_controls
from ..files import open_regular_file
from ..storage.jsonl import parse_object

MAX_TEXT = 300  # characters
MAX_INTEGER = 2**53  # the integers that JavaScript reads exactly
MAX_LINE = 1 << 20  # bytes of a JSON line
MAX_BYTES = 1 << 28  # of a JSON-lines file; what follows is left out


def clean_text(value: Any, limit: int = MAX_TEXT) -> str:
    """The text in one line, without control characters, cut to a length; "" if it is no text."""
    if not isinstance(value, str):
        return ""
    text = escape_controls(" ".join(value[: 4 * limit].split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def count(value: Any) -> Optional[int]:
    """The number if it is an integer from 0 to `MAX_INTEGER`, else None."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= MAX_INTEGER else None


def items(value: Any) -> List[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def fields(value: Any) -> Dict[str, Any]:
    """The value if it is an object of JSON, else an empty one."""
    return value if isinstance(value, dict) else {}


def shortest(value: Optional[float]) -> Optional[float]:
    """A number that is written with few digits.

    A float32 becomes the shortest number that reads as the same float32; others are rounded to nine
    digits.
    """
    if value is None or value == 0:
        return value
    if abs(value) < 3e38 and struct.unpack("f", struct.pack("f", value))[0] == value:
        for digits in range(1, 9):
            number = float(f"{value:.{digits}g}")
            if abs(number) < 3e38 and struct.unpack("f", struct.pack("f", number))[0] == value:
                return _integral(number)
    return _integral(float(f"{value:.9g}"))


def _integral(value: float) -> float:
    """The number as an int if it is a small one, which JSON writes without ".0"."""
    return int(value) if value.is_integer() and abs(value) < 1e9 else value


def format_number(value: float) -> str:
    """A number as a person reads it, with about four digits."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        text = f"{value:.4g}" if abs(value) >= 1 else f"{value:.4f}"
        return f"{value:.0f}" if "e" in text else text
    return f"{value:.3g}"


def format_count(number: int, noun: str, plural: str = "") -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_secs(seconds: float) -> str:
    """A duration: `26 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    total = int(round(seconds))
    if total < 120:
        return f"{total} s"
    if total < 7200:
        return f"{total // 60} min {total % 60} s"
    return f"{total // 3600} h {total % 3600 // 60} min"


def read_records(path: str, max_bytes: int = MAX_BYTES) -> Iterator[Dict[str, Any]]:
    """Yield the records of a JSON-lines file, in memory for one line. A file that is missing or
    cannot be read has none; a line that is no JSON object or is too long is left out.
    """
    try:
        with open_regular_file(path) as file:
            for line in _read_lines(file, max_bytes):
                record = _parse(line)
                if record is not None:
                    yield record
    except OSError:
        return


def _parse(line: bytes) -> Optional[Dict[str, Any]]:
    """The JSON object in a line; None if there is none. An object of numbers and texts alone, which
    almost all are, takes half the time.
    """
    if b"[" in line or line.count(b"{") != 1:
        return parse_object(line.decode("utf-8", "replace"))
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read_lines(file: Any, max_bytes: int) -> Iterator[bytes]:
    """Yield the complete lines of at most `MAX_LINE` bytes."""
    is_start = True
    while max_bytes > 0:
        line = file.readline(MAX_LINE)
        if not line:
            return
        max_bytes -= len(line)
        is_complete = line.endswith(b"\n")
        if is_start and is_complete:
            yield line
        is_start = is_complete


def has_more(path: str, max_bytes: int = MAX_BYTES) -> bool:
    """Whether `read_records` leaves out the end of a file."""
    try:
        return os.path.getsize(path) > max_bytes
    except OSError:
        return False
