"""TensorBoard events: what other hooks write, and on due steps what plugins put into tf.summary."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Any, Dict

from ...compat import summarize_tf_error, tf
from ...files import plain_path, sync
from ...storage.run_folder import RunFolder
from .base import Every, SessionHook

FLUSH_SECS = 30.0  # so that a TensorBoard that is open shows events soon


class Summaries(SessionHook):
    """Writes TensorBoard events: those of other hooks, on due steps tf.summary's, and once
    the graph.

    What was written up to a checkpoint is on the disk before the checkpoint is committed.
    TensorFlow's own writer hands events to a thread, which loses them when the process is killed
    and whose errors nobody catches. Here they are handed to the system after FLUSH_SECS at most
    where others follow.
    """

    name = "summaries"

    def __init__(self, folder: RunFolder, every: Every, tf_graph: tf.Graph):
        self.every = every
        self._folder = folder
        self._tf_graph = tf_graph
        self._merged: Any = None  # all of tf.summary's, if there are any
        self._writer: Any = None  # of the file at `_path`, once there is an event
        self._path, self._last_flush = "", 0.0

    def begin(self):
        self._merged = tf.summary.merge_all()
        if self._merged is None:
            self.every = None

    def on_restore(self, session, step):
        if step == 0:
            graph_def = self._tf_graph.as_graph_def(add_shapes=True)
            self.write(graph_def=graph_def.SerializeToString())
        # Makes TensorBoard forget what an earlier session wrote after this step.
        start = tf.SessionLog(status=tf.SessionLog.START)
        self.write(step=step + 1, session_log=start)

    def fetches(self):
        return self._merged

    def on_step(self, step, values, context):
        if values is not None:
            self.write(step=step, summary=tf.Summary.FromString(values))

    def on_commit(self):
        if self._writer is not None:
            with self._translated_errors():
                self._flush()
                sync(self._path)

    def close(self) -> None:
        """Write what is left and close the file; hooks that stop later may have written more."""
        if self._writer is not None:
            with self._translated_errors():
                self._writer.close()
            self._writer = None

    def write(self, **content: Any) -> None:
        """Add an event: `step` and the other fields of a tf.Event."""
        with self._translated_errors():
            if self._writer is None:  # a hook that is restored before this one may be the first
                self._open()
            self._add(content)
            if time.monotonic() - self._last_flush > FLUSH_SECS:
                self._flush()

    def _open(self) -> None:
        """Open a new file of events, whose head is with the system at once."""
        folder = self._folder.file("events")
        os.makedirs(folder, exist_ok=True)
        # TensorBoard reads the files in the order of their names.
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
        self._path = os.path.join(folder, f"{name}.{time.time_ns():020d}")
        with plain_path(self._path) as path:
            self._writer = tf.io.TFRecordWriter(path)
        self._add({"file_version": "brain.Event:2"})
        self._flush()
        sync(folder)

    def _add(self, content: Dict[str, Any]) -> None:
        event = tf.Event(wall_time=time.time(), **content)
        self._writer.write(event.SerializeToString())

    def _flush(self) -> None:
        self._writer.flush()
        self._last_flush = time.monotonic()

    @contextlib.contextmanager
    def _translated_errors(self):
        try:
            with self._folder.writing():
                yield
        except tf.errors.OpError as error:
            raise self._folder.write_error(summarize_tf_error(error.message)) from error
