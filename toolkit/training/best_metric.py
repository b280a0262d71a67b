"""The metric that chooses the best checkpoint: what is better, and what can be compared."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

from ..errors import UsageError, suggest

WORDS = {"min": "lowest", "max": "highest"}
SPLIT = "validation"


class BestMetric(NamedTuple):
    """The metric that chooses the best checkpoint."""

    name: str
    direction: str  # "min" where lower values are better, "max" where higher ones are
    note: str = ""  # what a user should know of the direction, as a clause
    # What its values depend on besides the model, JSON values by name; called where values are
    # compared, since a network may have to be trained for it.
    find_dependencies: Callable[[], Mapping[str, Any]] = dict

    @property
    def summary(self) -> str:
        """What the best checkpoint has, as "the highest accuracy on the validation split"."""
        text = f"the {WORDS[self.direction]} {self.name} on the {SPLIT} split"
        return f"{text}, {self.note}" if self.note else text

    def choose(
        self, best: Optional[Mapping[str, Any]], step: int, value: float, noise: float = 0.0
    ) -> Optional[Dict[str, Any]]:
        """Return the record of the best checkpoint after one more evaluation; None if none is best.

        It is the newest one whose value is within the noise of the best value so far. A metric
        without noise so has the checkpoint of the best value, and of equal values the first. The
        checkpoint of a value that is not finite is not the best. The noise is a standard deviation;
        nan counts as 0.
        """
        best_value = read_best_value(best)
        if self.is_better(value, best_value):
            return self.record(step, value, noise, value)
        if best is None or best_value is None:
            return None
        is_within = noise > 0 and self._shortfall(value, best_value) <= noise
        if is_within and math.isfinite(value):
            return self.record(step, value, noise, best_value)
        return dict(best)

    def is_better(self, value: float, best: Optional[float]) -> bool:
        """Whether `value`, if it is finite, is better than `best`, None if there is none yet."""
        return math.isfinite(value) and (best is None or self._shortfall(value, best) < 0)

    def _shortfall(self, value: float, best: float) -> float:
        """By how much `value` is worse than `best`; negative if it is better."""
        return value - best if self.direction == "min" else best - value

    def record(self, step: int, value: float, noise: float, best_value: float) -> Dict[str, Any]:
        """The record of a best checkpoint in JSON values: of a step, with the value of the metric,
        its noise (a standard deviation; 0 or nan where it is not measured), and the best value of
        the evaluations so far.
        """
        record = {
            "step": step,
            "metric": self.name,
            "direction": self.direction,
            "value": value,
            "split": SPLIT,
            "depends_on": dict(self.find_dependencies()),
        }
        return dict(record, noise=noise, reached=best_value) if noise > 0 else record

    def find_difference(self, best: Mapping[str, Any]) -> str:
        """Why values of this metric cannot be compared with a record; '' if they can."""
        now = {"metric": self.name, "direction": self.direction, **self.find_dependencies()}
        before = {name: best.get(name) for name in ("metric", "direction")}
        before.update(best.get("depends_on", {}))
        names = [n for n in sorted({*before, *now}) if before.get(n) != now.get(n)]
        return "; ".join(f"{n} was {before.get(n)!s:.40}, now {now.get(n)!s:.40}" for n in names)


def read_best_value(best: Optional[Mapping[str, Any]]) -> Optional[float]:
    """The best value of the evaluations so far, from the record of the best checkpoint: where it is
    not recorded, that of the checkpoint. None without a record.
    """
    return None if best is None else best.get("reached", best["value"])


def choose_best_metric(text: str, directions: Mapping[str, Optional[str]]) -> BestMetric:
    """The metric that --best-metric names: `NAME`, `min:NAME` or `max:NAME`. `directions` has each
    computed metric with its declared direction or None. Raises UsageError if no such metric is
    computed, or the direction is not known.
    """
    prefix, _, name = text.partition(":") if ":" in text else ("", "", text)
    if prefix not in ("", "min", "max") or text.startswith(":"):
        raise UsageError(
            f"--best-metric is {text}, which begins with neither min: nor max:.",
            hint="Write NAME, min:NAME or max:NAME.",
        )
    if name not in directions:
        raise UsageError(
            f"There is no metric '{name}' to choose the best checkpoint by.",
            hint=suggest(name, directions),
        )
    declared = directions[name]
    if prefix:
        other = {"min": "higher", "max": "lower"}[prefix]
        is_same = declared in (None, prefix)
        return BestMetric(
            name, prefix, "" if is_same else f"although {other} values are declared better"
        )
    if declared:
        return BestMetric(name, declared)
    raise UsageError(
        f"--best-metric is {name}, but nothing declares whether higher or lower values are better.",
        hint=f"Write min:{name} or max:{name}, or declare it in the plugin's hook "
        "metric_directions.",
    )
