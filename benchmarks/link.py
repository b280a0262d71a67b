"""The connection between the harness and a contender: when to run, and how far it came.

A contender calls `should_continue` at the ends of its intervals. The call returns at once during a
timed span and blocks during another contender's turn. All times are `time.monotonic` seconds, which
all processes of the machine share.
"""

from __future__ import annotations

import json
import os
import time

VARIABLE = "TRAINING_SPEED_PIPES"  # "<file descriptor to read>,<file descriptor to write>"
WARM_SHARE = 0.2  # of a span, run before it, since another contender used the caches


class Link:
    """The contender's end."""

    def __init__(self):
        read, write = (int(number) for number in os.environ[VARIABLE].split(","))
        self._read = os.fdopen(read, "r")
        self._write = os.fdopen(write, "w")
        self._request = None  # the current request of the harness
        self._warm_until = 0.0
        self._start = None  # (time, step) at which the span began
        self._num_restarts = 0  # of the current span

    def mark(self, name: str) -> None:
        """Report a stage of the start-up: "import", "build" or "step"."""
        self._send(mark=name, at=time.monotonic())

    def repeat(self, steps: int, call) -> None:
        """Repeat a call that trains `steps` steps until the harness stops it."""
        call()
        self.mark("step")
        step = 0
        while self.should_continue(step):
            call()
            step += steps

    def should_continue(self, step: int, is_disturbed: bool = False, **facts) -> bool:
        """Report that `step` steps are complete; wait for the next turn. False: stop training.

        The harness may request a `whole` span, which disturbances do not restart, or a multiple of
        `period` steps, which is given up after two restarts.

        Args:
            step: Steps since the start, all finished.
            is_disturbed: Something happened that must not be timed: the span starts again.
            facts: Reported together with the span.
        """
        now = time.monotonic()
        if self._request is None:
            return self._wait()
        if now < self._warm_until:
            return True
        is_disturbed = is_disturbed and not self._request.get("whole")
        if self._start is None or is_disturbed:
            self._num_restarts += is_disturbed and self._start is not None
            self._start = (now, step)
            return True
        seconds, steps = now - self._start[0], step - self._start[1]
        period = self._request.get("period", 1) if self._num_restarts < 2 else 1
        if seconds < self._request["seconds"] or steps % period:
            return True
        self._send(steps=steps, seconds=seconds, **facts)
        return self._wait()

    def _wait(self) -> bool:
        line = self._read.readline()
        self._request = json.loads(line) if line else {"stop": True}
        if "stop" in self._request:
            return False
        self._start, self._num_restarts = None, 0
        self._warm_until = time.monotonic() + WARM_SHARE * self._request["seconds"]
        return True

    def _send(self, **facts) -> None:
        self._write.write(json.dumps(facts) + "\n")
        self._write.flush()
