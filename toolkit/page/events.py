"""What happened in a run, by step: refused steps, resumes, branches, damaged checkpoints."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, List, NamedTuple

from ..comparison.differences import find_option_changes
from ..comparison.record import RunRecord
from ..errors import CheckpointError
from ..storage.commit_log import Entry
from ..storage.jsonl import has_more, read_json
from ..storage.report_folder import REPORTS
from ..storage.session_changes import find_session_changes
from .values import clean_text, count, fields, format_count, items

# The kinds of events.
REFUSED, RESUME, DAMAGED, DIVERGED = "refused", "resume", "damaged", "diverged"
_MAX_AUTOPSY = 1 << 20  # bytes
_CHECKPOINT_STEP = re.compile(r"model\.ckpt-(\d{1,15})\.")


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
        if entry.fault:
            text = f"entry {entry.number} of the commit log {entry.fault}"
            events.append(Event(entry.step if entry.values else 0, DAMAGED, text, 1))
        if entry.values and entry.values["kind"] == "branch":
            name = fields(entry.values.get("parent")).get("name") or "another run"
            events.append(
                Event(entry.step, "branch", f"branches off {name} at step {entry.step:,}")
            )
        if entry.values and entry.is_session:
            events += [_describe_resume(last, entry)] if last else []
            last = entry.values
    return events


def _describe_resume(before: Dict[str, Any], entry: Entry) -> Event:
    changes = find_session_changes(before, entry.values)
    options = find_option_changes(before, entry.values)
    text = f"resumes at step {entry.step:,}" if entry.step else "continues from its beginning"
    text += f", with {', '.join(options)}" if options else ""
    text += f", not bit-exactly: {'; '.join(changes)}" if changes else ""
    return Event(entry.step, RESUME, text, len(changes))


def list_quarantine(folder: str) -> List[Event]:
    """An event for each step whose checkpoint a resume moved to the folder of the damaged ones."""
    names = sorted(os.listdir(folder))[:10_000] if os.path.isdir(folder) else []
    steps = {int(match.group(1)) for match in map(_CHECKPOINT_STEP.match, names) if match}
    text = "the checkpoint of step {:,} was damaged, and moved away"
    return [Event(step, DAMAGED, text.format(step), 1) for step in sorted(steps)]


def read_autopsy(record: RunRecord) -> List[str]:
    """The sentences of the examination of a divergence; [] if there is none."""
    path = os.path.join(record.path, REPORTS, f"autopsy-{record.step}", "autopsy.json")
    try:
        is_there = record.status == DIVERGED and not has_more(path, _MAX_AUTOPSY)
        lines = items(fields(read_json(path)).get("lines")) if is_there else []
    except CheckpointError:
        return []
    return [line for line in lines[:8] if isinstance(line, str)]
