"""Texts of strangers, such as names of files and classes, made harmless for terminals and tables.

`escape_controls` serves every text that reaches a terminal, and `table_cell` every text in a CSV
file.
"""

from __future__ import annotations

import re
from typing import Match

# What moves the cursor, changes the terminal or the direction of writing, or is no character:
# C0 without tab and newline, DEL and C1, marks of direction, separators of lines, lone surrogates.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_FORMULA = re.compile(r"\s*[=+\-@]|[\t\r]")  # at the start of a cell, what spreadsheets run


def escape_controls(text: str) -> str:
    """The text with control characters written as in Python: `\\x1b`, `\\u202e`."""
    return _CONTROLS.sub(_escape, text)


def escape_line(text: str) -> str:
    """Like `escape_controls`, with tabs and newlines escaped too: the text stays in its line."""
    return escape_controls(text).replace("\n", "\\n").replace("\t", "\\t")


def table_cell(text: str) -> str:
    """The text for a cell of a CSV file; an apostrophe keeps spreadsheets from running it."""
    return escape_controls("'" + text if _FORMULA.match(text) else text)


def _escape(match: Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
