"""Tables of plain text whose columns line up, also with characters that are two columns wide."""

from __future__ import annotations

import unicodedata
from typing import List, Optional, Sequence

from .escapes import escape_line

GAP = "  "  # between two columns
CUT = "..."  # ends a text that was shortened
MIN_WIDTH = 8  # to which a column is narrowed, at least
MIN_LAST_WIDTH = 16  # to which the last column is narrowed before the others


def format_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: Optional[int] = None,
    right: Sequence[str] = (),
    paths: Sequence[str] = (),
) -> List[str]:
    """The lines of a table: the header, then one line per row.

    Args:
        header: the names of the columns.
        rows: the cells; control characters in them are escaped.
        width: of the terminal in columns: cells are cut until the lines fit, the last column's
            first, then the widest; None: no cell is cut.
        right: the names of the columns to align at their right ends.
        paths: the names of the columns whose cells are cut at their start.
    """
    cells = [[escape_line(cell) for cell in row] for row in [header, *rows]]
    widths = [max(map(text_width, column)) for column in zip(*cells)]
    if width is not None:
        widths = _narrow(widths, width)
        cuts = [_cut_start if name in paths else cut_text for name in header]
        cells = [[cut(cell, size) for cut, cell, size in zip(cuts, row, widths)] for row in cells]
    is_right = [name in right for name in header]
    return [
        GAP.join(_pad(*parts) for parts in zip(row, widths, is_right)).rstrip() for row in cells
    ]


def text_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def cut_text(text: str, width: int) -> str:
    """The text, or its start and three dots if it is wider than `width` columns."""
    if text_width(text) <= width:
        return text
    start, used = "", 0
    for character in text:
        used += _character_width(character)
        if used > width - len(CUT):
            break
        start += character
    return (start + CUT)[: max(0, width)] if width < len(CUT) else start + CUT


def _cut_start(text: str, width: int) -> str:
    """Like `cut_text`, but the end of the text remains."""
    return text if text_width(text) <= width else cut_text(text[::-1], width)[::-1]


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def total_width(widths: Sequence[int]) -> int:
    """The width of a table whose columns have these widths."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _narrow(widths: Sequence[int], width: int) -> List[int]:
    """Widths of columns that fit into a terminal, as far as MIN_WIDTH allows."""
    narrowed = list(widths)
    excess = total_width(widths) - width
    last = max(0, min(excess, narrowed[-1] - MIN_LAST_WIDTH))
    narrowed[-1] -= last
    excess -= last
    while excess > 0 and max(narrowed) > MIN_WIDTH:
        widest = narrowed.index(max(narrowed))
        others = [size for place, size in enumerate(narrowed) if place != widest]
        step = min(excess, max(1, narrowed[widest] - max([MIN_WIDTH, *others])))
        narrowed[widest] -= step
        excess -= step
    return narrowed


def _pad(text: str, width: int, is_right: bool) -> str:
    space = " " * max(0, width - text_width(text))
    return space + text if is_right else text + space
