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

    @property
    def has_rows(self) -> bool:
        return True

    def add_row(self, read: Callable[[float], Dict[str, Any]]) -> Callable[[], None]:
        bar = NotebookBar(read)
        bar.start()
        return bar.stop


class NotebookBar(threading.Thread):
    """Shows how far some work is, and the time that is left.

    It reads what it shows when it draws, so that the work never waits for it.

    Args:
        read: as of `Console.add_row`.
    """

    def __init__(self, read: Callable[[float], Dict[str, Any]]):
        super().__init__(daemon=True)
        from IPython.display import display

        self._read, self._start_time = read, time.monotonic()
        self._start = read(0)["completed"]
        self._end = threading.Event()
        self._handle = display(self._draw(), raw=True, display_id=True)

    def run(self) -> None:
        while not self._end.wait(REDRAW_SECS):
            self._handle.update(self._draw(), raw=True)

    def stop(self) -> None:
        """Draw the bar as it is at the end, and leave it."""
        self._end.set()
        self.join()
        self._handle.update(self._draw(), raw=True)

    def _draw(self) -> Dict[str, str]:
        secs = time.monotonic() - self._start_time
        done = self._read(0)["completed"] - self._start
        values = self._read(done / secs if secs else 0)
        total, left = values["total"], f"{secs:.0f} s"
        if total and 0 < done < total - self._start:
            left = f"{secs / done * (total - self._start - done):.0f} s left"
        text = "  ".join(filter(None, (values["description"], values["text"], left)))
        state = f'value="{values["completed"]}" max="{total}" ' if total else ""
        bar = f'<progress {state}style="width: 20em"></progress> '
        return {"text/plain": text, "text/html": f"<div>{bar}{html.escape(text)}</div>"}
