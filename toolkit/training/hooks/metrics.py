"""Training metrics since the last record, for metrics.jsonl, speed.jsonl and who shows them."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Mapping, Sequence

import numpy as np

from ...graph.step_sums import StepSums
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
    """Records and shows the means of scalars since the last record, and last learning rates.

    A record has `step`, kind "train" and every number by its name: numbers that a resumed run
    computes again, to the bit. A step that the guard refused does not count; a mean of no step is
    nan. A record of the speed has `step`, `examples_per_sec` (over the steps
    since the record before) and `seconds` (of training since the session started).

    Args:
        sums: of the scalars of the steps.
        weights: the share of the examples of each replica.
        scalars: name -> scalar tensor of a step, in the order of a record, which has the last value
            of those that are not summed.
        examples_per_step: how many examples a step reads.
        every: when the hook is due.
        record: takes a record.
        record_speed: takes a record of the speed.
        show: takes a record with `examples_per_sec` and `secs_left`.
    """

    name = "metrics"

    def __init__(
        self,
        sums: StepSums,
        weights: Sequence[float],
        scalars: Mapping[str, Any],
        examples_per_step: int,
        every: Every,
        record: Callable[[Dict[str, Any]], None],
        record_speed: Callable[[Dict[str, Any]], None],
        show: Callable[[Dict[str, Any]], None],
    ):
        self.every = every
        self._sums, self._weights, self._names = sums, np.array(weights), list(scalars)
        self._last = {name: x for name, x in scalars.items() if name not in sums.names}
        self._rows = self._no_rows()
        self._rows_step = 0  # of `_rows`
        self._examples_per_step = examples_per_step
        self._throughput = Throughput(examples_per_step)
        self._record = record
        self._record_speed = record_speed
        self._show = show

    def _no_rows(self):
        return np.zeros([len(self._weights), len(self._sums.names) + 1])

    def state(self):
        if self._rows_step != self.loop.step:  # steps without hooks came before a failure
            own = self.loop.session.run(self._sums.own)
            self._rows = np.tile(own, [len(self._weights), 1])
        return {"names": self._sums.names, "rows": self._rows}

    def set_state(self, state):
        self._rows = self._no_rows()
        if state.get("names") == self._sums.names:
            rows = state["rows"]  # of as many replicas as there were
            self._rows = rows if rows.shape == self._rows.shape else self._rows + rows.mean(0)

    def is_due(self, step):
        return True  # each call with hooks: it may end with a checkpoint, which has the sums

    def on_restore(self, session, step):
        self.loop.assign_sums(self._rows)
        self._rows_step = step
        self._start = time.monotonic()
        self._throughput.restart(step)

    def fetches(self):
        return self._sums.rows, self._last

    def on_step(self, step, values, context):
        self._rows, last = values
        self._rows_step = step
        if super().is_due(step):
            self._add_record(step, {**self._means(), **last})
            self._rows = self._no_rows()
            self.loop.assign_sums(self._rows)

    def _means(self) -> Dict[str, float]:
        *sums, _ = (self._weights[:, np.newaxis] * self._rows).sum(0)
        count = self._rows[0, -1]  # all replicas make the same steps
        return {name: x / count if count else np.nan for name, x in zip(self._sums.names, sums)}

    def _add_record(self, step: int, values: Mapping[str, Any]) -> None:
        record: Dict[str, Any] = {"step": step, "kind": "train"}
        record.update((name, float(values[name])) for name in self._names)
        self._record(record)
        speed = self._throughput.measure(step)
        seconds = round(time.monotonic() - self._start, 3)
        self._record_speed({"step": step, "examples_per_sec": speed, "seconds": seconds})
        secs_left = (self.loop.target - step) * self._examples_per_step / max(speed, 1e-9)
        self._show(dict(record, examples_per_sec=speed, secs_left=round(secs_left, 1)))
