"""When checkpoints are due: `Loop.commit` saves and commits them."""

from __future__ import annotations

from typing import Sequence

from ...errors import DivergedError
from .base import Every, SessionHook


class Checkpoints(SessionHook):
    """Commits a checkpoint on steps that are due by any member of the schedule, where training
    ends, and after a divergence (the last good step).
    """

    name = "checkpoint"

    def __init__(self, schedule: Sequence[Every]):
        self._schedule = schedule

    def next_due_step(self, step):
        return min(every.next_due_step(step) for every in self._schedule)

    def deadline(self):
        return min(every.deadline() for every in self._schedule)

    def is_due(self, step):
        return self.loop.is_leaving(step) or any(every.is_due(step) for every in self._schedule)

    def on_restore(self, session, step):
        self._restart_schedule()

    def on_step(self, step, values, context):
        self.loop.commit(step)

    def on_stop(self, session, step, error):
        # The guard keeps every variable at the last good step; other faults may leave half a step.
        if error is None or isinstance(error, DivergedError):
            self.loop.commit(step)

    def on_committed(self, step, path):
        self._restart_schedule()

    def _restart_schedule(self) -> None:
        for every in self._schedule:
            every.restart()
