"""What happened in a run, by step, what to know first of it, what to do next, and the command that
trains it again.

Rules on what the folder of the run says yield findings; the first one with a text is the worst
thing that happened, and the advice of the first ones is shown.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..comparison.differences import find_option_changes
from ..comparison.record import KILLED, UNSTARTED, RunRecord, finite
from ..errors import CheckpointError
from ..options import format_value
from ..storage.checkpoint_store import REPORTS
from ..storage.commit_log import Entry
from ..storage.entries import Parent
from ..storage.folder import shell_argument
from ..storage.jsonl import read_json
from ..storage.session_changes import find_session_changes
from .curves import Curve
from .values import clean_text, count, fields, format_alike, format_count, in_words, items

# The kinds of events.
REFUSED, RESUME, DAMAGED, DIVERGED = "refused", "resume", "damaged", "diverged"
ERROR, WARNING, REMARK = "error", "warning", "note"
MAX_ADVICE = 3  # sentences
_LOW_RECALL, _MANY_ERRORS = 0.5, 5  # below and from which classes are named
# A decline after the best value is named if it is more than this share of the gain up to there,
# and of the best value itself, by the sign of better values.
_MUCH, _RELATIVE = 0.3, {1.0: 0.03, -1.0: 0.1}


class Event(NamedTuple):
    """What happened at a step, or up to it: a kind, a clause or a sentence, and the number of
    faults, of refused steps, or of the changes for which a resume was not bit-exact.
    """

    step: int
    kind: str
    text: str
    number: int = 0


def read_event(record: Dict[str, Any]) -> List[Event]:
    """The event of a record of kind "event"; none if it is not valid."""
    step, name = count(record.get("step")), clean_text(record.get("event"), 80)
    text, number = clean_text(record.get("message")), count(record.get("count"))
    if step is None or not name:
        return []
    if name == DIVERGED:
        return [Event(step, DIVERGED, text or "Training diverged.")]
    if number is None:
        return [Event(step, "note", f"{name}: {text}" if text else name)]
    steps = format_count(number, "non-finite step")
    return [Event(step, REFUSED, f"{steps} refused up to step {step:,}", number)]


def list_log_events(entries: Iterable[Entry]) -> List[Event]:
    """The events of the commit log: resumes, branches, and entries that are damaged."""
    events: List[Event] = []
    last: Dict[str, Any] = {}
    for entry in entries:
        step, values = entry.step if entry.values else 0, entry.values
        if entry.fault:
            text = f"entry {entry.number} of the commit log {entry.fault}"
            events.append(Event(step, DAMAGED, text, 1))
        if values and values["kind"] == "branch":
            name = fields(values.get("parent")).get("name") or "another run"
            events.append(Event(step, "branch", f"branches off {name} at step {step:,}"))
        if values and entry.is_session:
            if last:
                changes, options = (
                    find_session_changes(last, values),
                    find_option_changes(last, values),
                )
                text = f"resumes at step {step:,}" if step else "continues from its beginning"
                text += f", with {', '.join(options)}" if options else ""
                text += f", not bit-exactly: {'; '.join(changes)}" if changes else ""
                events.append(Event(step, RESUME, text, len(changes)))
            last = values
    return events


def read_autopsy(record: RunRecord) -> List[str]:
    """The sentences of the examination of a divergence; [] if there is none."""
    path = os.path.join(record.path, REPORTS, f"autopsy-{record.step}", "autopsy.json")
    try:
        lines = items(fields(read_json(path)).get("lines")) if record.status == DIVERGED else []
    except CheckpointError:
        return []
    return [line for line in lines[:8] if isinstance(line, str)]


def find_place(record: RunRecord) -> str:
    """The folder of a run for a shell: as the user named it, else as the console does."""
    place = record.name if os.sep in record.name else os.path.join("runs", record.name)
    for before, word in zip(record.argv, [*record.argv[1:], ""]):
        if before == "--run-dir" or before.startswith("--run-dir="):
            place = before.partition("=")[2] or word
    return shell_argument(place)


def describe_recipe(record: RunRecord, entries: Sequence[Entry]) -> Tuple[str, List[str]]:
    """The command that trains a run again, by the options in its folder, and what else it takes."""
    sessions = [entry.values for entry in entries if entry.is_session]
    branches = [entry.values for entry in entries if entry.values.get("kind") == "branch"]
    branch = Parent.from_json(branches[-1].get("parent")) if branches else None
    weights = Parent.from_json(record.manifest.get("parent"))
    place = find_place(record)
    command = f"toolkit run --config {place}/config.json --run-dir {place}-again"
    needs = []
    if branch is not None:
        command = f"toolkit resume {shell_argument(branch.name)} --from {branch.step}"
        needs.append(f"{branch.sentence()[:-1]}; it needs that run, and the options below.")
    if weights is not None and record.options.get("init_from"):
        needs.append(f"{weights.sentence()[:-1]}, which it needs.")
    if any(find_option_changes(*pair) for pair in zip(sessions, sessions[1:])):
        needs.append("One command is not enough: a resume changed options, as the events say.")
    return command, needs


# ---------------------------------------------------------------------------------------- judgement


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
        yield Finding(reason, ERROR, f"Try a lower --learning-rate{lower}, or --on-nonfinite skip.")
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
    """A validation that ends much worse than its best, by the metric that chooses the best
    checkpoint, else by the loss.
    """
    best = fields(record.best)
    name, sign = best.get("metric") or "loss", 1.0 if best.get("direction") == "max" else -1.0
    points = [c.points() for c in curves if (c.name, c.split) == (name, "validation")]
    if not points or len(points[0]) < 3:
        return
    (_, first), (last_step, last) = points[0][0], points[0][-1]
    step, value = max(points[0], key=lambda point: sign * point[1])
    gain, decline = sign * (value - first), sign * (value - last)
    if gain > 0 and decline > max(_MUCH * gain, _RELATIVE[sign] * abs(value)):
        texts = format_alike([value, last])
        text = f"The validation's {in_words(name)} was best with {texts[0]} at step {step:,}, and "
        text += f"ended with {texts[1]} at step {last_step:,}."
        is_best = fields(record.test).get("checkpoint") == "best"
        advice = f"Test the best checkpoint with --best-metric {name}, or train shorter."
        yield Finding(text, REMARK if is_best else WARNING, "" if is_best else advice)


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
