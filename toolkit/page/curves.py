"""Curves over the steps of a run: read from its records, and thinned so that extremes stay."""

from __future__ import annotations

import bisect
import math
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..comparison.record import finite
from .values import clean_text, count, shortest

MAX_SERIES = 80  # names of metrics in one file
_NO_METRICS = ("step", "kind", "split", "within_noise")
_NUMBERS = (float, int, type(None))  # of JSON; null was not finite
_LARGE = 1.7e308  # a number beyond it is as good as infinite
_SMALL_GROUPS = ("learning_rate", "gradient_norm")  # which come last


class Series:
    """The values of one metric by step; NaN where it was not finite."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.values = array("d")
        self._last = -1

    def add(self, step: int, value: float) -> None:
        """Add a value; what was recorded of this step and later ones is replaced."""
        if step <= self._last:
            start = bisect.bisect_left(self.steps, step)
            del self.steps[start:], self.values[start:]
        self._last = step
        self.steps.append(step)
        self.values.append(value)

    def last(self) -> Optional[Tuple[int, float]]:
        """The last step with a finite value, and the value; None if there is none."""
        for position in range(len(self.steps) - 1, -1, -1):
            if math.isfinite(self.values[position]):
                return self.steps[position], self.values[position]
        return None

    def gaps(self) -> List[int]:
        """The steps at which the value was not finite, and was before or is the first."""
        is_gap = [not math.isfinite(value) for value in self.values]
        return [
            step
            for position, step in enumerate(self.steps)
            if is_gap[position] and not (position and is_gap[position - 1])
        ]


class SeriesTable:
    """The series of a file by (name, split).

    Attributes:
        series: in the order in which they first appear.
        has_omissions: whether there were more than `MAX_SERIES` names.
    """

    def __init__(self) -> None:
        self.series: Dict[Tuple[str, str], Series] = {}
        self.has_omissions = False

    def add(self, record: Dict[str, Any], split: str) -> None:
        """Add each number of a record. A missing one, null, was not finite."""
        step = count(record.get("step"))
        if step is None:
            return
        for name, value in record.items():
            if type(value) in _NUMBERS and name not in _NO_METRICS:
                series = self.series.get((name, split)) or self._create(name, split)
                if series is not None:
                    is_finite = value is not None and -_LARGE < value < _LARGE
                    series.add(step, value if is_finite else math.nan)

    def _create(self, name: str, split: str) -> Optional[Series]:
        """A new series; None if there are too many."""
        if len(self.series) >= MAX_SERIES:
            self.has_omissions = True
            return None
        self.series[name, split] = Series()
        return self.series[name, split]


class Curve(NamedTuple):
    """A series as a page shows it, see the design of its JSON."""

    group: str
    name: str
    split: str
    series: Series

    def as_json(self, max_points: int) -> Dict[str, Any]:
        steps, values = thin(self.series.steps, self.series.values, max_points)
        return {
            "group": self.group,
            "name": clean_text(self.name, 80),
            "split": self.split,
            "steps": steps,
            "values": [shortest(finite(value)) for value in values],
            "thinned": len(self.series.steps) if len(steps) < len(self.series.steps) else 0,
        }


def list_curves(table: SeriesTable, first: Sequence[str] = ()) -> List[Curve]:
    """The curves of a run, those of one group beside each other.

    Args:
        table: the series.
        first: names of metrics whose groups come first.
    """
    curves = [
        Curve(_group(name), name, split, series)
        for (name, split), series in table.series.items()
        if any(map(math.isfinite, series.values)) or name.endswith("loss")
    ]
    groups = list(dict.fromkeys([*map(_group, first), "loss", *(curve.group for curve in curves)]))
    groups.sort(key=lambda group: group in _SMALL_GROUPS)
    return sorted(curves, key=lambda curve: groups.index(curve.group))


def _group(name: str) -> str:
    """The name of the chart in which a metric is shown."""
    return "loss" if name == "loss" or name.endswith("_loss") else clean_text(name, 80)


def thin(
    steps: Sequence[int], values: Sequence[float], max_points: int
) -> Tuple[List[int], List[float]]:
    """The points to draw: of each of several equal parts of the axis the first, the last, the
    lowest and the highest, and one that is not finite if there is one.

    Args:
        steps: in ascending order.
        values: NaN where a value was not finite.
        max_points: about so many points remain; at least 5.

    Returns:
        The steps and values of the points; all if there are few.
    """
    length = len(steps)
    if length <= max_points:
        return list(steps), list(values)
    num_parts = max(1, max_points // 5)
    positions: List[int] = []
    for part in range(num_parts):
        start, end = length * part // num_parts, length * (part + 1) // num_parts
        positions += _extremes(values, start, end)
    return [steps[p] for p in positions], [values[p] for p in positions]


def _extremes(values: Sequence[float], start: int, end: int) -> List[int]:
    """The positions to keep of a part of the values, in their order."""
    if start >= end:
        return []
    part = values[start:end]
    positions = {start, end - 1}
    numbers = [value for value in part if value == value]
    if numbers:
        positions.add(start + part.index(min(numbers)))
        positions.add(start + part.index(max(numbers)))
    if len(numbers) < len(part):
        positions.add(next(p for p in range(start, end) if values[p] != values[p]))
    return sorted(positions)
