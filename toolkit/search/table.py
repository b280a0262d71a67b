"""The table of a study: a row per configuration, the best first."""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from ..comparison.verdict import Band
from ..display import table
from ..statistics.intervals import LEVEL, t_interval
from .definition import (
    DIVERGED,
    FAILED,
    FINISHED,
    PAUSED,
    STOPPED,
    Configuration,
    Definition,
    TrialResult,
    value_text,
)

WAITING = "waiting"  # the status of a configuration without all of its results
_RANKS = {FINISHED: 0, STOPPED: 1, PAUSED: 2, WAITING: 3, DIVERGED: 4, FAILED: 4}
SEEDS, EXAMPLES = "seeds", "examples"  # what an interval is over
MAX_TEXT = 40  # characters of a value


class Row(NamedTuple):
    """One configuration with its results so far.

    Attributes:
        number: of the configuration.
        values: of the options that vary.
        status: FINISHED, STOPPED (by halving), PAUSED (at a rung), DIVERGED, FAILED or WAITING.
        reason: why it was stopped or failed, one sentence; else "".
        value: the mean of the metric over the seeds that have one; None if none has.
        low: the lower end of the value's interval; None if there is none.
        high: the upper end; likewise.
        interval: what it is over: SEEDS where the study has several, of which two or more have a
            value; else EXAMPLES, those of the validation split. "" without an interval.
        seeds: how many seeds have a value.
        rung: the last rung that it reached.
        step: the largest step of its trials.
        cpu_secs: of the processor, summed over its trials.
        seconds: of the clock, likewise.
        paths: of the runs, relative to the study's folder, by seed.
    """

    number: int
    values: Dict[str, Any]
    status: str
    reason: str
    value: Optional[float]
    low: Optional[float]
    high: Optional[float]
    interval: str
    seeds: int
    rung: int
    step: int
    cpu_secs: float
    seconds: float
    paths: List[str]

    def as_json(self) -> Dict[str, Any]:
        return dict(self._asdict())


def make_rows(
    definition: Definition,
    configurations: Sequence[Configuration],
    results: Sequence[TrialResult],
) -> List[Row]:
    """Return the rows of all configurations so far, the best first; those that failed last.

    Args:
        definition: of the study.
        configurations: so far.
        results: the last one of each trial.
    """
    rows = [
        _make_row(definition, each, [r for r in results if r.configuration == each.number])
        for each in configurations
    ]
    sign = 1 if definition.direction == "min" else -1

    def place(row: Row) -> Any:
        value = math.inf if row.value is None else sign * row.value
        return _RANKS[row.status], -row.rung, value, row.number

    return sorted(rows, key=place)


def _make_row(
    definition: Definition, configuration: Configuration, results: Sequence[TrialResult]
) -> Row:
    rung = max((result.rung for result in results), default=0)
    valued = [r for r in results if r.value is not None and r.rung == rung]
    values = [r.value for r in valued if r.value is not None]
    low, high = next(((r.low, r.high) for r in valued), (None, None))
    if len(definition.seeds) > 1:
        low = high = None
    if len(values) > 1:
        low, high = t_interval(values)[:2]
    has_interval = low is not None and high is not None
    status, reason = _status(definition, results)
    return Row(
        number=configuration.number,
        values=dict(configuration.values),
        status=status,
        reason=reason,
        value=float(np.mean(values)) if values else None,
        low=low if has_interval else None,
        high=high if has_interval else None,
        interval=(SEEDS if len(definition.seeds) > 1 else EXAMPLES) if has_interval else "",
        seeds=len(values),
        rung=rung,
        step=max((result.step for result in results), default=0),
        cpu_secs=round(sum(result.cpu_secs for result in results), 2),
        seconds=round(sum(result.seconds for result in results), 2),
        paths=[result.path for result in results],
    )


def _status(definition: Definition, results: Sequence[TrialResult]) -> Any:
    """Return the status of a configuration, and the reason."""
    by_status = {result.status: result for result in reversed(results)}
    for status in (DIVERGED, FAILED):
        if status in by_status:
            result = by_status[status]
            is_one = len(definition.seeds) == 1
            return status, result.reason if is_one else f"Seed {result.seed}: {result.reason}"
    if len(results) < len(definition.seeds):
        return WAITING, ""
    for status in (STOPPED, PAUSED):
        if status in by_status:
            return status, by_status[status].reason
    return FINISHED, ""


def describe_intervals(rows: Sequence[Row]) -> str:
    """Return what the intervals of a table say, as a sentence; "" if there are none."""
    kind = next((row.interval for row in rows if row.interval), "")
    level = f"{100 * LEVEL:g} % intervals"
    if kind == SEEDS:
        return f"{level} of the mean over the seeds, on one validation split."
    if kind == EXAMPLES:
        return f"{level} over the examples of the validation split; another seed may differ more."
    return ""


# ------------------------------------------------------------------------------------------- text


def format_table(definition: Definition, rows: Sequence[Row], max_rows: int = 40) -> List[str]:
    """Return the lines of the table for a terminal."""
    names = [dimension.name for dimension in definition.space]
    has_seeds = len(definition.seeds) > 1
    header = ["", *names, definition.metric, *(["seeds"] if has_seeds else []), "status", "step"]
    cells = []
    for row in rows[:max_rows]:
        texts = [cell_text(row.values[name]) for name in names]
        seeds = [f"{row.seeds} of {len(definition.seeds)}"] if has_seeds else []
        facts = [row.status, f"{row.step:,}", f"{row.cpu_secs:.1f}"]
        cells.append([str(row.number), *texts, describe_mean(row), *seeds, *facts])
    first, *others = table.format_table([*header, "CPU s"], cells)
    lines = [first]
    for line, row in zip(others, rows):
        reason = row.reason if row.status in (DIVERGED, FAILED) else ""
        lines += [line, f"    {reason}"] if reason else [line]
    if len(rows) > max_rows:
        lines.append(f"... and {len(rows) - max_rows} more")
    return lines


def describe_mean(row: Row) -> str:
    """Return the value of a row, with its interval if it has one."""
    if row.value is None:
        return "-"
    return str(Band(row.value, row.low, row.high, None, row.seeds))


def cell_text(value: Any) -> str:
    """Return the value of an option as a table shows it, and as a command can have it."""
    text = value_text(value)
    if isinstance(value, float) and float(f"{value:.6g}") == value:
        text = f"{value:.6g}"
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
