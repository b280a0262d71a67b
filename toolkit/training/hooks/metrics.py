"""Training metrics of due steps: for metrics.jsonl, speed.jsonl and the console."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict

from .base import Every, SessionHook


class Throughput:
    """Examples per second.

    Args:
        examples_per_step: how many examples a step reads.
        clock: returns seconds.
    """

    def __init__(self, examples_per_step: int, clock: Callable[[], float] = time.monotonic):
        self._examples_per_step = examples_per_step
        self._clock = clock

    def restart(self, step: int) -> None:
        """Measure from `step` and now."""
        self._step, self._time = step, self._clock()

    def measure(self, step: int) -> float:
        """Examples per second since the last call, or since the restart."""
        last_step, last_time = self._step, self._time
        self.restart(step)
        examples = (step - last_step) * self._examples_per_step
        return round(examples / max(self._time - last_time, 1e-9), 1)


class Metrics(SessionHook):
    """Fetches scalars on due steps, records and shows them.

    A record has `step`, kind "train" and every scalar by its name: numbers that a resumed run
    computes again, to the bit. A record of the speed has `step`, `examples_per_sec` (over the steps
    since the record before) and `seconds` (of training since the session started).

    Args:
        scalars: name -> scalar tensor.
        examples_per_step: how many examples a step reads.
        every: when the hook is due.
        record: takes a record.
        record_speed: takes a record of the speed.
        show: takes a record with `examples_per_sec` and `secs_left`.
    """

    name = "metrics"

    def __init__(
        self,
        scalars: Dict[str, Any],
        examples_per_step: int,
        every: Every,
        record: Callable[[Dict[str, Any]], None],
        record_speed: Callable[[Dict[str, Any]], None],
        show: Callable[[Dict[str, Any]], None],
    ):
        self.every = every
        self._scalars = scalars
        self._examples_per_step = examples_per_step
        self._throughput = Throughput(examples_per_step)
        self._record = record
        self._record_speed = record_speed
        self._show = show

    def on_restore(self, session, step):
        self._start = time.monotonic()
        self._throughput.restart(step)

    def fetches(self):
        return self._scalars

    def on_step(self, step, values, context):
        record = {"step": step, "kind": "train"}
        record.update((name, float(value)) for name, value in values.items())
        self._record(record)
        speed = self._throughput.measure(step)
        seconds = round(time.monotonic() - self._start, 3)
        self._record_speed({"step": step, "examples_per_sec": speed, "seconds": seconds})
        secs_left = (self.loop.target - step) * self._examples_per_step / max(speed, 1e-9)
        self._show(dict(record, examples_per_sec=speed, secs_left=round(secs_left, 1)))
