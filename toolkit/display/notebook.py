"""The console of a notebook, which writes below the cell."""

from __future__ import annotations

import sys

from .console import Console


def is_notebook() -> bool:
    """Whether a kernel of Jupyter runs this code."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


class NotebookConsole(Console):
    """Writes to stdout, where a notebook does not colour lines as errors; progress is one line that
    is written again in its place.
    """

    is_terminal = False

    def __init__(self) -> None:
        super().__init__(sys.stdout, every_secs=0.5)
        self._width = 0  # of the line of progress that others replace

    def show(self, text: str) -> None:
        first, *rest = text.split("\n")
        first = f"\r{first.ljust(self._width)}" if self._width else first
        super().show("\n".join([first, *rest]))
        self._width = 0

    def show_progress(self, text: str) -> None:
        self._stream.write(f"\r{text.ljust(self._width)}")
        self._stream.flush()
        self._width = len(text)

    def stop(self) -> None:
        super().stop()
        if self._width:
            self._stream.write("\n")
        self._width = 0
