"""The metrics of a run: their values with intervals, the main one, and which values are better."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

from ..statistics.intervals import Interval
from .record import RunRecord, finite

TEST, VALIDATION = "test", "validation"
DIRECTIONS = ("min", "max")


class Metric(NamedTuple):
    """The value of a metric of a run."""

    name: str  # of the metric
    value: float  # nan if it was not finite
    split: str  # of the data, "test" or "validation"
    direction: Optional[str]  # "min" or "max", whichever is better; None if nothing says it
    low: Optional[float] = None  # the lower end of its interval; None without one
    high: Optional[float] = None  # the upper end; likewise
    level: Optional[float] = None  # of the interval, in (0, 1); likewise
    method: str = ""  # how the interval was computed; "" without one

    @property
    def merit(self) -> float:
        """The value, negative where lower ones are better; higher ones are if nothing says it."""
        return -self.value if self.direction == "min" else self.value


def metrics_by_name(record: RunRecord) -> Dict[str, Metric]:
    """The metrics of the test split by name; those of noise come last."""
    intervals, metrics = record.of_test("intervals"), {}
    for name in sorted(record.metrics, key=lambda name: name.endswith("_noise")):
        ends = read_interval(intervals, name)
        direction = direction_of(record, name)
        metrics[name] = Metric(name, record.metrics[name], TEST, direction, *(ends or ()))
    return metrics


def main_metric(record: RunRecord, name: Optional[str] = None) -> Optional[Metric]:
    """The metric by which a person knows how good a run is; None if it has none yet.

    It is one of the test split, or of the validation split for a run without a test: the one of the
    name, else that which chose the best checkpoint, else the first on the run's page, else the
    first with a declared direction that is no loss.
    """
    best = record.best or {}
    if record.test is not None:
        metrics = metrics_by_name(record)
        usual = [each for each in metrics if not each.endswith("_noise")]
        declared = [each for each in usual if metrics[each].direction]
        items = record.of_test("page", "headline")  # the numbers that the plugin puts first
        items = items if isinstance(items, list) else []
        names = [best.get("metric")]
        names += [each.get("name") for each in items if isinstance(each, dict)]
        names += [each for each in [*declared, *usual] if "loss" not in each] + declared + usual
        names = names if name is None else [name]
        return next((metrics[n] for n in names if isinstance(n, str) and n in metrics), None)
    value = finite(best.get("value"))
    if value is not None and name in (None, best.get("metric")):
        return Metric(str(best.get("metric")), value, VALIDATION, best.get("direction"))
    last = ((record.manifest.get("validation") or {}).get("last") or {}).get("metrics", {})
    values = {key: number for key, number in last.items() if finite(number) is not None}
    name = name or next(iter(sorted(values, key=lambda key: "loss" in key)), "")
    if name not in values:
        return None
    return Metric(name, float(values[name]), VALIDATION, direction_of(record, name))


def direction_of(record: RunRecord, name: str) -> Optional[str]:
    """Which values of a metric are better, "min" or "max"; None if nothing says it."""
    direction = record.of_test("directions", name)
    if direction in DIRECTIONS:
        return str(direction)
    best = record.best or {}
    return best.get("direction") if best.get("metric") == name else None


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
