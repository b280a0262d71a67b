"""The console output of a run: a progress bar on a terminal, one line in a notebook, else lines."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, TextIO

from .console_log import ConsoleLog
from .numbers import format_number, format_rate

FIRST_METRICS = ("loss", "accuracy")  # first in a line, if a record has them
MAX_METRICS = 5  # in a line; metrics.jsonl and TensorBoard have all of them
MAX_BAR_METRICS = 2  # in the progress bar
SPEED_FIELDS = ("examples_per_sec", "seconds", "secs_left")  # of a record, besides its metrics
DUMB_TERMINALS = ("", "dumb", "unknown")  # values of TERM


consoles: List[Console] = []  # those that show what a person waits for: the last one


class Console:
    """Writes lines and the progress of a run, by default to stderr; in a pipe, at least
    `every_secs` seconds are between two lines of progress. rich obeys NO_COLOR.
    """

    def __init__(
        self,
        stream: Optional[TextIO] = None,
        every_secs: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._stream = stream or sys.stderr
        self._every_secs = every_secs
        self._clock = clock
        self._last_line_time = 0.0
        self._terminal: Any = None  # to draw on; the stream itself if it is not set
        self._bar: Any = None
        self._bar_metrics = ""
        self._lock = threading.RLock()  # of the bar: waits come and go by a thread of their own
        self._remove_row: Optional[Callable[[], None]] = None
        self._total_steps = 0
        self.file = ConsoleLog()  # in a run's folder: what is shown, too, and progress as lines
        self._start_time = 0.0

    @property
    def is_terminal(self) -> bool:
        """Whether the stream is a terminal in which lines can be drawn again: by its variable TERM,
        which is empty or "dumb" if it cannot.
        """
        if self._terminal is not None:  # while its stream is captured, too
            return True
        if os.environ.get("TERM", "") in DUMB_TERMINALS:
            return False
        return bool(getattr(self._stream, "isatty", lambda: False)())

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Within the block, this console shows what a person waits for (`waits.py`)."""
        with contextlib.ExitStack() as stack:
            if self.is_terminal:  # what captures stderr, as compat.py does, leaves the bar alone
                with contextlib.suppress(OSError):  # a stream without a descriptor
                    copy = os.dup(self._stream.fileno())
                    self._terminal = stack.enter_context(open(copy, "w", encoding="utf-8"))
            consoles.append(self)
            try:
                yield
            finally:
                consoles.remove(self)
                self._terminal = None

    def add_row(self, read: Callable[[float], Dict[str, Any]]) -> Callable[[], None]:
        """Draw a row with a bar in place of the others; return what removes it. `read` maps the
        speed, in units of "completed" per second, to the values "description", "completed", "total"
        (None if it is unknown) and "text".
        """
        with self._lock:
            if self._bar is None:
                from .bar import Bar

                # The bar sends control codes; it escapes those in texts itself.
                stream = getattr(self._stream, "unescaped", self._stream)
                self._bar = Bar(self._terminal or stream)
                self._bar.start()
            row = self._bar.add_task("", total=None, text="", read=read)

        def remove() -> None:
            with self._lock:
                self._bar.remove_task(row)
                self._bar.refresh()
                if not self._bar.tasks:
                    self._bar.stop()
                    self._bar = None

        return remove

    def log(self, text: str) -> None:
        """Write one line; above the progress bar if there is one."""
        self.file.write(text)
        self.show(text)

    def warn(self, text: str) -> None:
        """Log a warning."""
        self.log("warning: " + text)

    def show(self, text: str) -> None:
        """Write one line, but not to the log in the run's folder."""
        with self._lock:
            if self._bar is not None:
                self._bar.console.print(text)
            else:
                self._stream.write(text + "\n")
                self._stream.flush()

    def show_progress(self, text: str) -> None:
        """Write the line of a metrics record, where there is no bar."""
        self.show(text)

    def start(self, total_steps: int, read_step: Callable[[], int]) -> None:
        """Start to show progress up to a step; `read_step` returns the number of steps so far."""
        self._total_steps, self._bar_metrics = total_steps, ""

        def read(speed: float) -> Dict[str, Any]:
            step = read_step()
            return {
                "description": f"step {step}/{total_steps}",
                "completed": step,
                "total": total_steps,
                "text": f"{format_rate(speed)} steps/s  {self._bar_metrics}",
            }

        if self.is_terminal:
            self._remove_row = self.add_row(read)
        self._start_time = self._clock()
        self._last_line_time = self._start_time - self._every_secs

    def show_metrics(self, record: Dict[str, Any]) -> None:
        """Show a metrics record in the bar; if the last line is old enough, also record it, and
        show it as a line where there is no bar. In a long run lines come at intervals of a
        hundredth of its time.
        """
        now, is_last = self._clock(), 0 < self._total_steps <= record["step"]
        self._bar_metrics = _join_metrics(record, MAX_BAR_METRICS)
        secs = max(self._every_secs, (now - self._start_time) // 100)
        if is_last or now - self._last_line_time >= secs:
            self._last_line_time = now
            line = progress_line(record, self._total_steps)
            self.file.write(line)
            if self._remove_row is None:
                self.show_progress(line)

    def stop(self) -> None:
        """Remove the bar; lines remain."""
        if self._remove_row is not None:
            self._remove_row()
            self._remove_row = None


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


def is_notebook() -> bool:
    """Whether a kernel of Jupyter runs this code."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


def progress_line(record: Mapping[str, Any], total_steps: int) -> str:
    """`step 500/2000  loss 0.1234  accuracy 0.9630  12345 examples/s  4 s left`."""
    metrics = _join_metrics(record, MAX_METRICS)
    of_total = f"/{total_steps}" if total_steps else ""
    parts = [f"step {record['step']}{of_total}"] + ([metrics] if metrics else [])
    if "examples_per_sec" in record:
        parts.append(f"{format_rate(record['examples_per_sec'])} examples/s")
        if record["step"] < total_steps and record.get("secs_left") is not None:
            parts.append(f"{record['secs_left']:.0f} s left")
    return "  ".join(parts)


def _join_metrics(record: Mapping[str, Any], limit: int) -> str:
    """The first metrics of a record, FIRST_METRICS first: `loss 0.1234  accuracy 0.9630`."""
    names = [n for n, value in record.items() if isinstance(value, float) and n not in SPEED_FIELDS]
    names.sort(key=lambda name: name not in FIRST_METRICS)  # stable
    return "  ".join(f"{name} {format_number(record[name])}" for name in names[:limit])
