"""Checkpoints: saved on due steps, made durable, then committed to the manifest."""

from __future__ import annotations

import time
from typing import Callable

from ..compat import tf
from ..errors import DivergedError
from ..folder import RunFolder, retained
from .hook import Every, Hook


class Checkpoints(Hook):
    """Commits a checkpoint on due steps, on the last step, and after a divergence (the last good
    step).

    `committed(step, path)` is called after each commit. now: seconds since the epoch.
    """

    name = "checkpoint"

    def __init__(
        self,
        saver: tf.train.Saver,
        folder: RunFolder,
        every: Every,
        options,
        committed: Callable[[int, str], None],
        now: Callable[[], float] = time.time,
    ):
        self.every = every
        self._saver = saver
        self._folder = folder
        self._keep, self._keep_every_hours = options.keep, options.keep_every_hours
        self._committed = committed
        self._now = now

    def on_restore(self, session, step):
        self._last = step  # the state that was restored is committed already; step 0 needs no file
        self.every.restart()

    def on_step(self, step, values, context):
        self.commit(context.session, step)

    def on_stop(self, session, step, error):
        # The guard keeps every variable at the last good step; other faults may leave half a step.
        if error is None or isinstance(error, DivergedError):
            self.commit(session, step)

    def commit(self, session, step: int) -> None:
        """Save and commit the state of `step`, unless that was done."""
        if step == self._last:
            return
        # No meta graph: it would dominate the time and the size of a save.
        self._saver.save(
            session, self._folder.prefix(step), write_meta_graph=False, latest_filename="checkpoint"
        )
        best = self._folder.read_manifest().get("best")
        rule = retained(self._keep, self._keep_every_hours, [best["step"]] if best else [])
        self._folder.commit(step, self._now(), rule)
        self._last = step
        self._committed(step, self._folder.prefix(step))
