"""Metrics of training: a record per due step, for metrics.jsonl, the console and TensorBoard."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict

from ..compat import tf
from .hook import Every, Hook


class Metrics(Hook):
    """Fetches the scalars on due steps and hands a record to `record` and `show`.

    A record has step, kind "train", every scalar by its name, examples_per_sec (over the steps
    since the record before) and seconds (of training since the session started).
    """

    name = "metrics"

    def __init__(self, scalars: Dict[str, Any], batch_size: int, every: Every, record, show):
        self.every = every
        self._scalars = scalars
        self._batch_size = batch_size
        self._record: Callable[[Dict[str, Any]], None] = record
        self._show: Callable[[Dict[str, Any]], None] = show

    def on_restore(self, session, step):
        self._started = self._since = time.monotonic()
        self._since_step = step

    def fetches(self):
        return self._scalars

    def on_step(self, step, values, context):
        now = time.monotonic()
        record = {"step": step, "kind": "train"}
        record.update((name, float(value)) for name, value in values.items())
        steps, elapsed = step - self._since_step, max(now - self._since, 1e-9)
        record["examples_per_sec"] = round(steps * self._batch_size / elapsed, 1)
        record["seconds"] = round(now - self._started, 3)
        self._since, self._since_step = now, step
        self._record(record)
        left = (self.loop.target - step) * elapsed / max(steps, 1)
        self._show(dict(record, secs_left=round(left, 1)))


class Summaries(Hook):
    """Writes TensorBoard events on due steps: the scalars, and what plugins put into tf.summary.

    The writer is this hook's own: TensorFlow's cache of writers is shared by all runs of a process.
    """

    name = "summaries"

    def __init__(self, folder: str, scalars: Dict[str, Any], every: Every, graph):
        self.every = every
        self._folder = folder
        self._graph = graph
        self._fetches = {"scalars": scalars}
        self._writer: Any = None

    def begin(self):
        merged = tf.summary.merge_all()
        if merged is not None:
            self._fetches["merged"] = merged

    def on_restore(self, session, step):
        if self._writer is None:
            self._writer = tf.summary.FileWriter(self._folder)
            if step == 0:
                self._writer.add_graph(self._graph)
        # Tells TensorBoard to forget what an earlier session wrote after this step.
        self._writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), step + 1)

    def fetches(self):
        return self._fetches

    def on_step(self, step, values, context):
        self.write(step, values["scalars"])
        if "merged" in values:
            self._writer.add_summary(values["merged"], step)

    def write(self, step: int, scalars: Dict[str, Any]) -> None:
        """Add named numbers to the events of `step`."""
        rows = [tf.Summary.Value(tag=n, simple_value=float(v)) for n, v in scalars.items()]
        self._writer.add_summary(tf.Summary(value=rows), step)

    def close(self) -> None:
        """Write what is left and close the file; hooks that stop later may have written more."""
        if self._writer is not None:
            self._writer.close()
