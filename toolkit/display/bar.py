"""The progress bar of a terminal, which rich draws; importing this module imports rich."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, TextIO

from rich.console import Console as RichConsole
from rich.console import ConsoleRenderable, RenderableType
from rich.control import Control
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import ControlType, Segment
from rich.text import Text

from .escapes import escape_controls

REDRAWS_PER_SEC = 4


class Bar(Progress):
    """Shows the step, the speed and the newest metrics of a run in one line.

    It reads the step when it draws, so that the loop never waits for it.

    Args:
        stream: the terminal.
        total_steps: the step at which the run ends.
        read_step: returns the number of steps so far.
    """

    def __init__(self, stream: TextIO, total_steps: int, read_step: Callable[[], int]):
        self._read_step = read_step
        super().__init__(
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[speed]}"),
            TextColumn("{task.fields[metrics]}", markup=False),
            TimeRemainingColumn(),
            console=_PlainCursorConsole(file=stream),
        )
        self.live = _FirstColumnLive(
            console=self.console,
            refresh_per_second=REDRAWS_PER_SEC,
            transient=True,
            get_renderable=self.get_renderable,
        )
        self.add_task("", total=total_steps, completed=read_step(), metrics="", speed="")

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:  # none while rich creates the bar
            speed = f"{task.speed or 0:.0f} steps/s"
            self.update(task.id, completed=self._read_step(), speed=speed)
        return super().get_renderables()

    def show_metrics(self, text: str) -> None:
        """Show the newest metrics from the next redraw on."""
        for task in self.tasks:
            self.update(task.id, metrics=escape_controls(text))

    def write_line(self, text: str) -> None:
        """Write a line above the bar."""
        self.console.print(text)


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


class _FirstColumnLive(Live):
    """Leaves the cursor in the first column of what it draws.

    When a terminal gets narrower and breaks the bar into several rows, the cursor stays at the
    first of them, so erasing from there downwards erases all.
    """

    def process_renderables(self, renderables: List[ConsoleRenderable]) -> List[ConsoleRenderable]:
        drawing = super().process_renderables(renderables)
        return [_erase_below(), *drawing, Control(ControlType.CARRIAGE_RETURN)]


def _erase_below() -> Control:
    """Erases from the cursor to the end of the screen; rich has no name for that."""
    control = Control()
    control.segment = Segment("\x1b[J", None, [(ControlType.CLEAR,)])
    return control
