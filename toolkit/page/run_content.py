"""What a page says of one run, as JSON values: gathered from its folder, without changing it."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..comparison.record import RUNNING, RunRecord, finite
from ..errors import CheckpointError
from ..storage.checkpoint_store import CHECKPOINTS, QUARANTINE
from ..storage.commit_log import NO_HASH, Entry
from ..storage.report_folder import REPORTS
from . import command, facts
from .autopsy import autopsy_place, describe_autopsy, read_autopsy
from .curves import Curve, SeriesTable, list_curves
from .events import (
    DIVERGED,
    MAX_EVENTS,
    MAX_LOG_BYTES,
    Event,
    describe_best,
    list_gaps,
    list_log_events,
    list_quarantine,
    read_event,
)
from .headline import list_quantities
from .pictures import Album, list_frames, list_pictures
from .sections import Sections, read_sections
from .values import (
    clean_text,
    count,
    fields,
    format_count,
    format_secs,
    has_more,
    items,
    read_records,
    shortest,
)
from .worst import Facts, find_worst

SAMPLES = "samples"
_GOOD = {"finished": True, "trained": None, "running": None, "stopped": None, "interrupted": None}
_SPEED_NAMES = ("examples_per_sec", "steps_per_sec")
_MAX_SLIDERS = 6


class RunFiles(NamedTuple):
    """What is read of a run's folder besides its record.

    Attributes:
        curves: of metrics.jsonl.
        speed: of speed.jsonl.
        events: by step.
        entries: of the commit log.
        head: the hash of its last entry.
        notes: a sentence for what is left out.
    """

    curves: List[Curve]
    speed: List[Curve]
    events: List[Event]
    entries: Sequence[Entry]
    head: str
    notes: List[str]


def read_files(record: RunRecord) -> RunFiles:
    """Read the logs of a run."""
    notes: List[str] = []
    table, events = _read_metrics(record, notes)
    best = fields(record.best).get("metric")
    curves = list_curves(table, [best] if isinstance(best, str) else [])
    speed = _read_speed(record)
    entries, head = _read_log(record, notes)
    events += list_gaps(curves)
    events += list_log_events(entries)
    events += list_quarantine(os.path.join(record.path, CHECKPOINTS, QUARANTINE))
    events += describe_best(record.best)
    events.sort(key=lambda event: event.step)
    return RunFiles(curves, speed, events, entries, head, notes)


def describe_run(
    record: RunRecord, files: RunFiles, album: Album, number: int, max_points: int
) -> Dict[str, Any]:
    """The object of a run on a page.

    Args:
        record: of the run.
        files: of the run.
        album: takes the pictures.
        number: of the run on the page.
        max_points: of each curve.
    """
    sections = read_sections(fields(record.test).get("page"))
    former = command.former_folder(_read_config(record))
    recipe = command.describe_recipe(record, files.entries, former)
    pictures, sliders = _add_pictures(record, sections, album)
    worst = find_worst(Facts(record, files.events, files.curves, sections.matrices, sections.worst))
    events = _shorten_events(record, files.events)
    finding = read_autopsy(record)
    notes = files.notes + sections.notes
    if len(events) > MAX_EVENTS:
        notes.append(f"Of {len(events):,} events, the first {MAX_EVENTS} are shown.")
    return {
        "id": number,
        "name": clean_text(record.name, 200),
        "path": clean_text(record.name, 200),
        "colour": number,
        "status": _describe_status(record, worst.text),
        "headline": list_quantities(record, sections.headline, files.curves),
        "worst": worst.as_json(),
        "autopsy": describe_autopsy(finding),
        "again": recipe.command,
        "again_needs": recipe.needs,
        "curves": [curve.as_json(max_points) for curve in files.curves],
        "speed": {
            "curves": [curve.as_json(max_points) for curve in files.speed],
            "hooks": _list_hooks(record.manifest.get("hook_ms")),
        },
        "events": [event.as_json() for event in events[:MAX_EVENTS]],
        "options": facts.list_options(record),
        "data": facts.describe_data(record),
        "environment": facts.list_environment(record, files.entries),
        "verify": facts.describe_verification(record, files.entries, files.head),
        "matrices": sections.matrices,
        "tables": sections.tables + _list_metrics(record),
        "charts": sections.charts,
        "pictures": pictures,
        "sliders": sliders,
        "lines": [clean_text(line, 400) for line in items(fields(record.test).get("lines"))[:40]],
        "notes": notes + album.notes,
    }


def _shorten_events(record: RunRecord, events: List[Event]) -> List[Event]:
    """The events, without the sentence by which the run ended, which is on the first screen."""
    reason = clean_text(record.reason)
    text = "training diverged after this step"
    return [
        event._replace(text=text) if (event.kind, event.text) == (DIVERGED, reason) else event
        for event in events
    ]


def _describe_status(record: RunRecord, worst: str = "") -> Dict[str, Any]:
    """How the run ended; its reason is left out where it is the worst thing, which is beside it."""
    reason = clean_text(record.reason)
    text = f"at step {record.step:,}" if not reason or reason == worst else reason
    if record.seconds is not None and record.status in ("finished", "stopped"):
        text = f"{text.rstrip('.')} in {format_secs(record.seconds)}"
    return {
        "word": record.status,
        "text": text,
        "good": _GOOD.get(record.status, False),
        "step": record.step,
        "total": record.total_steps,
        "model": _describe_model(record),
    }


def _describe_model(record: RunRecord) -> str:
    number = count(fields(record.manifest.get("model")).get("parameters"))
    return "" if number is None else format_count(number, "parameter")


def _list_metrics(record: RunRecord) -> List[Dict[str, Any]]:
    """The table of all metrics of the test."""
    intervals = fields(fields(record.test).get("intervals"))
    rows = [
        [
            name,
            value,
            fields(intervals.get(name)).get("low"),
            fields(intervals.get(name)).get("high"),
        ]
        for name, value in list(record.metrics.items())[:200]
    ]
    columns = ["metric", "value", "low", "high"]
    page = {"tables": [{"title": "Metrics of the test", "columns": columns, "rows": rows}]}
    return read_sections(page).tables if rows else []


# -------------------------------------------------------------------------------------------- files


def _read_config(record: RunRecord) -> Dict[str, Any]:
    try:
        return fields(record.folder.read_config())
    except CheckpointError:
        return {}


def _read_metrics(record: RunRecord, notes: List[str]) -> Tuple[SeriesTable, List[Event]]:
    """The series and the events of metrics.jsonl."""
    table = SeriesTable()
    events: List[Event] = []
    path = record.folder.metrics.path
    for values in read_records(path):
        kind = values.get("kind")
        if kind == "event":
            events += read_event(values) if len(events) < 10 * MAX_EVENTS else []
        else:
            split = clean_text(values.get("split"), 40) or "validation"
            table.add(values, "train" if kind == "train" else split)
    if table.has_omissions:
        notes.append("There are more metrics than a page shows; the first ones are here.")
    if has_more(path):
        notes.append("metrics.jsonl is too large; the end of it is left out.")
    return table, events


def _read_speed(record: RunRecord) -> List[Curve]:
    """The series of speed.jsonl."""
    table = SeriesTable()
    for values in read_records(record.folder.speed.path):
        speeds = {name: values[name] for name in _SPEED_NAMES if name in values}
        table.add(dict(speeds, step=values.get("step")), "train")
    return list_curves(table)


def _list_hooks(value: Any) -> List[Dict[str, Any]]:
    """The name of each hook and its milliseconds per step, in the order of the hooks."""
    pairs = [(clean_text(name, 80), finite(ms)) for name, ms in list(fields(value).items())[:100]]
    return [{"name": name, "ms": shortest(ms)} for name, ms in pairs if ms is not None]


def _read_log(record: RunRecord, notes: List[str]) -> Tuple[Sequence[Entry], str]:
    """The entries of the commit log, and the hash of the last one."""
    log = record.folder.commits
    if has_more(log.path, MAX_LOG_BYTES):
        notes.append("The commit log is too large to be read for a page.")
        return [], NO_HASH
    try:
        return log.entries(), log.head()
    except CheckpointError as error:
        notes.append(clean_text(error.message))
        return [], NO_HASH


# ----------------------------------------------------------------------------------------- pictures


def _add_pictures(
    record: RunRecord, sections: Sections, album: Album
) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]]]:
    """Add the pictures of a run: those of the plugin, or all of the last reports; then samples."""
    pictures, names = [], set()
    for file, title, alt in _list_files(record, sections)[: album.limits.pictures]:
        names.add(file)
        pictures.append(album.add_file(record.path, file, title, alt))
    sliders = []
    for subject, frames in list(list_frames(record.path, SAMPLES).items())[:_MAX_SLIDERS]:
        title = _title_of_grid(subject[len(SAMPLES) + 1 :].strip("-_. "))
        sliders.append(album.add_slider(record.path, title, frames))
        names.update(name for _, name in frames)
    others = [name for name in list_pictures(record.path, SAMPLES) if name not in names]
    num_left = max(0, album.limits.pictures - len(pictures))
    for name in [name for name in others if not name.lower().endswith(".gif")][:num_left]:
        title = os.path.splitext(os.path.basename(name))[0]
        pictures.append(album.add_file(record.path, name, title, ""))
    return [p for p in pictures if p is not None], [s for s in sliders if s is not None]


def _list_files(record: RunRecord, sections: Sections) -> List[Tuple[str, str, str]]:
    """The path, title and text of each picture of the test; or of the autopsy of its divergence.

    Other reports may come later, by `toolkit evaluate`, and are no part of how the run ended.
    """
    place = _reports_place(record)
    if place and sections.pictures:
        return [(f"{place}/{p['file']}", p["title"], p["alt"]) for p in sections.pictures]
    title = ""
    if not place and record.status == DIVERGED:
        place, title = autopsy_place(record), "The batch at which training diverged"
    names = list_pictures(record.path, place) if place and record.status != RUNNING else []
    return [(name, title, title) for name in names]


def _title_of_grid(name: str) -> str:
    """The title of the grids over the steps whose files have a name without its step."""
    is_plain = name.lower() in ("", "step", "steps", "sample", "samples", "grid")
    return "Samples by step" if is_plain else f"Samples by step: {name}"


def _reports_place(record: RunRecord) -> str:
    """The path of the reports of the test in the run's folder; "" if there are none."""
    place = fields(record.test).get("reports")
    if not isinstance(place, str) or place.split("/")[0] != REPORTS:
        return ""
    return place
