"""The session hook, by which the upload follows the commits of a run."""

from __future__ import annotations

from toolkit import SessionHook

from .destination import choose_destination
from .upload import Request, Upload
from .worker import Worker


class Tracker(SessionHook):
    """Has each commit uploaded by a thread, and warns once if that fails.

    Args:
        run: of the training.
    """

    name = "mlflow"

    def __init__(self, run):
        self._wait_secs = run.options.mlflow_wait
        self._destination = choose_destination(run.options, run.folder)
        self._worker = Worker(Upload(run.folder, self._destination).send)
        self._has_warned = False

    def on_restore(self, session, step):
        self._worker.request(Request(step))

    def on_committed(self, step, path):
        self._worker.request(Request(step))
        self._warn()

    def finish(self, status, reason):
        """Upload the rest, with the reports and the status, for `mlflow_wait` seconds at most."""
        self._worker.request(Request(None, status, reason))
        is_done = self._worker.wait(self._wait_secs)
        self._warn("" if is_done else f"no answer within {self._wait_secs:g} s")

    def _warn(self, failure: str = "") -> None:
        failure = self._worker.failure or failure
        if failure and not self._has_warned:
            self._has_warned = True
            uri = self._destination.uri
            self.loop.log(
                f"warning: MLflow at {uri} lacks a part of the run, which continues: {failure}"
            )
