"""Curves over the steps of a run: read from its records, and thinned so that extremes stay."""

from __future__ import annotations

import bisect
import math
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .values import count, in_words

MAX_SERIES = 80  # names of metrics in one file
_NO_METRICS = ("step", "kind", "split", "within_noise")
_NUMBERS = (float, int, type(None))  # of JSON; null was not finite
_LARGE = 1e300  # a number beyond it is as good as infinite
_LAST = ("learning rate", "gradient norm")  # the charts at the end


class Series:
    """The values of one metric by step; NaN where it was not finite."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.values = array("d")

    def add(self, step: int, value: float) -> None:
        """Add a value; what was recorded of this step and later ones is replaced."""
        if self.steps and step <= self.steps[-1]:
            start = bisect.bisect_left(self.steps, step)
            del self.steps[start:], self.values[start:]
        self.steps.append(step)
        self.values.append(value)

    def points(self) -> List[Tuple[int, float]]:
        """The steps with finite values, and these."""
        return [pair for pair in zip(self.steps, self.values) if math.isfinite(pair[1])]

    def thin(self, limit: int) -> List[Tuple[float, float, None, None]]:
        """The points for a chart, of many about `limit`: of each of several equal parts the first,
        the last, the lowest and the highest, and one that is not finite if there is one.
        """
        values, num_parts = self.values, max(1, limit // 5)
        kept: List[int] = []
        for part in range(num_parts if len(values) > limit else 0):
            start, end = (len(values) * each // num_parts for each in (part, part + 1))
            known = [place for place in range(start, end) if values[place] == values[place]]
            gaps = [place for place in range(start, end) if values[place] != values[place]]
            extremes = [choose(known, key=values.__getitem__) for choose in (min, max) if known]
            kept += sorted({start, end - 1, *extremes, *gaps[:1]})
        places = kept or range(len(values))
        return [(self.steps[place], values[place], None, None) for place in places]


class Curve(NamedTuple):
    """A series with the title of the chart that it is drawn in."""

    group: str
    name: str
    split: str
    series: Series


class SeriesTable:
    """The series of a file by (name, split), at most `MAX_SERIES`."""

    def __init__(self) -> None:
        self._series: Dict[Tuple[str, str], Series] = {}

    def add(self, record: Dict[str, Any], split: str) -> None:
        """Add each number of a record. A missing one, null, was not finite."""
        step = count(record.get("step"))
        for name, value in record.items():
            is_full = len(self._series) >= MAX_SERIES and (name, split) not in self._series
            is_number = type(value) in _NUMBERS and name not in _NO_METRICS
            if step is not None and is_number and not is_full:
                is_finite = value is not None and -_LARGE < value < _LARGE
                series = self._series.setdefault((name, split), Series())
                series.add(step, value if is_finite else math.nan)

    def curves(self, first: Optional[str] = None) -> List[Curve]:
        """The curves, those of one chart beside each other; `first` follows the losses."""
        curves = [
            Curve(_group(name), name, split, series)
            for (name, split), series in self._series.items()
            if series.points() or name.endswith("loss")
        ]
        groups = ["loss", _group(first or "loss"), *(curve.group for curve in curves)]
        order = sorted(dict.fromkeys(groups), key=lambda group: group in _LAST)
        return sorted(curves, key=lambda curve: order.index(curve.group))


def _group(name: str) -> str:
    """The title of a metric's chart: all losses are in one, all learning rates, and what a model
    says of real and of generated examples.
    """
    base = name.rpartition("/")[2]
    if base.endswith(("_real", "_fake")):
        base = base[: -len("_real")] + "_real_and_fake"
    return "loss" if base.endswith("_loss") else in_words(base)
