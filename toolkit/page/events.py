"""What happened in a run, by step, what its autopsy says, and the command that trains it again."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from ..comparison.differences import find_option_changes
from ..comparison.record import RunRecord
from ..errors import CheckpointError
from ..storage.checkpoint_store import REPORTS
from ..storage.commit_log import Entry
from ..storage.entries import Parent
from ..storage.jsonl import read_json
from ..storage.run_folder import shell_argument
from ..storage.session_changes import find_session_changes
from .values import clean_text, count, fields, format_count, items

# The kinds of events.
REFUSED, RESUME, DAMAGED, DIVERGED = "refused", "resume", "damaged", "diverged"


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
        if values and entry.kind == "session":
            if last:
                changes = find_session_changes(last, values)
                options = find_option_changes(last, values)
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
    """The folder of a run for a shell: as the command that trained it names it, else from the
    folder `runs` on, in which it is by default."""
    above, own = record.path.split(os.sep)[-3:-1], os.path.basename(record.path)
    start = above.index("runs") if "runs" in above else len(above)
    places = [record.name if os.sep in record.name else os.path.join("runs", own)]
    places += [os.path.join(*above[start:], own)] if start < len(above) else []
    for word in record.argv[2:]:
        named = os.path.normpath(word[10:] if word.startswith("--run-dir=") else word)
        places += [named] if os.path.basename(named) == own else []  # not of a copy
    return shell_argument(places[-1])


def describe_recipe(record: RunRecord, entries: Sequence[Entry]) -> Tuple[str, List[str]]:
    """The command that trains a run again, by the options in its folder, and what else it takes."""
    sessions = [entry.values for entry in entries if entry.kind == "session"]
    branches = [entry.values["parent"] for entry in entries if entry.kind == "branch"]
    branch = Parent(**branches[-1]) if branches else None
    weights = Parent(**record.manifest["parent"]) if record.manifest.get("parent") else None
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
