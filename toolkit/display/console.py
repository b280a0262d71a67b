"""What a run says while it works: a progress bar on a terminal, plain lines in a pipe. All on
stderr.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Dict, Optional

SHOWN = ("loss", "accuracy")  # first in a line, where a plugin has them
MOST = 6  # measures in a line; all of them are in metrics.jsonl and in TensorBoard


class Console:
    """Talks to a person. stream: where to (stderr by default). every_secs: least time between two
    progress lines in a pipe. NO_COLOR is obeyed, by rich.
    """

    def __init__(self, stream=None, every_secs: float = 2.0, clock=time.monotonic):
        self._stream = stream or sys.stderr
        self._every_secs = every_secs
        self._clock = clock
        self._shown_at: Optional[float] = None
        self._bar: Any = None
        self._target = 0

    @property
    def is_terminal(self) -> bool:
        return bool(getattr(self._stream, "isatty", lambda: False)())

    def log(self, text: str) -> None:
        """One line, above the progress bar where there is one."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def start(self, target: int, step: Callable[[], int]) -> None:
        """Begin to show progress to `target` steps; `step` tells how many were made."""
        self._target, self._shown_at = target, None
        if self.is_terminal:
            self._bar = _make_bar(self._stream, target, step)
            self._bar.start()

    def show_metrics(self, record: Dict[str, Any]) -> None:
        """A metrics record: into the bar, or as a line if the last one is old enough."""
        if self._bar is not None:
            self._bar.tell(record)
            return
        now = self._clock()
        last = record["step"] >= self._target
        if last or self._shown_at is None or now - self._shown_at >= self._every_secs:
            self._shown_at = now
            self.log(progress_line(record, self._target))

    def stop(self) -> None:
        """Take the bar away; what was said stays."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def progress_line(record: Dict[str, Any], target: int) -> str:
    """`step 500/2000  loss 0.1234  accuracy 0.9630  12345 examples/s  4 s left`."""
    parts = [f"step {record['step']}/{target}"]
    parts += [f"{name} {number(value)}" for name, value in _measures(record)[:MOST]]
    if "examples_per_sec" in record:
        parts.append(f"{record['examples_per_sec']:.0f} examples/s")
        if record["step"] < target and record.get("secs_left") is not None:
            parts.append(f"{record['secs_left']:.0f} s left")
    return "  ".join(parts)


def _measures(record):
    names = [n for n, v in record.items() if isinstance(v, float)]
    names = [n for n in names if n not in ("examples_per_sec", "seconds", "secs_left")]
    return [(n, record[n]) for n in sorted(names, key=lambda n: (n not in SHOWN, names.index(n)))]


def number(value: float) -> str:
    """Four significant digits: 0.1234, 12.35, 1.2e-05."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"
    return f"{value:.2e}"


def download_progress(console: Console):
    """A callback (file, bytes done, bytes in all or 0) that says each tenth of a download."""
    told: Dict[str, int] = {}

    def progress(name: str, done: int, whole: int) -> None:
        tenth = done * 10 // whole if whole else 0
        if told.get(name) != tenth:
            told[name] = tenth
            console.log(f"download  {name}  {done / 1e6:.1f} of {whole / 1e6:.1f} MB")

    return progress


def _make_bar(stream, target: int, step: Callable[[], int]):
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    class Bar(Progress):
        """Reads the step count when it draws, so that the loop never waits for it."""

        def get_renderables(self):
            for task in self.tasks:  # none yet while rich makes the bar
                speed = f"{task.speed or 0:.0f} steps/s"
                self.update(task.id, completed=step(), speed=speed)
            return super().get_renderables()

        def tell(self, record):
            text = "  ".join(f"{n} {number(v)}" for n, v in _measures(record)[:2])
            for task in self.tasks:
                self.update(task.id, told=text)

    bar = Bar(
        TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[speed]}"),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(),
        console=RichConsole(file=stream),
        refresh_per_second=4,
        transient=True,
    )
    bar.add_task("", total=target, completed=step(), told="", speed="")
    return bar
