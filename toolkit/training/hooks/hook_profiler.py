"""What each hook costs, in milliseconds per step."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Sequence

WITHIN_STEPS = ("before_run", "after_run")
TIMED = WITHIN_STEPS + ("on_restore", "on_stop")


class HookTimes:
    """Seconds spent in the methods of hooks, from now on. clock: seconds."""

    def __init__(self, hooks: Sequence[Any], clock: Callable[[], float] = time.perf_counter):
        self._clock = clock
        self.seconds: Dict[str, float] = {}
        self._in_steps = 0.0  # of them those within a step
        for hook in hooks:
            self.seconds.setdefault(hook.name, 0.0)
            for method in TIMED:
                setattr(hook, method, self._timed(hook.name, getattr(hook, method)))

    def _timed(self, name: str, function: Callable) -> Callable:
        def timed(*arguments):
            started = self._clock()
            try:
                return function(*arguments)
            finally:
                spent = self._clock() - started
                self.seconds[name] += spent
                if function.__name__ in WITHIN_STEPS:
                    self._in_steps += spent

        return timed

    def lines(self, steps: int, bare: float, due: float) -> List[str]:
        """A table. steps: made. bare, due: seconds of calls without hooks, and of those with."""
        rows = [("bare steps", bare), ("steps with hooks", max(0.0, due - self._in_steps))]
        rows += list(self.seconds.items())
        width = max(len(name) for name, _ in rows)
        total = sum(seconds for _, seconds in rows)
        return ["{:<{}}  ms per step   share".format("", width)] + [
            "{:<{}}  {:11.4f}  {:5.1f}%".format(
                name, width, 1000 * seconds / max(steps, 1), 100 * seconds / max(total, 1e-9)
            )
            for name, seconds in rows
        ]
