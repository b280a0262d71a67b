"""Curves over the steps of a run: read from its records, and thinned so that extremes stay."""

from __future__ import annotations

import bisect
import math
from array import array
from typing import Any, Dict, List, Optional, Tuple

from .values import count, in_words

MAX_CURVES = 80  # of one file
_NO_METRICS = ("step", "kind", "split", "within_noise")
_NUMBERS = (float, int, type(None))  # of JSON; null was not finite
_LARGE = 1e300  # a number beyond it is as good as infinite
_LAST = ("learning rate", "gradient norm")  # the charts at the end


class Curve:
    """The values of one metric in one split by step; NaN where one was not finite."""

    def __init__(self, name: str, split: str):
        self.name, self.split, self.group = name, split, _group(name)
        self.steps, self.values = array("q"), array("d")

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


class Curves:
    """The curves of a file by name and split, at most `MAX_CURVES`."""

    def __init__(self) -> None:
        self._curves: Dict[Tuple[str, str], Curve] = {}

    def add(self, record: Dict[str, Any], split: str) -> None:
        """Add each number of a record. A missing one, null, was not finite."""
        step = count(record.get("step"))
        for name, value in record.items():
            is_full = len(self._curves) >= MAX_CURVES and (name, split) not in self._curves
            is_number = type(value) in _NUMBERS and name not in _NO_METRICS
            if step is not None and is_number and not is_full:
                is_finite = value is not None and -_LARGE < value < _LARGE
                curve = self._curves.setdefault((name, split), Curve(name, split))
                curve.add(step, value if is_finite else math.nan)

    def ordered(self, first: Optional[str] = None) -> List[Curve]:
        """The curves, those of one chart beside each other; `first` follows the losses."""
        curves = [c for c in self._curves.values() if c.points() or c.name.endswith("loss")]
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
