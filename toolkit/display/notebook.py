"""The console of a notebook: lines below the cell, and a bar that is drawn again in its place."""

from __future__ import annotations

import html
import sys
import threading
import time
from typing import Any, Callable, Dict

from .console import Console

REDRAW_SECS = 0.5


def is_notebook() -> bool:
    """Whether a kernel of Jupyter runs this code."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


class NotebookConsole(Console):
    """Writes lines to stdout, where a notebook does not colour them as errors."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def _make_bar(self, total_steps: int, read_step: Callable[[], int]) -> Any:
        return NotebookBar(total_steps, read_step)


class NotebookBar(threading.Thread):
    """Shows the step, the newest metrics and the time that is left.

    It reads the step when it draws, so that the loop never waits for it.

    Args:
        total_steps: the step at which the run ends.
        read_step: returns the number of steps so far.
    """

    def __init__(self, total_steps: int, read_step: Callable[[], int]):
        super().__init__(daemon=True)
        from IPython.display import display

        self._total_steps, self._read_step = total_steps, read_step
        self._metrics = ""
        self._start_step, self._start_time = read_step(), time.monotonic()
        self._end = threading.Event()
        self._handle = display(self._draw(), raw=True, display_id=True)

    def run(self) -> None:
        while not self._end.wait(REDRAW_SECS):
            self._handle.update(self._draw(), raw=True)

    def show_metrics(self, text: str) -> None:
        """Show the newest metrics from the next redraw on."""
        self._metrics = text

    def write_line(self, text: str) -> None:
        """Write a line below the bar."""
        print(text)

    def stop(self) -> None:
        """Draw the bar as it is at the end, and leave it."""
        self._end.set()
        self.join()
        self._handle.update(self._draw(), raw=True)

    def _draw(self) -> Dict[str, str]:
        step, total = self._read_step(), self._total_steps
        text = "  ".join(filter(None, (f"step {step}/{total}", self._metrics, self._time(step))))
        bar = f'<progress value="{step}" max="{total}" style="width: 20em"></progress> '
        return {"text/plain": text, "text/html": f"<div>{bar}{html.escape(text)}</div>"}

    def _time(self, step: int) -> str:
        """The seconds that are left, or those that all steps took."""
        secs, num_steps = time.monotonic() - self._start_time, step - self._start_step
        if step >= self._total_steps:
            return f"{secs:.0f} s"
        return f"{secs / num_steps * (self._total_steps - step):.0f} s left" if num_steps else ""
