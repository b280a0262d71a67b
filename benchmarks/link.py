"""The line between the harness and a contender: when to run, and how far it came.

A contender calls `passed` at the ends of its intervals; the call returns at once while a span is
timed, and blocks while it is another contender's turn. All times are `time.monotonic` seconds,
which every process of the machine shares.
"""

from __future__ import annotations

import json
import os
import time

VARIABLE = "TRAINING_SPEED_PIPES"  # "<file descriptor to read>,<file descriptor to write>"
WARM_SHARE = 0.2  # of a span, run before it: the caches were another contender's


class Link:
    """The contender's end."""

    def __init__(self):
        read, write = (int(number) for number in os.environ[VARIABLE].split(","))
        self._read = os.fdopen(read, "r")
        self._write = os.fdopen(write, "w")
        self._asked = None  # the span that the harness asked for
        self._warm_until = 0.0
        self._start = None  # (time, step) at which the span began
        self._spoiled = 0  # how often it began anew

    def mark(self, name: str) -> None:
        """Tell that a moment of starting up was reached: "import", "build", "step"."""
        self._tell(mark=name, at=time.monotonic())

    def repeat(self, steps: int, call) -> None:
        """Call what makes `steps` steps, again and again, until the harness has had enough."""
        call()
        self.mark("step")
        made = 0
        while self.passed(made):
            call()
            made += steps

    def passed(self, step: int, spoiled: bool = False, **facts) -> bool:
        """The contender has made `step` steps and holds nothing back. False: stop training.

        spoiled: something came between that is not to be timed, so the span begins anew. facts:
        told with the span. The harness may ask for a `whole` span, spoiled or not, or for one of a
        multiple of `period` steps; it gets any number where two such spans were spoiled.
        """
        now = time.monotonic()
        if self._asked is None:
            return self._wait()
        if now < self._warm_until:
            return True
        spoiled = spoiled and not self._asked.get("whole")
        if self._start is None or spoiled:
            self._spoiled += spoiled and self._start is not None
            self._start = (now, step)
            return True
        seconds, steps = now - self._start[0], step - self._start[1]
        period = self._asked.get("period", 1) if self._spoiled < 2 else 1
        if seconds < self._asked["seconds"] or steps % period:
            return True
        self._tell(steps=steps, seconds=seconds, **facts)
        return self._wait()

    def _wait(self) -> bool:
        line = self._read.readline()
        self._asked = json.loads(line) if line else {"stop": True}
        if "stop" in self._asked:
            return False
        self._start, self._spoiled = None, 0
        self._warm_until = time.monotonic() + WARM_SHARE * self._asked["seconds"]
        return True

    def _tell(self, **facts) -> None:
        self._write.write(json.dumps(facts) + "\n")
        self._write.flush()
