"""What came of a trial: read from its run, and for failures from the notes beside it."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional

from ..comparison.metrics import read_interval
from ..comparison.record import RunRecord, finite, read_record
from ..errors import CheckpointError, ToolkitError
from ..files import write_json
from ..statistics.intervals import LEVEL
from ..storage.entries import FINISHED as RUN_FINISHED
from ..storage.jsonl import read_json
from .definition import BEST, FAILED, FINISHED, PAUSED, Result, Trial
from .study import Study, writing

_NOTES = ("cpu_secs", "status", "reason")  # what the records of a run do not say


def read_notes(path: str) -> Result:
    """Return what a file beside a run has of its result; nothing of a damaged one."""
    try:
        values = read_json(path + ".json")
        return Result(**{name: values[name] for name in _NOTES})
    except (CheckpointError, KeyError, TypeError):
        return Result()


def write_notes(path: str, notes: Result) -> None:
    """Write what the run does not say of a result beside it. Raises RetryError."""
    with writing(path + ".json"):
        write_json(path + ".json", {name: getattr(notes, name) for name in _NOTES})


def find_record(path: str) -> Optional[RunRecord]:
    """Return the record of a run; None if it has not begun, or is damaged."""
    try:
        return read_record(path) if os.path.isdir(path) else None
    except ToolkitError:
        return None


def read_result(study: Study, trial: Trial) -> Optional[Result]:
    """Return how a trial ended at its rung; None if it has not.

    A run that has come past the rung has the value that it had there.
    """
    path, definition = study.path(trial), study.definition
    record, result = find_record(path), read_notes(path)
    if record is None:
        return result if result.status else None
    end = definition.pause_step(trial.configuration.length, trial.rung)
    evaluations: Dict[str, Any] = {}  # the last and that of the best checkpoint, as at the rung
    best = None
    for entry in record.folder.commits.entries():
        if "validation" in entry.values and entry.step <= end:
            now = entry.values["validation"] or {}
            # A resume repeats the one before, which a death keeps as the last.
            if _last_step(now) >= _last_step(evaluations):
                evaluations, best = now, entry.values.get("best")
    last = evaluations.get("last") or {}
    is_last = trial.rung == len(definition.rungs) - 1
    is_finished = record.status == RUN_FINISHED
    is_paused = record.status == "stopped" and record.step == end
    has_value = last.get("step") == end
    is_past = record.step > end and (is_finished or has_value)
    has_failed_since = bool(result.status) and record.step == end and has_value
    if not is_finished and (is_last or not (is_paused or is_past or has_failed_since)):
        return result._replace(step=record.step) if result.status else None
    counted = (evaluations.get("best") if definition.moment == BEST and best else None) or last
    value = finite((counted.get("metrics") or {}).get(definition.metric))
    if value is None:
        place = f" at step {counted['step']}" if counted else ""
        reason = f"{definition.metric} of the validation split is not finite{place}."
        return result._replace(status=FAILED, reason=reason, step=record.step)
    interval = read_interval(counted.get("intervals"), definition.metric)
    ends = interval[:2] if interval is not None and interval.level == LEVEL else (None, None)
    return result._replace(
        status=FINISHED if is_last or (is_finished and not is_past) else PAUSED,
        reason="",
        step=min(record.step, end),
        value=value,
        low=ends[0],
        high=ends[1],
    )


def _last_step(evaluations: Mapping[str, Any]) -> int:
    return (evaluations.get("last") or {}).get("step", 0)
