"""The table of a study: which trials are due, and a row per configuration, the best first.

Both are functions of the definition and of results, and of nothing else. A *cohort* is a set of
configurations that halving compares: they all train up to the first rung, and the best 1/reduction
of them up to the next one. A rung is decided when the cohort has all of its results, so that the
decision does not depend on who trained what and when.
"""

from __future__ import annotations

import math
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..comparison.verdict import Band
from ..display import table
from ..statistics.intervals import LEVEL, t_interval
from .definition import DIVERGED, FAILED, FINISHED, PAUSED, Definition, Trial, value_text
from .study import TRIALS, Study

STOPPED = "stopped"  # the status of a configuration that was not among the best of its rung
WAITING = "waiting"  # ... without all of its results
_RANKS = {FINISHED: 0, STOPPED: 1, PAUSED: 2, WAITING: 3, DIVERGED: 4, FAILED: 4}
SEEDS, EXAMPLES = "seeds", "examples"  # what an interval is over
MAX_ROWS = 40  # on a terminal
MAX_TEXT = 40  # characters of a value


class Row(NamedTuple):
    """One configuration with its results so far."""

    number: int  # of the configuration
    values: Dict[str, Any]  # of the options that vary
    status: str  # FINISHED, STOPPED (by halving), PAUSED (at a rung), DIVERGED, FAILED or WAITING
    reason: str  # why it was stopped or failed, one sentence; else ""
    value: Optional[float]  # the mean of the metric over the seeds that have one; None if none has
    low: Optional[float]  # the lower end of the value's interval; None if there is none
    high: Optional[float]  # the upper end; likewise
    # what it is over: SEEDS where the study has several, of which two or more have a value; else
    # EXAMPLES, those of the validation split. "" without an interval.
    interval: str
    seeds: int  # how many seeds have a value
    rung: int  # the last rung that it reached
    step: int  # the largest step of its trials
    cpu_secs: float  # of the processor, summed over its trials
    paths: List[str]  # of the runs, relative to the study's folder, by seed

    @property
    def has_failed(self) -> bool:
        """Whether a trial of it diverged or failed."""
        return self.status in (DIVERGED, FAILED)


# ---------------------------------------------------------------------------------------- halving


def list_due(study: Study, cohort: Sequence[int]) -> List[Trial]:
    """Return the trials of a cohort that can be trained now; none if it has all results."""
    for rung, numbers in enumerate(_members(study, cohort)):
        trials = [
            Trial(study.configurations[number], seed, rung)
            for number in numbers
            for seed in study.definition.seeds
            if (number, seed, rung) not in study.results
        ]
        if trials:
            return trials
    return []


