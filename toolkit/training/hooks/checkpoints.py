"""Checkpoints: saved on due steps with what the hooks remember, made durable, then committed."""

from __future__ import annotations

import time
from typing import Callable, Sequence

from ...compat import tf
from ...errors import DivergedError
from ...storage.checkpoint_reader import fingerprint
from ...storage.commit_log import retention_rule
from ...storage.run_folder import RunFolder
from ..tf_messages import telling
from . import hook_state
from .base import Every, Hook


class Checkpoints(Hook):
    """Commits a checkpoint on due steps, on the last step, where training leaves off, and after a
    divergence (the last good step).

    every: what says on which steps; any of them. `committed(step, path)` is called after each
    commit. now: seconds since the epoch.
    """

    name = "checkpoint"

    def __init__(
        self,
        saver: tf.train.Saver,
        folder: RunFolder,
        every: Sequence[Every],
        options,
        committed: Callable[[int, str], None],
        now: Callable[[], float] = time.time,
    ):
        self._all = every
        self._saver = saver
        self._folder = folder
        self._keep, self._keep_every_hours = options.keep_checkpoints, options.keep_every_hours
        self._committed = committed
        self._now = now

    def next_step(self, step):
        return min(every.next_step(step) for every in self._all)

    def deadline(self):
        return min(every.deadline() for every in self._all)

    def is_due(self, step):
        return self.loop.is_leaving(step) or any(every.due(step) for every in self._all)

    def on_restore(self, session, step):
        self._last = step  # the state that was restored is committed already; step 0 needs no file
        self._restart()

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
        path = self._folder.checkpoints.prefix(step)
        try:
            # No meta graph: it would dominate the time and the size of a save.
            self._saver.save(session, path, write_meta_graph=False, latest_filename="checkpoint")
        except (tf.errors.OpError, ValueError) as error:  # ValueError: where there is no folder
            if isinstance(error, (tf.errors.AbortedError, tf.errors.UnavailableError)):
                raise  # a lost session
            raise self._folder.write_error(telling(str(error))) from error
        self.loop.before_commit()
        remembered = self.loop.states()
        with self._folder.writing():
            if remembered:
                hook_state.save(path, remembered)
        best = self._folder.checkpoints.best()
        rule = retention_rule(self._keep, self._keep_every_hours, [best["step"]] if best else [])
        self._folder.checkpoints.commit(step, self._now(), rule, fingerprint(path))
        self._last = step
        self._restart()
        self._committed(step, path)

    def _restart(self) -> None:
        for every in self._all:
            every.restart()
