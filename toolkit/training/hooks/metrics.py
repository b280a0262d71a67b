"""Metrics of training: a record per due step, for metrics.jsonl, the console and TensorBoard."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, Optional

from ...compat import tf
from ...storage.run_folder import RunFolder
from ..tf_messages import telling
from .base import Every, Hook
from .events import EventFile


class Speed:
    """Examples per second between two looks."""

    def __init__(self, batch_size: int, clock: Callable[[], float] = time.monotonic):
        self._batch_size = batch_size
        self._clock = clock

    def restart(self, step: int) -> None:
        """Count from `step` and now."""
        self._step, self._time = step, self._clock()

    def look(self, step: int) -> float:
        """Examples per second since the last look, or since the restart."""
        before, since = self._step, self._time
        self.restart(step)
        return round((step - before) * self._batch_size / max(self._time - since, 1e-9), 1)


class Metrics(Hook):
    """Fetches the scalars on due steps and hands a record to `record`, `record_speed` and `show`.

    A record has step, kind "train" and every scalar by its name: what a resumed run computes again
    to the bit. One of the speed has step, examples_per_sec (over the steps since the record before)
    and seconds (of training since the session started).
    """

    name = "metrics"

    def __init__(
        self, scalars: Dict[str, Any], batch_size: int, every: Every, record, record_speed, show
    ):
        self.every = every
        self._scalars = scalars
        self._speed = Speed(batch_size)
        self._batch_size = batch_size
        self._record: Callable[[Dict[str, Any]], None] = record
        self._record_speed: Callable[[Dict[str, Any]], None] = record_speed
        self._show: Callable[[Dict[str, Any]], None] = show

    def on_restore(self, session, step):
        self._started = time.monotonic()
        self._speed.restart(step)

    def fetches(self):
        return self._scalars

    def on_step(self, step, values, context):
        record = {"step": step, "kind": "train"}
        record.update((name, float(value)) for name, value in values.items())
        self._record(record)
        speed = self._speed.look(step)
        seconds = round(time.monotonic() - self._started, 3)
        self._record_speed({"step": step, "examples_per_sec": speed, "seconds": seconds})
        left = (self.loop.target - step) * self._batch_size / max(speed, 1e-9)
        self._show(dict(record, examples_per_sec=speed, secs_left=round(left, 1)))


class Summaries(Hook):
    """Writes TensorBoard events on due steps: the scalars, examples_per_sec, and what plugins put
    into tf.summary.

    What was written up to a checkpoint is on the disk before that is committed.
    """

    name = "summaries"

    def __init__(
        self, folder: RunFolder, scalars: Dict[str, Any], batch_size: int, every: Every, graph
    ):
        self.every = every
        self._speed = Speed(batch_size)
        self._folder = folder
        self._graph = graph
        self._fetches = {"scalars": scalars}
        self._file: Optional[EventFile] = None

    def begin(self):
        merged = tf.summary.merge_all()
        if merged is not None:
            self._fetches["merged"] = merged

    def on_restore(self, session, step):
        self._speed.restart(step)
        if step == 0:
            self._add(graph_def=self._graph.as_graph_def(add_shapes=True).SerializeToString())
        # Tells TensorBoard to forget what an earlier session wrote after this step.
        start = tf.SessionLog(status=tf.SessionLog.START)
        self._add(step=step + 1, session_log=start)

    def _add(self, **content: Any) -> None:
        with self._told():
            if self._file is None:  # hooks that are restored before this one may be the first
                self._file = EventFile(self._folder.file("events"))
            self._file.add(**content)

    @contextlib.contextmanager
    def _told(self):
        try:
            with self._folder.writing():
                yield
        except tf.errors.OpError as error:
            raise self._folder.write_error(telling(error.message)) from error

    def fetches(self):
        return self._fetches

    def on_step(self, step, values, context):
        self.write(step, dict(values["scalars"], examples_per_sec=self._speed.look(step)))
        if "merged" in values:
            self.add(step, tf.Summary.FromString(values["merged"]))

    def on_commit(self):
        if self._file is not None:
            with self._told():
                self._file.flush(durable=True)

    def write(self, step: int, scalars: Dict[str, Any]) -> None:
        """Add named numbers to the events of `step`."""
        rows = [tf.Summary.Value(tag=n, simple_value=float(v)) for n, v in scalars.items()]
        self.add(step, tf.Summary(value=rows))

    def add(self, step: int, summary: tf.Summary) -> None:
        """Add a summary to the events of `step`."""
        self._add(step=step, summary=summary)

    def close(self) -> None:
        """Write what is left and close the file; hooks that stop later may have written more."""
        if self._file is not None:
            with self._told():
                self._file.close()
            self._file = None
