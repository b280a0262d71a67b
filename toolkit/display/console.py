"""The console output of a run, on stderr: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, TextIO, Tuple

FIRST_METRICS = ("loss", "accuracy")  # first in a line, if a record has them
MAX_METRICS = 6  # in a line; metrics.jsonl and TensorBoard have all of them
MAX_BAR_METRICS = 2  # in the progress bar
SPEED_FIELDS = ("examples_per_sec", "seconds", "secs_left")  # of a record, besides its metrics
DUMB_TERMINALS = ("", "dumb", "unknown")  # values of TERM


class Console:
    """Writes lines and the progress of a run. rich obeys NO_COLOR.

    Args:
        stream: stderr by default.
        every_secs: seconds between two progress lines in a pipe, at least.
        clock: returns the time in seconds.
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
        self._last_line_time: Optional[float] = None
        self._bar: Any = None
        self._total_steps = 0

    @property
    def is_terminal(self) -> bool:
        """Whether the stream is a terminal in which lines can be drawn again: by its variable TERM,
        which is empty or "dumb" if it cannot.
        """
        if os.environ.get("TERM", "") in DUMB_TERMINALS:
            return False
        return bool(getattr(self._stream, "isatty", lambda: False)())

    def log(self, text: str) -> None:
        """Write one line; above the progress bar if there is one."""
        if self._bar is not None:
            self._bar.write_line(text)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def start(self, total_steps: int, read_step: Callable[[], int]) -> None:
        """Start to show progress.

        Args:
            total_steps: the step at which the run ends.
            read_step: returns the number of steps so far.
        """
        self._total_steps, self._last_line_time = total_steps, None
        if self.is_terminal:
            from .bar import Bar

            # The bar sends control codes; it escapes those in texts itself.
            stream = getattr(self._stream, "unescaped", self._stream)
            self._bar = Bar(stream, total_steps, read_step)
            self._bar.start()

    def show_metrics(self, record: Dict[str, Any]) -> None:
        """Show a metrics record: in the bar, or as a line if the last line is old enough."""
        if self._bar is not None:
            self._bar.show_metrics(_join_metrics(record, MAX_BAR_METRICS))
            return
        now = self._clock()
        is_last = record["step"] >= self._total_steps
        previous = self._last_line_time
        if is_last or previous is None or now - previous >= self._every_secs:
            self._last_line_time = now
            self.log(progress_line(record, self._total_steps))

    def stop(self) -> None:
        """Remove the bar; lines remain."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def progress_line(record: Mapping[str, Any], total_steps: int) -> str:
    """`step 500/2000  loss 0.1234  accuracy 0.9630  12345 examples/s  4 s left`."""
    metrics = _join_metrics(record, MAX_METRICS)
    parts = [f"step {record['step']}/{total_steps}"] + ([metrics] if metrics else [])
    if "examples_per_sec" in record:
        parts.append(f"{record['examples_per_sec']:.0f} examples/s")
        if record["step"] < total_steps and record.get("secs_left") is not None:
            parts.append(f"{record['secs_left']:.0f} s left")
    return "  ".join(parts)


def _join_metrics(record: Mapping[str, Any], limit: int) -> str:
    """The first metrics of a record: `loss 0.1234  accuracy 0.9630`."""
    return "  ".join(f"{name} {format_number(value)}" for name, value in _metrics(record)[:limit])


def _metrics(record: Mapping[str, Any]) -> List[Tuple[str, float]]:
    """The names and values of a record's metrics, FIRST_METRICS first."""
    names = [name for name, value in record.items() if isinstance(value, float)]
    names = [name for name in names if name not in SPEED_FIELDS]
    names.sort(key=lambda name: name not in FIRST_METRICS)  # stable
    return [(name, record[name]) for name in names]


def format_number(value: float) -> str:
    """Four significant digits: 0.1234, 12.35, 1.20e-05."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"
    return f"{value:.2e}"


def data_progress(console: Console) -> Callable[[str, int, int], None]:
    """A callback (what, bytes done, total bytes or 0) that logs each tenth of some work on data."""
    tenths: Dict[str, int] = {}

    def log_progress(name: str, done: int, total: int) -> None:
        tenth = done * 10 // total if total else 0
        if tenths.get(name) != tenth:
            tenths[name] = tenth
            console.log(f"{name}  {done / 1e6:.1f} of {total / 1e6:.1f} MB")

    return log_progress
