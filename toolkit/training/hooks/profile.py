"""Trace chosen steps in Chrome's trace format."""

from __future__ import annotations

import os
from typing import Iterable

from ...compat import chrome_trace, tf
from ...files import atomic_write
from .base import NEVER, SessionHook


class Profile(SessionHook):
    """Writes `folder/step-N.json` for each of the steps; open it in chrome://tracing."""

    name = "profile"

    def __init__(self, folder: str, steps: Iterable[int]):
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
            path = os.path.join(self._folder, f"step-{self.loop.step}.json")
            with atomic_write(path) as file:
                file.write(chrome_trace(run_values.run_metadata.step_stats).encode("utf-8"))
