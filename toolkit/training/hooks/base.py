"""`SessionHook`: a `tf.train.SessionRunHook` that says on which steps it is due.

Between two due steps the loop needs nothing from the hooks, so it runs the train op alone. A
`SessionRunHook` that is no `SessionHook` cannot say when it is due and is called on every step.
runner.py calls both kinds.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Optional

from ...compat import tf

NEVER = float("inf")


class Every:
    """When something is due: at each multiple of a number of steps, or after some seconds.

    Args:
        steps: due at each multiple of it; None for no such step.
        secs: due when so many seconds have passed since the last time; None for no such time.
    """

    def __init__(self, steps: Optional[int] = None, secs: Optional[float] = None):
        self.steps, self.secs = steps, secs
        self.restart()

    def restart(self) -> None:
        """Count the seconds from now."""
        self._start = time.monotonic()

    def next_due_step(self, step: int) -> float:
        """The first due step after `step`, or NEVER."""
        return (step // self.steps + 1) * self.steps if self.steps else NEVER

    def deadline(self) -> float:
        """The time, on time.monotonic's clock, from which the next step is due, or NEVER."""
        return self._start + self.secs if self.secs else NEVER

    def is_due(self, step: int) -> bool:
        """Whether `step` is due, now that it is made."""
        if self.steps and step % self.steps == 0:
            return True
        return time.monotonic() >= self.deadline()


class SessionHook(tf.train.SessionRunHook):
    """Base of the hooks that are called on due steps alone, and on the last step of a run.

    When training is interrupted, its last step is not the run's last: the run continues later.

    A subclass sets `every` or overrides `next_due_step`, `deadline` and `is_due`, and implements
    `on_step`. A hook that remembers anything from step to step returns it from `state` and takes it
    back in `set_state`, so that a run that was killed and resumed records what it would have
    recorded.

    Attributes:
        name: names the hook in logs, and its state in checkpoints.
        every: when the hook is due; None for never.
        loop: the `Loop`, set before the session exists. `loop.step` is the number of steps so far,
            `loop.target` the step at which training stops, `loop.request_stop(reason)` asks for an
            end after this step. `loop.log(text)` writes a line to the log of the run,
            `loop.record(values)` a record to metrics.jsonl, and `loop.summarize(step, summary)` a
            `tf.Summary` for TensorBoard.
    """

    name = ""
    every: Optional[Every] = None
    loop: Any = None
    _is_due_now = False

    def fetches(self) -> Any:
        """Tensors to fetch on a due step, in any structure; None for none."""
        return None

    def on_step(self, step: int, values: Any, context: Any) -> None:
        """Called after a due step.

        Args:
            step: the number of steps so far, this one included.
            values: of the tensors of `fetches`, in their structure.
            context: a `tf.train.SessionRunContext`; its `session` is the raw session.
        """

    def state(self) -> Dict[str, Any]:
        """What to save with a checkpoint: names -> JSON values or numpy arrays; {} for nothing.

        It is called after the step; later hooks in the order have not seen that step yet.
        """
        return {}

    def set_state(self, state: Dict[str, Any]) -> None:
        """Called before `on_restore` with what `state` returned at that step; {} at the start. One
        that cannot continue with it raises an error here, where the run is still as it was.
        """

    def on_commit(self) -> None:
        """Called before a checkpoint is committed: flush to disk whatever must survive a crash."""

    def on_committed(self, step: int, path: str) -> None:
        """Called after the checkpoint of `step` is committed.

        Args:
            path: of the checkpoint, without its endings.
        """

    def on_restore(self, session: Any, step: int) -> None:
        """Called when the session has the state of `step`; an error fails even a finished run."""

    def on_stop(self, session: Any, step: int, error: Optional[BaseException]) -> None:
        """Called once when the loop has ended at `step`; `error` is what ended it, or None."""

    def next_due_step(self, step: int) -> float:
        """The first due step after `step`, or `NEVER`."""
        return self.every.next_due_step(step) if self.every else NEVER

    def deadline(self) -> float:
        """The time, on time.monotonic's clock, from which the next step is due, or `NEVER`."""
        return self.every.deadline() if self.every else NEVER

    def is_due(self, step: int) -> bool:
        """Whether the hook is called after `step`."""
        return self.loop.is_last(step) or (self.every is not None and self.every.is_due(step))

    def before_run(self, run_context: Any) -> Any:
        self._is_due_now = self.is_due(self.loop.step + 1)
        fetches = self.fetches() if self._is_due_now else None
        return None if fetches is None else tf.train.SessionRunArgs(fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._is_due_now:
            if self.every is not None:
                self.every.restart()
            self.on_step(self.loop.step, run_values.results, run_context)
