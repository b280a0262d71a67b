"""The metrics of a run: their values with intervals, the main one, and which values are better."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional

from ..statistics.intervals import Interval
from ..storage.jsonl import parse_object
from .record import METRICS, RunRecord, finite, read_last_lines

TEST, VALIDATION = "test", "validation"
DIRECTIONS = ("min", "max")


class Metric(NamedTuple):
    """The value of a metric of a run.

    Attributes:
        name: of the metric.
        value: nan if it was not finite.
        split: of the data, "test" or "validation".
        direction: "min" or "max", whichever is better; None if nothing says it.
        low: the lower end of its interval; None without one.
        high: the upper end; likewise.
        level: the share of such intervals that contain the true value; likewise.
        method: how the interval was computed; "" without one.
    """

    name: str
    value: float
    split: str
    direction: Optional[str]
    low: Optional[float] = None
    high: Optional[float] = None
    level: Optional[float] = None
    method: str = ""

    def as_json(self) -> Dict[str, Any]:
        return dict(self._asdict())

    @property
    def merit(self) -> float:
        """The value, negative where lower ones are better; higher ones are if nothing says it."""
        return -self.value if self.direction == "min" else self.value


def metrics_by_name(record: RunRecord) -> Dict[str, Metric]:
    """The metrics of the test split by name; those of noise come last."""
    names = sorted(record.metrics, key=lambda name: name.endswith("_noise"))
    return {name: _test_metric(record, name) for name in names}


def main_metric(record: RunRecord, name: Optional[str] = None) -> Optional[Metric]:
    """The metric by which a person knows how good a run is; None if it has none yet.

    It is one of the test split, or of the validation split for a run without a test.

    Args:
        record: of the run.
        name: of the metric; None: the one that chose the best checkpoint, else the first on the
            run's page, else the first with a declared direction that is no loss.
    """
    if record.test is not None:
        name = _main_name(record) if name is None else name
        return _test_metric(record, name) if name in record.metrics else None
    best = record.best or {}
    value = best.get("value")
    if isinstance(value, (int, float)) and name in (None, best.get("metric")):
        return Metric(str(best.get("metric")), float(value), VALIDATION, best.get("direction"))
    return _last_validation(record, name)


def direction_of(record: RunRecord, name: str) -> Optional[str]:
    """Which values of a metric are better, "min" or "max"; None if nothing says it."""
    declared = (record.test or {}).get("directions")
    direction = declared.get(name) if isinstance(declared, dict) else None
    if direction in DIRECTIONS:
        return str(direction)
    if record.best and record.best.get("metric") == name:
        return record.best.get("direction")
    return None


def _main_name(record: RunRecord) -> Optional[str]:
    candidates = [(record.best or {}).get("metric"), *_headline_names(record)]
    names = [name for name in record.metrics if not name.endswith("_noise")]
    declared = [name for name in names if direction_of(record, name)]
    candidates += [name for name in declared if "loss" not in name]
    candidates += [name for name in names if "loss" not in name] + declared + names
    return next((name for name in candidates if name in record.metrics), None)


def _headline_names(record: RunRecord) -> List[str]:
    """The names of the numbers that a plugin puts first on the run's page."""
    page = (record.test or {}).get("page")
    headline = page.get("headline") if isinstance(page, dict) else None
    items = headline if isinstance(headline, list) else []
    names = [item.get("name") for item in items if isinstance(item, dict)]
    return [name for name in names if isinstance(name, str)]


def _test_metric(record: RunRecord, name: str) -> Metric:
    value, direction = record.metrics[name], direction_of(record, name)
    metric = Metric(name, value, TEST, direction)
    interval = read_interval((record.test or {}).get("intervals"), name)
    return metric if interval is None else metric._replace(**interval._asdict())


def read_interval(intervals: Any, name: str) -> Optional[Interval]:
    """The interval of a metric among those of a manifest; None if there is no valid one."""
    interval = intervals.get(name) if isinstance(intervals, dict) else None
    if not isinstance(interval, dict):
        return None
    low, high, level = (finite(interval.get(key)) for key in ("low", "high", "level"))
    if low is None or high is None or level is None:
        return None
    method = interval.get("method")
    return Interval(low, high, level, method if isinstance(method, str) else "")


def _last_validation(record: RunRecord, name: Optional[str]) -> Optional[Metric]:
    """The last value on the validation split, of a run that was not tested."""
    for line in reversed(read_last_lines(os.path.join(record.path, METRICS))):
        values = parse_object(line.decode("utf-8", "replace")) or {}
        if values.get("kind") != "eval" or values.get("split") != VALIDATION:
            continue
        finites = {key: finite(value) for key, value in values.items() if key != "step"}
        numbers = {key: value for key, value in finites.items() if value is not None}
        choice = name or next((key for key in numbers if "loss" not in key), None)
        choice = choice or next(iter(numbers), None)
        if choice not in numbers or choice is None:
            return None
        return Metric(choice, numbers[choice], VALIDATION, direction_of(record, choice))
    return None
