"""The progress bars of a terminal, which rich draws; importing this module imports rich."""

from __future__ import annotations

import sys
from typing import Any, Iterable, TextIO

from rich.console import Console as RichConsole
from rich.progress import (
    BarColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from .escapes import escape_controls, escape_line

REDRAWS_PER_SEC = 4


class Bar(Progress):
    """The newest of some rows at the bottom of a terminal: a text, a bar, another text, the time.
    It reads what they show when it draws, so that the work never waits for it, by the field "read"
    of each task, see `Console.add_row`; texts are escaped.
    """

    def __init__(self, stream: TextIO):
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[text]}", markup=False),
            _TimeColumn(),
            console=_PlainCursorConsole(file=stream),
            refresh_per_second=REDRAWS_PER_SEC,
            transient=True,
            # What a command writes to a file stays in it.
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
        )

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        """Draw the newest row alone: what it waits for is a part of what the others do."""
        newest = list(tasks)[-1:]  # none while rich creates the bar
        for task in newest:
            values = task.fields["read"](task.speed or 0)
            for name in ("description", "text"):
                values[name] = escape_line(values[name])
            self.update(task.id, **values)
        return super().make_tasks_table(newest)


class _TimeColumn(TimeRemainingColumn):
    """The time left, or where that is unknown, the time since the start."""

    def render(self, task: Task) -> Text:
        return TimeElapsedColumn().render(task) if task.total is None else super().render(task)


class _PlainCursorConsole(RichConsole):
    """Never hides the cursor: a process that a signal ends could not show it again.

    It escapes control characters in texts, also in those that plugins print while there is a bar,
    which rich redirects to here.
    """

    def print(self, *objects: Any, **more: Any) -> None:
        texts = [
            escape_controls(str(item)) if isinstance(item, (str, Text)) else item
            for item in objects
        ]
        super().print(*texts, **dict(more, markup=False, highlight=False, soft_wrap=True))

    def show_cursor(self, show: bool = True) -> bool:
        return False
