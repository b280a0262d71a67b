"""Measure what each hook costs, in milliseconds per step."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Sequence

from .base import HookWrapper, SessionHook

STEP_METHODS = ("before_run", "after_run")
MEASURED_METHODS = STEP_METHODS + ("on_restore", "on_stop")


class HookProfiler:
    """Seconds spent in the methods of hooks.

    Args:
        clock: returns seconds.

    Attributes:
        seconds: name of a hook -> seconds in its methods.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self._clock = clock
        self.seconds: Dict[str, float] = {}
        self._secs_in_steps = 0.0

    def wrap(self, hooks: Sequence[SessionHook]) -> List[SessionHook]:
        """The hooks, each measured from now on."""
        return [_MeasuredHook(hook, self) for hook in hooks]

    def measure(self, name: str, method: str, function: Callable, *arguments):
        """Call a function, and add its time to that of a hook's method."""
        start = self._clock()
        try:
            return function(*arguments)
        finally:
            secs = self._clock() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + secs
            if method in STEP_METHODS:
                self._secs_in_steps += secs

    def ms_per_step(self, steps: int, bare_secs: float, due_secs: float) -> Dict[str, float]:
        """Milliseconds per step by name: of the steps without hooks, of those with, of each hook.

        Args:
            steps, bare_secs, due_secs: as for `table`.
        """
        rows = self._rows(bare_secs, due_secs)
        return {name: round(1000 * secs / max(steps, 1), 6) for name, secs in rows.items()}

    def _rows(self, bare_secs: float, due_secs: float) -> Dict[str, float]:
        secs_with_hooks = max(0.0, due_secs - self._secs_in_steps)
        return {"bare steps": bare_secs, "steps with hooks": secs_with_hooks, **self.seconds}

    def table(self, steps: int, bare_secs: float, due_secs: float) -> List[str]:
        """The lines of a table of milliseconds per step and shares.

        Args:
            steps: how many steps were made.
            bare_secs: seconds of the calls without hooks.
            due_secs: seconds of the steps with hooks, the hooks included.
        """
        rows = list(self._rows(bare_secs, due_secs).items())
        width = max(len(name) for name, _ in rows)
        total = sum(secs for _, secs in rows)
        lines = [f"{'':<{width}}  ms per step   share"]
        for name, secs in rows:
            per_step, share = 1000 * secs / max(steps, 1), 100 * secs / max(total, 1e-9)
            lines.append(f"{name:<{width}}  {per_step:11.4f}  {share:5.1f}%")
        return lines


class _MeasuredHook(HookWrapper):
    def __init__(self, inner: SessionHook, profiler: HookProfiler):
        super().__init__(inner, inner.name)
        self._profiler = profiler
        profiler.seconds.setdefault(inner.name, 0.0)

    def _call(self, method: str, *arguments):
        function = getattr(self._inner, method)
        if method not in MEASURED_METHODS:
            return function(*arguments)
        return self._profiler.measure(self.name, method, function, *arguments)
