"""Checkpoints: saved on due steps with what the hooks remember, made durable, then committed."""

from __future__ import annotations

import time
from typing import Callable, Sequence

from ...compat import summarize_tf_error, tf
from ...errors import DivergedError
from ...files import plain_path
from ...options import CoreOptions
from ...storage.checkpoint_reader import fingerprint
from ...storage.commit_log import retention_rule
from ...storage.run_folder import RunFolder
from . import hook_state
from .base import Every, SessionHook


class Checkpoints(SessionHook):
    """Commits a checkpoint on due steps, where training ends, and after a divergence (the last good
    step).

    Args:
        saver: of the variables.
        folder: of the run.
        schedule: when checkpoints are due, by any of its members.
        options: say how many checkpoints are kept.
        announce: called with (step, path) after each commit, before the hooks learn of it.
        now: returns seconds since the epoch.
    """

    name = "checkpoint"

    def __init__(
        self,
        saver: tf.train.Saver,
        folder: RunFolder,
        schedule: Sequence[Every],
        options: CoreOptions,
        announce: Callable[[int, str], None],
        now: Callable[[], float] = time.time,
    ):
        self._saver = saver
        self._folder = folder
        self._schedule = schedule
        self._options = options
        self._announce = announce
        self._now = now

    def next_due_step(self, step):
        return min(every.next_due_step(step) for every in self._schedule)

    def deadline(self):
        return min(every.deadline() for every in self._schedule)

    def is_due(self, step):
        return self.loop.is_leaving(step) or any(every.is_due(step) for every in self._schedule)

    def on_restore(self, session, step):
        self._last_step = step  # its state is committed already; step 0 needs no file
        self._restart_schedule()

    def on_step(self, step, values, context):
        self.commit(context.session, step)

    def on_stop(self, session, step, error):
        # The guard keeps every variable at the last good step; other faults may leave half a step.
        if error is None or isinstance(error, DivergedError):
            self.commit(session, step)

    def commit(self, session, step: int) -> None:
        """Save and commit the state of `step`, unless that is done already.

        Raises:
            DataError: a file of examples has changed; the state may have learned from the change.
        """
        if step == self._last_step:
            return
        self.loop.check_input_files()
        self.loop.check_replicas(session)
        checkpoints = self._folder.checkpoints
        path = checkpoints.prefix(step)
        self._save(session, path)
        self.loop.before_commit()
        states = self.loop.states()
        if states:
            with self._folder.writing():
                hook_state.save(path, states)
        checkpoints.commit(step, self._now(), self._retention_rule(), fingerprint(path))
        self._last_step = step
        self._restart_schedule()
        self._announce(step, path)
        self.loop.after_commit(step, path)

    def _save(self, session, path: str) -> None:
        try:
            with self._folder.writing(), plain_path(path) as plain:
                # No meta graph: it would dominate the time and the size of a save.
                self._saver.save(
                    session, plain, write_meta_graph=False, latest_filename="checkpoint"
                )
        except (tf.errors.AbortedError, tf.errors.UnavailableError):
            raise  # a lost session
        except (tf.errors.OpError, ValueError) as error:  # ValueError: where there is no folder
            raise self._folder.write_error(summarize_tf_error(str(error))) from error

    def _retention_rule(self):
        best = self._folder.checkpoints.best()
        steps = [best["step"]] if best else []
        options = self._options
        return retention_rule(options.keep_checkpoints, options.keep_every_hours, steps)

    def _restart_schedule(self) -> None:
        for every in self._schedule:
            every.restart()
