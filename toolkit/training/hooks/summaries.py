"""TensorBoard events: what other hooks write, and on due steps what plugins put into tf.summary."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Optional

from ...compat import summarize_tf_error, tf
from ...storage.run_folder import RunFolder
from .base import Every, SessionHook
from .events import EventFile


class Summaries(SessionHook):
    """Writes TensorBoard events: those of other hooks, and on due steps tf.summary's.

    What was written up to a checkpoint is on the disk before the checkpoint is committed.

    Args:
        folder: of the run.
        every: when the hook is due.
        tf_graph: the `tf.Graph`, which is written once.
    """

    name = "summaries"

    def __init__(
        self,
        folder: RunFolder,
        every: Every,
        tf_graph: tf.Graph,
    ):
        self.every = every
        self._folder = folder
        self._tf_graph = tf_graph
        self._merged: Any = None  # all of tf.summary's, if there are any
        self._file: Optional[EventFile] = None

    def begin(self):
        self._merged = tf.summary.merge_all()
        if self._merged is None:
            self.every = None

    def on_restore(self, session, step):
        if step == 0:
            graph_def = self._tf_graph.as_graph_def(add_shapes=True)
            self._write(graph_def=graph_def.SerializeToString())
        # Makes TensorBoard forget what an earlier session wrote after this step.
        start = tf.SessionLog(status=tf.SessionLog.START)
        self._write(step=step + 1, session_log=start)

    def fetches(self):
        return self._merged

    def on_step(self, step, values, context):
        if values is not None:
            self.write(step, tf.Summary.FromString(values))

    def on_commit(self):
        if self._file is not None:
            with self._translated_errors():
                self._file.flush(durable=True)

    def write_scalars(self, step: int, scalars: Dict[str, Any]) -> None:
        """Add numbers by name to the events of `step`."""
        rows = [tf.Summary.Value(tag=n, simple_value=float(v)) for n, v in scalars.items()]
        self.write(step, tf.Summary(value=rows))

    def write(self, step: int, summary: tf.Summary) -> None:
        """Add a summary to the events of `step`."""
        self._write(step=step, summary=summary)

    def close(self) -> None:
        """Write what is left and close the file; hooks that stop later may have written more."""
        if self._file is not None:
            with self._translated_errors():
                self._file.close()
            self._file = None

    def _write(self, **content: Any) -> None:
        with self._translated_errors():
            if self._file is None:  # a hook that is restored before this one may be the first
                self._file = EventFile(self._folder.file("events"))
            self._file.add(**content)

    @contextlib.contextmanager
    def _translated_errors(self):
        try:
            with self._folder.writing():
                yield
        except tf.errors.OpError as error:
            raise self._folder.write_error(summarize_tf_error(error.message)) from error
