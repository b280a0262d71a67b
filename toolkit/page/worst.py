"""The worst thing that happened in a run, in words."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from ..comparison.record import KILLED, UNSTARTED, RunRecord
from .curves import Curve
from .events import DAMAGED, GAP, REFUSED, RESUME, Event
from .facts import find_absent_classes
from .values import clean_text, fields, format_count, format_number

ERROR, WARNING, REMARK, NONE = "error", "warning", "note", "none"
LOW_RECALL = 0.5
# A decline after the best value is named if it is more than this share of the gain up to there,
# and of the best value itself, by whether more is better.
_MUCH = 0.3
_RELATIVE = {True: 0.03, False: 0.1}


class Worst(NamedTuple):
    """What a reader has to know first.

    Attributes:
        text: a sentence.
        step: at which it happened, or None.
        level: "error", "warning", "note", or "none" if nothing is wrong.
    """

    text: str
    step: Optional[int]
    level: str

    def as_json(self) -> Dict[str, Any]:
        return {"text": self.text, "step": self.step, "level": self.level}


class Facts(NamedTuple):
    """What the choice depends on."""

    record: RunRecord
    events: Sequence[Event]
    curves: Sequence[Curve]
    matrices: Sequence[Dict[str, Any]]
    notes: Sequence[Worst]  # of the plugin


def find_worst(facts: Facts) -> Worst:
    """The first of these that happened: the run failed; checkpoints are damaged; steps were
    refused or metrics not finite; a resume was not bit-exact; the validation got much worse after
    its best; the plugin has a warning, or the model a class with low recall.
    """
    for rule in _RULES:
        worst = rule(facts)
        if worst is not None:
            return worst
    return Worst("Nothing failed.", None, NONE)


def _find_failure(facts: Facts) -> Optional[Worst]:
    record = facts.record
    reason = clean_text(record.reason)
    if record.status in ("diverged", "failed"):
        return Worst(reason or f"The run {record.status}.", record.step, ERROR)
    if record.status == "trained" and record.exit_code:
        return Worst("The test after the training failed.", record.step, ERROR)
    if record.status == KILLED:
        text = f"The process was killed; step {record.step:,} is the last one committed."
        return Worst(text, record.step, ERROR)
    if record.status == UNSTARTED:
        return Worst("The run ended before its first step.", 0, WARNING)
    return None


def _find_damage(facts: Facts) -> Optional[Worst]:
    events = _of_kind(facts, DAMAGED)
    if not events:
        return None
    more = f" ({len(events)} faults in all)" if len(events) > 1 else ""
    return Worst(_sentence(events[0].text + more), events[0].step, ERROR)


def _find_refusals(facts: Facts) -> Optional[Worst]:
    events = _of_kind(facts, REFUSED)
    if not events:
        return None
    number = sum(event.number for event in events)
    first, last = events[0].step, events[-1].step
    verb = "was" if number == 1 else "were"
    place = f"by step {first:,}" if first == last else f"between steps {first:,} and {last:,}"
    steps = format_count(number, "step")
    return Worst(f"{steps} {verb} refused as not finite, {place}.", first, WARNING)


def _find_gaps(facts: Facts) -> Optional[Worst]:
    events = _of_kind(facts, GAP)
    return Worst(_sentence(events[0].text), events[0].step, WARNING) if events else None


def _find_inexact_resume(facts: Facts) -> Optional[Worst]:
    events = [event for event in _of_kind(facts, RESUME) if event.number]
    return Worst(_sentence("The run " + events[0].text), events[0].step, REMARK) if events else None


def _find_decline(facts: Facts) -> Optional[Worst]:
    """A validation that ends much worse than its best."""
    for name, is_max in _directions(facts.record).items():
        for curve in facts.curves:
            if curve.name == name and curve.split == "validation":
                worst = _describe_decline(curve, is_max)
                if worst is not None:
                    is_best = fields(facts.record.test).get("checkpoint") == "best"
                    return worst._replace(level=REMARK if is_best else WARNING)
    return None


def _directions(record: RunRecord) -> Dict[str, bool]:
    """The metrics whose direction is known, by whether more is better."""
    best = fields(record.best)
    names = {"loss": False}
    if isinstance(best.get("metric"), str) and best.get("direction") in ("min", "max"):
        names = {best["metric"]: best["direction"] == "max", **names}
    return names


def _describe_decline(curve: Curve, is_max: bool) -> Optional[Worst]:
    sign = 1.0 if is_max else -1.0
    points = [
        (sign * value, step)
        for step, value in zip(curve.series.steps, curve.series.values)
        if math.isfinite(value)
    ]
    if len(points) < 3:
        return None
    best, step = max(points, key=lambda point: (point[0], -point[1]))
    gain, decline = best - points[0][0], best - points[-1][0]
    if decline <= max(_MUCH * gain, _RELATIVE[is_max] * abs(best)) or gain <= 0:
        return None
    values = f"{format_number(abs(best))} at step {step:,}"
    last = f"{format_number(sign * points[-1][0])} at step {points[-1][1]:,}"
    name = clean_text(curve.name, 80)
    text = f"The validation's {name} was best with {values}, and ended with {last}."
    return Worst(text, step, WARNING)


def _find_plugin_note(facts: Facts) -> Optional[Worst]:
    return facts.notes[0] if facts.notes else None


def _find_low_recall(facts: Facts) -> Optional[Worst]:
    """A class without training examples, or that of the first confusion matrix whose share of
    right answers is lowest.
    """
    absent = find_absent_classes(facts.record)
    if absent:
        names = ", ".join(absent[:5])
        return Worst(f"No training example is of class {names}.", None, REMARK)
    recalls = [
        (row[position] / sum(row), name, f"{row[position]:,} of its {sum(row):,}")
        for matrix in facts.matrices[:1]
        for position, (row, name) in enumerate(zip(matrix["counts"], matrix["names"]))
        if sum(row)
    ]
    if not recalls or min(recalls)[0] >= LOW_RECALL:
        return None
    _, name, shares = min(recalls)
    text = f"Class {name} is recognised in {shares} examples."
    return Worst(text, None, REMARK)


def _of_kind(facts: Facts, kind: str) -> List[Event]:
    return [event for event in facts.events if event.kind == kind]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


_RULES: Sequence[Callable[[Facts], Optional[Worst]]] = (
    _find_failure,
    _find_damage,
    _find_refusals,
    _find_gaps,
    _find_inexact_resume,
    _find_decline,
    _find_plugin_note,
    _find_low_recall,
)
