"""What to know first of a run and what to do next, in words: rules on what its folder says.

A rule yields findings; the first one with a text is the worst thing that happened, and the advice
of the first ones is shown.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..comparison.record import KILLED, UNSTARTED, RunRecord, finite
from ..options import format_value
from .curves import Curve
from .events import DAMAGED, DIVERGED, REFUSED, RESUME, Event
from .values import count, fields, format_alike, format_count, in_words, items

ERROR, WARNING, REMARK = "error", "warning", "note"
MAX_ADVICE = 3  # sentences
_LOW_RECALL, _MANY_ERRORS = 0.5, 5  # below and from which classes are named
# A decline after the best value is named if it is more than this share of the gain up to there,
# and of the best value itself, by the sign of better values.
_MUCH, _RELATIVE = 0.3, {1.0: 0.03, -1.0: 0.1}
_STILL = 0.05  # the gain in the last quarter, of that before, with which a training has not ended


class Finding(NamedTuple):
    """What a rule says: a sentence and how bad it is, and what to do; either may be ""."""

    text: str
    level: str = ""
    advice: str = ""


def list_findings(
    record: RunRecord,
    place: str,
    events: Sequence[Event],
    curves: Sequence[Curve],
    sections: Dict[str, List[Any]],
) -> List[Finding]:
    """The findings of all rules, the worst first; `place` is the folder of the run for a shell."""
    return [
        *_judge_end(record, place),
        *_judge_events(events),
        *_judge_length(record, curves),
        *(Finding(each["text"], each["level"]) for each in sections["warnings"]),
        *(Finding("", advice=advice) for advice in sections["advice"]),
        *_judge_classes(record, sections["matrices"]),
    ]


def list_advice(record: RunRecord, findings: Sequence[Finding]) -> List[str]:
    """What to do next, at most `MAX_ADVICE` sentences."""
    texts = [finding.advice for finding in findings if finding.advice]
    more = "One seed says little: train with another --seed, and compare with toolkit compare."
    return texts[:MAX_ADVICE] or [more] * (record.status == "finished")


def _judge_end(record: RunRecord, place: str) -> Iterator[Finding]:
    status, reason = record.status, record.reason or f"The run {record.status}."
    again = f"Continue the run with: toolkit resume {place}"
    if status == DIVERGED:
        rate = finite(record.options.get("learning_rate"))
        lower = "" if rate is None else f" than {format_value(rate)}"
        skip = "" if record.options.get("on_nonfinite") == "skip" else ", or --on-nonfinite skip"
        yield Finding(reason, ERROR, f"Try a lower --learning-rate{lower}{skip}.")
    elif status == "failed":
        yield Finding(reason, ERROR)
    elif status == "trained" and record.exit_code:
        yield Finding("The test after the training failed.", ERROR)
    elif status == KILLED:
        text = f"The process was killed; step {record.step:,} is the last one committed."
        yield Finding(text, ERROR, again)
    elif status == UNSTARTED:
        yield Finding("The run ended before its first step.", WARNING)
    elif status in ("stopped", "interrupted"):
        yield Finding("", advice=again)


def _judge_events(events: Sequence[Event]) -> Iterator[Finding]:
    """Damage, refused steps, and resumes that were not exact."""
    damaged, refused, resumed = (
        [event for event in events if event.kind == kind and event.number]
        for kind in (DAMAGED, REFUSED, RESUME)
    )
    if damaged:
        more = f" ({len(damaged)} faults in all)" if len(damaged) > 1 else ""
        yield Finding(f"Damage: {damaged[0].text}{more}.", ERROR)
    if refused:
        number, first, last = sum(e.number for e in refused), refused[0].step, refused[-1].step
        verb = "was" if number == 1 else "were"
        place = f"by step {first:,}" if first == last else f"between steps {first:,} and {last:,}"
        text = f"{format_count(number, 'step')} {verb} refused as not finite, {place}."
        yield Finding(text, WARNING, "A lower --learning-rate may avoid the refused steps.")
    if resumed:
        yield Finding(f"The run {resumed[0].text}.", REMARK)


def _judge_length(record: RunRecord, curves: Sequence[Curve]) -> Iterator[Finding]:
    """A validation that ends much worse than its best, or one that still got better at the end."""
    is_best = fields(record.test).get("checkpoint") == "best"
    for curve, sign in _directed_curves(record, curves):
        steps, values = zip(*curve.points())
        merits, name = [sign * value for value in values], in_words(curve.name)
        best = merits.index(max(merits))
        gain, decline = merits[best] - merits[0], merits[best] - merits[-1]
        if gain > 0 and decline > max(_MUCH * gain, _RELATIVE[sign] * abs(merits[best])):
            texts = format_alike([values[best], values[-1]])
            text = f"The validation's {name} was best with {texts[0]} at step {steps[best]:,}, and "
            text += f"ended with {texts[1]} at step {steps[-1]:,}."
            advice = f"Test the best checkpoint with --best-metric {curve.name}, or train shorter."
            yield Finding(text, REMARK if is_best else WARNING, "" if is_best else advice)
            return
        before = merits[-1 - len(merits) // 4] - merits[0]
        flag = "steps" if finite(record.options.get("steps")) else "epochs"
        length = finite(record.options.get(flag)) or 0
        is_last = best == len(merits) - 1 and record.status == "finished" and length
        is_last = is_last and record.step >= (record.total_steps or 0)  # else something ended it
        if is_last and gain - before > _STILL * before:
            advice = f"The validation's {name} still got better at the end: train longer, say"
            yield Finding("", advice=f"{advice} --{flag} {2 * length:.10g}.")
            return


def _directed_curves(record: RunRecord, curves: Sequence[Curve]) -> Iterator[Tuple[Curve, float]]:
    """Yield the curves of the validation with at least three values whose direction is known, and
    1 where more is better, else -1; that of the metric that chooses the best checkpoint first.
    """
    best, signs = fields(record.best), {"loss": -1.0}
    if isinstance(best.get("metric"), str):
        signs = {best["metric"]: 1.0 if best.get("direction") == "max" else -1.0, **signs}
    known = {c.name: c for c in curves if c.split == "validation" and len(c.points()) > 2}
    yield from ((known[name], sign) for name, sign in signs.items() if name in known)


def find_best_step(record: RunRecord, curves: Sequence[Curve]) -> Optional[int]:
    """The step of the best checkpoint, else that of the best value of the validation."""
    step = count(fields(record.best).get("step"))
    for curve, sign in _directed_curves(record, curves) if step is None else ():
        return max(curve.points(), key=lambda point: (sign * point[1], -point[0]))[0]
    return step


def _judge_classes(record: RunRecord, matrices: Sequence[Dict[str, Any]]) -> Iterator[Finding]:
    """Classes without training examples, the one with the lowest recall, and the two that are
    confused most, in both directions together.
    """
    absent = ", ".join([name for name, number in list_classes(record) if number == 0][:5])
    if absent:
        advice = f"Add training examples of {absent}, or leave the class out."
        yield Finding(f"No training example is of class {absent}.", REMARK, advice)
    for matrix in matrices[:1]:
        names, counts = matrix["names"], matrix["counts"]
        recalls = [(row[i] / sum(row), i) for i, row in enumerate(counts) if sum(row)]
        recall, i = min(recalls, default=(1.0, 0))
        if recall < _LOW_RECALL:
            shares = f"{counts[i][i]:,} of its {sum(counts[i]):,}"
            yield Finding(f"Class {names[i]} is recognised in {shares} examples.", REMARK)
        pairs = [(counts[i][j] + counts[j][i], i, j) for j in range(len(counts)) for i in range(j)]
        number, i, j = max(pairs, default=(0, 0, 0))
        errors = sum(pair[0] for pair in pairs)
        if errors >= _MANY_ERRORS and number > 1:
            text = f"{number:,} of the {errors:,} errors are between them"
            yield Finding("", advice=f"Look at {names[i]} and {names[j]}: {text}.")


def list_classes(record: RunRecord) -> List[Tuple[str, Optional[int]]]:
    """The classes with the number of their training examples, where that is known."""
    spec = fields(fields(record.manifest.get("data")).get("spec"))
    names, counts = items(spec.get("class_names")), items(spec.get("class_counts"))
    counts = [*counts, *[None] * (len(names) - len(counts))]
    return [(str(name), count(number)) for name, number in zip(names, counts)]
