"""Tables of plain text, whose columns rich lines up; it is imported when a table is made."""

from __future__ import annotations

import io
from typing import List, Optional, Sequence

from .escapes import escape_line

GAP = 2  # columns of the terminal between two columns of a table
_UNLIMITED = 100_000  # columns of a table that no terminal limits


def format_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: Optional[int] = None,
    right: Sequence[str] = (),
) -> List[str]:
    """The lines of a table: the header, then each row; control characters in cells are escaped. In
    a terminal of `width` columns wide cells are broken into several lines; None: each row is one
    line. `right` names the columns to align at their right ends.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for name in header:
        table.add_column(
            Text(escape_line(name)),
            justify="right" if name in right else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(escape_line(cell)) for cell in row))
    stream = io.StringIO()
    console = Console(file=stream, width=width or _UNLIMITED, color_system=None)
    console.print(table)
    return [line.rstrip() for line in stream.getvalue().splitlines()]
