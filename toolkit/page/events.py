"""What happened in a run, by step: refused steps, resumes, damaged checkpoints, the best one."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, List, NamedTuple

from ..storage.commit_log import Entry
from ..storage.session_changes import find_session_changes
from .curves import Curve
from .values import clean_text, count, fields, format_count, format_number

MAX_EVENTS = 200
REFUSED, RESUME, DAMAGED, DIVERGED, BRANCH, BEST, NOTE, GAP = (
    *("refused", "resume", "damaged", "diverged"),
    *("branch", "best", "note", "gap"),
)
MAX_LOG_BYTES = 1 << 26  # of a commit log; a longer one is not read
_MAX_NAMES = 10_000  # of files in a folder
_CHECKPOINT_STEP = re.compile(r"model\.ckpt-(\d{1,15})\.")


class Event(NamedTuple):
    """What happened at a step.

    Attributes:
        step: at which, or up to which, it happened.
        kind: one of the constants of this module.
        text: a clause or a sentence.
        number: of refused steps, or of the changes of a resume; else 0.
    """

    step: int
    kind: str
    text: str
    number: int = 0

    def as_json(self) -> Dict[str, Any]:
        return {"step": self.step, "kind": self.kind, "text": self.text}


def read_event(record: Dict[str, Any]) -> List[Event]:
    """The event of a record of kind "event"; none if it is not valid."""
    step, name = count(record.get("step")), clean_text(record.get("event"), 80)
    if step is None or not name:
        return []
    if name == "diverged":
        return [Event(step, DIVERGED, clean_text(record.get("message")) or "Training diverged.")]
    number = count(record.get("count"))
    if number is None:
        text = clean_text(record.get("message"))
        return [Event(step, NOTE, f"{name}: {text}" if text else name)]
    steps = format_count(number, "non-finite step")
    return [Event(step, REFUSED, f"{steps} refused up to step {step:,}", number)]


def list_gaps(curves: Iterable[Curve]) -> List[Event]:
    """An event for each step at which metrics begin not to be finite."""
    names: Dict[int, List[str]] = {}
    for curve in curves:
        for step in curve.series.gaps()[:MAX_EVENTS]:
            names.setdefault(step, []).append(f"{curve.split} {clean_text(curve.name, 80)}")
    return [
        Event(step, GAP, f"{', '.join(texts[:4])} not finite at step {step:,}")
        for step, texts in sorted(names.items())
    ]


def list_log_events(entries: Iterable[Entry]) -> List[Event]:
    """The events of the commit log: resumes, branches, and entries that are damaged."""
    events: List[Event] = []
    last_session: Dict[str, Any] = {}
    for entry in entries:
        if entry.fault:
            text = f"entry {entry.number} of the commit log {entry.fault}"
            step = entry.step if entry.values else 0
            events.append(Event(step, DAMAGED, text))
        if not entry.values:
            continue
        if entry.is_session:
            events += _session_events(entry, last_session)
            last_session = entry.values
        elif entry.values["kind"] == "branch":
            name = clean_text(fields(entry.values.get("parent")).get("name"), 80)
            text = f"branches off {name or 'another run'} at step {entry.step:,}"
            events.append(Event(entry.step, BRANCH, text))
    return events


def _session_events(entry: Entry, last_session: Dict[str, Any]) -> List[Event]:
    """The events of the start of a session; none for the first one of a run."""
    if not last_session:
        return []
    changes = find_session_changes(last_session, entry.values)
    text = "continues from its beginning" if not entry.step else f"resumes at step {entry.step:,}"
    if changes:
        text += f", not bit-exactly: {clean_text('; '.join(changes))}"
    return [Event(entry.step, RESUME, text, len(changes))]


def list_quarantine(folder: str) -> List[Event]:
    """An event for each step whose checkpoint a resume moved to quarantine.

    Args:
        folder: of the quarantine.
    """
    return [
        Event(step, DAMAGED, f"the checkpoint of step {step:,} was damaged, and moved away")
        for step in sorted({*_read_steps(folder)})
    ]


def _read_steps(folder: str) -> List[int]:
    try:
        names = sorted(os.listdir(folder))[:_MAX_NAMES]
    except OSError:
        return []
    matches = filter(None, map(_CHECKPOINT_STEP.match, names))
    return [int(match.group(1)) for match in matches]


def describe_best(best: Any) -> List[Event]:
    """The event of the best checkpoint, from the manifest."""
    best = fields(best)
    step, metric, value = count(best.get("step")), clean_text(best.get("metric"), 80), None
    if isinstance(best.get("value"), (int, float)):
        value = format_number(float(best["value"]))
    if step is None or not metric:
        return []
    text = f"best {metric}" + (f" {value}" if value else "") + f" at step {step:,}"
    return [Event(step, BEST, text)]
