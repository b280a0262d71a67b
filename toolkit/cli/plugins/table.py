"""Tables on stdout."""

from __future__ import annotations

import sys
from typing import Sequence


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells in aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
