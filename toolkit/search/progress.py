"""The lines of a search while it trains: one at the end of each trial."""

from __future__ import annotations

import sys
import time
from typing import Callable, Optional, Sequence

from ..display.escapes import escape_line
from ..display.numbers import format_duration, format_number
from .definition import Definition, Trial, TrialResult
from .sampler import count_results, rung_counts
from .study import Study
from .trial_options import describe_values


class ProgressLines:
    """Writes a line on stderr for each result.

    Args:
        study: whose trials.
        show: called with the numbers of trials that have ended and of all.
    """

    def __init__(
        self,
        study: Study,
        show: Callable[[int, int], None] = lambda count, total: None,
    ):
        self._study = study
        self._show = show
        self._start = time.monotonic()
        self._num_own = 0

    def report(self, trial: Trial, result: TrialResult) -> None:
        """Write the line of a trial that has ended."""
        self._num_own += 1
        results = self._study.results()
        count = self._study.num_results
        total = count_results(self._study.definition)  # which grows if another process adds trials
        self._show(count, total)
        best = self._best(results)
        seed = f" seed={trial.seed}" if len(self._study.definition.seeds) > 1 else ""
        line = f"{describe_place(self._study.definition, results, trial.rung)}  {trial.name}  "
        line += f"{describe_values(trial.configuration.values)}{seed}  {self._describe(result)}"
        if best is not None:
            line += f"  best {format_number(best)}"
        sys.stderr.write(escape_line(line + self._time_left(total - count)) + "\n")
        sys.stderr.flush()

    def _describe(self, result: TrialResult) -> str:
        if result.value is None:
            return f"{result.status}: {result.reason}"
        status = "" if result.status == "finished" else f" ({result.status} at {result.step:,})"
        return f"{self._study.definition.metric} {format_number(result.value)}{status}"

    def _best(self, results: list) -> Optional[float]:
        """Return the best value of a trial at its last rung."""
        last = len(self._study.definition.rungs) - 1
        values = [r.value for r in results if r.value is not None and r.rung == last]
        choose = min if self._study.definition.direction == "min" else max
        return choose(values) if values else None

    def _time_left(self, left: int) -> str:
        if left <= 0:
            return ""
        pace = (time.monotonic() - self._start) / self._num_own
        return f"  {format_duration(left * pace)} left"


def describe_place(definition: Definition, results: Sequence[TrialResult], rung: int) -> str:
    """Return how many trials have come to a rung, and with halving, to which one.

    Args:
        definition: of the study.
        results: the last one of each trial so far.
        rung: its position.
    """
    count = sum(result.rung >= rung for result in results)
    total = rung_counts(definition)[rung] * len(definition.seeds)
    text = f"trial {count}/{max(total, count)}"
    return f"rung {rung + 1}/{len(definition.rungs)}  {text}" if definition.reduction else text
