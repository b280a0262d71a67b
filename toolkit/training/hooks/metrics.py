"""Training metrics since the last record, for metrics.jsonl, speed.jsonl and who shows them."""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping

import numpy as np

from ...display.console import Console
from ...graph.build import TrainingGraph
from ...options import CoreOptions
from ...storage.record_log import RecordLog
from ..setup import examples_per_step
from .base import Every, SessionHook


class Metrics(SessionHook):
    """Records and shows the means of scalars since the last record, and last learning rates.

    A record has `step`, kind "train" and every number by its name: numbers that a resumed run
    computes again, to the bit. A step that the guard refused does not count; a mean of no step is
    nan. A record of the speed has `step`, `examples_per_sec` (over the steps since the record
    before) and `seconds` (of training since the session started). The console shows a record with
    `examples_per_sec` and `secs_left`, by the mean speed of the session: evaluations come again.
    """

    name = "metrics"

    def __init__(
        self,
        graph: TrainingGraph,
        options: CoreOptions,
        every: Every,
        speed: RecordLog,
        console: Console,
    ):
        self.every = every
        self._sums, self._weights = graph.sums, np.array(graph.run.replica.weights)
        scalars = {**graph.step.losses, **graph.step.logged}  # in the order of a record
        self._names = list(scalars)
        self._last = {name: x for name, x in scalars.items() if name not in graph.sums.names}
        self._no_rows = np.zeros([len(self._weights), len(self._sums.names) + 1])
        self._rows, self._rows_step = self._no_rows, 0
        self._examples_per_step = examples_per_step(options)
        self._speed, self._console = speed, console

    def state(self):
        if self._rows_step != self.loop.step:  # steps without hooks came before a failure
            own = self.loop.session.run(self._sums.own)
            self._rows = np.tile(own, [len(self._weights), 1])
        return {"names": self._sums.names, "rows": self._rows}

    def set_state(self, state):
        self._rows = self._no_rows
        if state.get("names") == self._sums.names:
            rows = state["rows"]  # of as many replicas as there were
            self._rows = rows if rows.shape == self._rows.shape else self._rows + rows.mean(0)

    def is_due(self, step):
        return True  # each call with hooks: it may end with a checkpoint, which has the sums

    def on_restore(self, session, step):
        self.loop.assign_sums(self._rows)
        self._rows_step = step
        self._start = self._record_time = time.monotonic()
        self._start_step = self._record_step = step

    def fetches(self):
        return self._sums.rows, self._last

    def on_step(self, step, values, context):
        self._rows, last = values
        self._rows_step = step
        if super().is_due(step):
            *sums, _ = (self._weights[:, np.newaxis] * self._rows).sum(0)
            count = self._rows[0, -1]  # all replicas make the same steps
            means = [x / count if count else np.nan for x in sums]
            self._add_record(step, {**dict(zip(self._sums.names, means)), **last})
            self._rows = self._no_rows
            self.loop.assign_sums(self._rows)

    def _add_record(self, step: int, values: Mapping[str, Any]) -> None:
        record: Dict[str, Any] = {"step": step, "kind": "train"}
        record.update((name, float(values[name])) for name in self._names)
        self.loop.record(record)
        now = time.monotonic()
        examples = (step - self._record_step) * self._examples_per_step
        speed = round(examples / max(now - self._record_time, 1e-9), 1)
        self._record_step, self._record_time = step, now
        seconds = round(now - self._start, 3)
        secs_left = (self.loop.target - step) * seconds / (step - self._start_step)
        self._speed.append({"step": step, "examples_per_sec": speed, "seconds": seconds})
        shown = dict(record, examples_per_sec=speed, secs_left=round(secs_left, 1))
        self._console.show_metrics(shown)
        others = ("step", "kind", "secs_left")
        self.loop.summarize_scalars(step, {n: x for n, x in shown.items() if n not in others})