def num_continuing(definition: Definition, count: int) -> int:
    """Return how many of `count` configurations of a rung continue, if so many have a value."""
    return max(1, count // definition.reduction)


def _members(study: Study, cohort: Sequence[int]) -> List[Sequence[int]]:
    """The configurations of each rung, up to the first rung that is not decided."""
    definition, results = study.definition, study.results
    sign = 1 if definition.direction == "min" else -1
    members: List[Sequence[int]] = [cohort]
    for rung in range(len(definition.rungs) - 1):
        ranks = []
        for number in members[-1]:
            keys = [(number, seed, rung) for seed in definition.seeds]
            if any(key not in results for key in keys):
                return members
            values = [results[key].value for key in keys]
            if None not in values:
                ranks.append((sign * _mean(values), number))
        best = sorted(ranks)[: num_continuing(definition, len(members[-1]))]
        members.append(sorted(number for _, number in best))
    return members


def _mean(values: Sequence[Any]) -> float:
    return sum(values) / len(values)


# ------------------------------------------------------------------------------------------- rows


def make_rows(study: Study, cohort: Sequence[int]) -> List[Row]:
    """Return the rows of the configurations of a cohort so far, in order of their numbers."""
    members = _members(study, cohort)
    return [_make_row(study, n, members) for n in cohort if n in study.configurations]


def _make_row(study: Study, number: int, members: Sequence[Sequence[int]]) -> Row:
    definition, results = study.definition, study.results
    configuration, seeds = study.configurations[number], definition.seeds
    trials = [
        Trial(configuration, seed, rung)
        for seed in seeds
        for rung in range(len(definition.rungs))
        if (number, seed, rung) in results
    ]
    last = {trial.seed: trial for trial in trials}  # of its rungs
    ended = [(seed, results[trial.key]) for seed, trial in last.items()]
    rung = max((trial.rung for trial in trials), default=0)
    valued = [each for seed, each in ended if last[seed].rung == rung and each.value is not None]
    values = [each.value for each in valued if each.value is not None]
    low = high = None
    if len(values) > 1:
        low, high = t_interval(values)[:2]
    elif values and len(seeds) == 1 and valued[0].high is not None:
        low, high = valued[0].low, valued[0].high
    step = max((each.step for _, each in ended), default=0)
    status, reason = FINISHED, ""
    by_status = {each.status: (seed, each.reason) for seed, each in reversed(ended)}
    if DIVERGED in by_status or FAILED in by_status:
        status = DIVERGED if DIVERGED in by_status else FAILED
        seed, reason = by_status[status]
        reason = f"Seed {seed}: {reason}" if len(seeds) > 1 else reason
    elif len(ended) < len(seeds):
        status = WAITING
    elif PAUSED in by_status:
        status = PAUSED
        if rung + 1 < len(members) and number not in members[rung + 1]:
            status, counts = STOPPED, f"{len(members[rung + 1])} of {len(members[rung])}"
            place = f"rung {rung + 1} of {len(definition.rungs)} (step {step})"
            reason = f"stopped at {place}: {counts} configurations continued"
    return Row(
        number=number,
        values=dict(configuration.values),
        status=status,
        reason=reason,
        value=_mean(values) if values else None,
        low=low,
        high=high,
        interval="" if low is None else SEEDS if len(seeds) > 1 else EXAMPLES,
        seeds=len(values),
        rung=rung,
        step=step,
        cpu_secs=round(sum(each.cpu_secs for _, each in ended), 2),
        paths=[os.path.join(TRIALS, trial.name) for trial in last.values()],
    )


def sort_rows(definition: Definition, rows: Sequence[Row]) -> List[Row]:
    """Return rows with the best first; those that failed last."""
    sign = 1 if definition.direction == "min" else -1

    def place(row: Row) -> Any:
        value = math.inf if row.value is None else sign * row.value
        return _RANKS[row.status], -row.rung, value, row.number

    return sorted(rows, key=place)


# ------------------------------------------------------------------------------------------- text


def describe_intervals(rows: Sequence[Row]) -> str:
    """Return what the intervals of a table say, as a sentence; "" if there are none."""
    kinds = {row.interval for row in rows}
    text = "over the examples of the validation split; another seed may differ more."
    if SEEDS in kinds:
        text = "of the mean over the seeds, on one validation split."
    return f"{100 * LEVEL:g} % intervals {text}" if any(kinds) else ""


def format_table(definition: Definition, rows: Sequence[Row]) -> List[str]:
    """Return the lines of the table for a terminal."""
    names = [dimension.name for dimension in definition.space]
    num_seeds = len(definition.seeds)
    seeds = ["seeds"] if num_seeds > 1 else []
    cells = []
    for row in rows[:MAX_ROWS]:
        value = "-" if row.value is None else str(Band(row.value, row.low, row.high, None, 1))
        texts = [value_text(row.values[name]) for name in names]
        texts = [t if len(t) <= MAX_TEXT else t[: MAX_TEXT - 3] + "..." for t in texts]
        facts = [f"{row.seeds} of {num_seeds}" for _ in seeds] + [row.status, f"{row.step:,}"]
        cells.append([str(row.number), *texts, value, *facts, f"{row.cpu_secs:.1f}"])
    header = ["", *names, definition.metric, *seeds, "status", "step", "CPU s"]
    first, *others = table.format_table(header, cells)
    lines = [first]
    for line, row in zip(others, rows):
        lines += [line, f"    {row.reason}"] if row.has_failed and row.reason else [line]
    if len(rows) > MAX_ROWS:
        lines.append(f"... and {len(rows) - MAX_ROWS} more")
    return lines
