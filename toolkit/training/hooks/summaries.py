"""TensorBoard events: the scalars of due steps, and what plugins put into tf.summary."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Optional

from ...compat import summarize_tf_error, tf
from ...storage.run_folder import RunFolder
from .base import Every, SessionHook
from .events import EventFile
from .metrics import Throughput


class Summaries(SessionHook):
    """Writes TensorBoard events on due steps: the scalars, examples_per_sec, and tf.summary's.

    What was written up to a checkpoint is on the disk before the checkpoint is committed.

    Args:
        folder: of the run.
        scalars: name -> scalar tensor.
        examples_per_step: how many examples a step reads.
        every: when the hook is due.
        tf_graph: the `tf.Graph`, which is written once.
    """

    name = "summaries"

    def __init__(
        self,
        folder: RunFolder,
        scalars: Dict[str, Any],
        examples_per_step: int,
        every: Every,
        tf_graph: tf.Graph,
    ):
        self.every = every
        self._throughput = Throughput(examples_per_step)
        self._folder = folder
        self._tf_graph = tf_graph
        self._fetches: Dict[str, Any] = {"scalars": scalars}
        self._file: Optional[EventFile] = None

    def begin(self):
        merged = tf.summary.merge_all()
        if merged is not None:
            self._fetches["merged"] = merged

    def on_restore(self, session, step):
        self._throughput.restart(step)
        if step == 0:
            graph_def = self._tf_graph.as_graph_def(add_shapes=True)
            self._write(graph_def=graph_def.SerializeToString())
        # Makes TensorBoard forget what an earlier session wrote after this step.
        start = tf.SessionLog(status=tf.SessionLog.START)
        self._write(step=step + 1, session_log=start)

    def fetches(self):
        return self._fetches

    def on_step(self, step, values, context):
        speed = self._throughput.measure(step)
        self.write_scalars(step, dict(values["scalars"], examples_per_sec=speed))
        if "merged" in values:
            self.write(step, tf.Summary.FromString(values["merged"]))

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
