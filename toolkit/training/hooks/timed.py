"""The hooks that act at their time alone: commits, the end of a run, and traces of steps."""

from __future__ import annotations

import time
from typing import Iterable, Optional, Sequence

from ...compat import chrome_trace, tf
from ...files import atomic_write
from ...storage.run_folder import RunFolder
from .base import NEVER, Every, SessionHook


class Checkpoints(SessionHook):
    """Commits a checkpoint on steps that are due by any member of the schedule, and where training
    ends.
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
        self.on_committed(step, "")  # opening the session took time

    def on_step(self, step, values, context):
        self.loop.commit(step)

    def on_committed(self, step, path):
        for every in self._schedule:
            every.restart()


class Stop(SessionHook):
    """Ends the run at its target, and pauses it after seconds of training; None for no limit."""

    name = "stop"

    def __init__(self, secs: Optional[float]):
        self._secs, self._deadline = secs, NEVER

    def on_restore(self, session, step):
        if self._secs is not None:
            self._deadline = time.monotonic() + self._secs

    def deadline(self) -> float:
        return self._deadline

    def is_due(self, step: int) -> bool:
        return step >= self.loop.target or time.monotonic() >= self._deadline

    def on_step(self, step, values, context):
        if step >= self.loop.target:
            self.loop.request_stop(f"reached step {step}")
        else:
            self.loop.request_last_step(f"{self._secs:g} seconds have passed")


class Profile(SessionHook):
    """Writes `profile/step-N.json` for each of the steps; open it in chrome://tracing."""

    name = "profile"

    def __init__(self, folder: RunFolder, steps: Iterable[int]):
        self._folder = folder
        self._steps = sorted(steps)

    def next_due_step(self, step: int) -> float:
        return next((s for s in self._steps if s > step), NEVER)

    def is_due(self, step: int) -> bool:
        return step in self._steps

    def before_run(self, run_context):
        self._is_due_now = self.is_due(self.loop.step + 1)
        if self._is_due_now:
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            return tf.train.SessionRunArgs(None, options=options)
        return None

    def after_run(self, run_context, run_values):
        if self._is_due_now:
            path = self._folder.file("profile", f"step-{self.loop.step}.json")
            with self._folder.writing(), atomic_write(path) as file:
                file.write(chrome_trace(run_values.run_metadata.step_stats).encode("utf-8"))
