"""What the page of a run says, for the templates: gathered from its folder, without changing it."""

from __future__ import annotations

import collections
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..comparison.differences import show_value
from ..comparison.record import RUNNING, RunRecord, finite
from ..display.numbers import format_duration, format_rate
from ..errors import CheckpointError
from ..options import NOT_SET
from ..storage.checkpoint_store import REPORTS
from ..storage.commit_log import NO_HASH, Entry
from ..storage.jsonl import read_records
from . import events, judgement
from .chart import Line, make_chart
from .curves import Curve, Curves
from .pictures import Album, list_frames, list_pictures
from .quantities import describe_test, list_quantities
from .sections import read_sections
from .tables import make_table
from .values import clean_text, count, fields, format_count, in_words, items

SAMPLES = "samples"
_MAX_SLIDERS, _MAX_CHARTS, _MAX_POINTS, _MAX_OPTIONS = 6, 24, 400, 400
_SPLITS = {"train": (0, 0), "validation": (1, 1), "test": (2, 2)}  # colour and dash of each


def describe_run(record: RunRecord, album: Album) -> Dict[str, Any]:
    """What the templates show of a run; the album takes its pictures."""
    notes: List[str] = []
    curves, happened = _read_metrics(record)
    entries: Sequence[Entry] = []
    head = NO_HASH
    try:
        entries, head = record.folder.commits.entries(), record.folder.commits.head()
    except CheckpointError as error:
        notes.append(error.message)
    happened += events.list_log_events(entries)
    happened.sort(key=lambda event: event.step)
    sections = read_sections(fields(record.test).get("page"))
    place = events.find_place(record)
    findings = judgement.list_findings(record, place, happened, curves, sections)
    worst = next((finding for finding in findings if finding.text), None)
    is_told = worst is not None and worst.text == record.reason
    total = f" of {record.total_steps:,}" if count(record.total_steps) else ""
    again, needs = events.describe_recipe(record, entries)
    pictures, sliders = _add_pictures(record, sections["pictures"], album)
    sessions = [entry.values for entry in entries if entry.kind == "session"]
    machine = fields(sessions[-1].get("machine")) if sessions else {}
    told = "training diverged after this step"  # for the reason, which is above the table
    shown = [(e.step, e.kind, told if e.text == record.reason else e.text) for e in happened[:200]]
    software = {**record.versions, **machine, "sessions": len(sessions), "begun": record.created}
    hooks = ", ".join(map(str, items(record.manifest.get("hooks"))[:50]))
    last = collections.deque(read_records(record.folder.speed.path), maxlen=1)
    speed = finite(last[0].get("examples_per_sec")) if last else None
    metrics = [(in_words(name), value) for name, value in list(record.metrics.items())[:200]]
    return {
        "name": record.name,
        "place": place,
        "facts": _describe_head(record, machine),
        "status": record.status,
        "end": f"at step {record.step:,}{total}" if is_told or not record.reason else record.reason,
        "headline": list_quantities(record, sections["headline"], curves),
        "tested": describe_test(record),
        "worst": worst,
        "autopsy": events.read_autopsy(record),
        "advice": judgement.list_advice(record, findings),
        "again": again,
        "again_needs": needs,
        "curves": curves,
        "charts": _draw_curves(curves, judgement.find_best_step(record, curves)),
        "sections": sections,
        "metrics": make_table("All metrics of the test", ["metric", "value"], metrics),
        "pictures": pictures,
        "sliders": sliders,
        "events": make_table("Events", ["step", "event", "what happened"], shown),
        "chosen": _list_options(record, True),
        "defaults": _list_options(record, False),
        "data": _describe_data(record),
        "speed": f"{format_rate(speed, ',')} examples a second" if speed else "",
        "software": {**software, "hooks": hooks, "command": " ".join(record.argv)},
        "head": "" if head == NO_HASH else head,
        "entries": format_count(len(entries), "entry", "entries"),
        "lines": items(fields(record.test).get("lines"))[:40],
        "notes": notes + sections["notes"] + album.notes,
    }


def _read_metrics(record: RunRecord) -> Tuple[List[Curve], List[events.Event]]:
    """The curves and the events of metrics.jsonl."""
    curves = Curves()
    happened: List[events.Event] = []
    for values in read_records(record.folder.metrics.path):
        if values.get("kind") != "event":
            split = clean_text(values.get("split"), 40) or "validation"
            curves.add(values, "train" if values.get("kind") == "train" else split)
        elif len(happened) < 2000:
            happened += events.read_event(values)
    best = fields(record.best).get("metric")
    return curves.ordered(best if isinstance(best, str) else None), happened


def _describe_head(record: RunRecord, machine: Dict[str, Any]) -> str:
    """`PLUGIN cnn (73,114 parameters) on mnist5k, 5,000 examples, 10 classes, 2026-11-24`."""
    network = record.options.get("network")
    network = network if isinstance(network, str) and network != "auto" else ""
    model = f"{os.path.basename(record.plugin)} {network}".strip()
    size = count(fields(record.manifest.get("model")).get("parameters"))
    examples, num_classes = sum(record.examples.values()), len(judgement.list_classes(record))
    num_cores, seconds = count(machine.get("cores")), finite(record.seconds)
    parts = [
        (f"{model} ({format_count(size, 'parameter')})" if size else model)
        + (f" on {record.data_name}" if record.data_name else ""),
        format_count(examples, "example") if examples else "",
        format_count(num_classes, "class", "classes") if num_classes else "",
        record.created[:10],
        format_duration(seconds) if seconds is not None else "",
        format_count(num_cores, "core") if num_cores else "",
    ]
    return ", ".join(filter(None, parts))


def _draw_curves(curves: Sequence[Curve], best_step: Optional[int]) -> List[Dict[str, Any]]:
    """A chart for each group of curves: the split decides colour and dash of a line; of several
    metrics, the name decides the colour.
    """
    groups: Dict[str, List[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.group, []).append(curve)
    mark = None if best_step is None else (best_step, f"best step {best_step:,}")
    charts = []
    for group, members in list(groups.items())[:_MAX_CHARTS]:
        names, lines = sorted({curve.name for curve in members}), []
        for curve in members:
            colour, dash = _SPLITS.get(curve.split, (3, 3))
            text = curve.split
            if len(names) > 1:
                colour, text = names.index(curve.name), f"{in_words(curve.name)}, {text}"
            lines.append(Line(text, curve.thin(_MAX_POINTS), (colour, dash)))
        charts.append(make_chart(group, lines, mark=mark))
    return charts


def _list_options(record: RunRecord, is_chosen: bool) -> Dict[str, Any]:
    """The table of the options that somebody set, or of the others."""
    rows = [
        [name, show_value(value), str(record.origins.get(name, NOT_SET))]
        for name, value in list(record.options.items())[:_MAX_OPTIONS]
        if (not record.origins or record.origins.get(name, NOT_SET).is_choice) == is_chosen
    ]
    title = "Options that somebody set" if is_chosen else "Options with their defaults"
    return make_table(title, ["option", "value", "from"], rows)


def _describe_data(record: RunRecord) -> Dict[str, Any]:
    """The data of a run: a sentence, its classes, and its hashes."""
    spec = fields(fields(record.manifest.get("data")).get("spec"))
    form = " x ".join(map(str, items(spec.get("shape"))[:8])) + f" {spec.get('dtype') or ''}"
    splits = ", ".join(f"{number:,} {name}" for name, number in record.examples.items())
    columns, classes = ["class", "training examples"], judgement.list_classes(record)[:200]
    return {
        "text": "; ".join(filter(None, [record.data_name, splits, form.strip()])),
        "classes": make_table("Classes", columns, classes, columns[1:]),
        "hashes": {"partition": record.partition, **dict(list(record.data_sha256.items())[:20])},
    }


def _add_pictures(
    record: RunRecord, chosen: Sequence[Dict[str, Any]], album: Album
) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]]]:
    """Add the pictures of a run: those of the plugin, or all of the last reports; then samples."""
    files = _list_files(record, chosen)[: album.max_pictures]
    pictures, sliders = [album.add_file(*each) for each in files], []
    others = list_pictures(record.path, SAMPLES)
    shown = {file for file, _, _ in files}
    for subject, frames in list(list_frames(others).items())[:_MAX_SLIDERS]:
        name = subject[len(SAMPLES) + 1 :].strip("-_. ")
        is_plain = name.lower() in ("", "step", "steps", "sample", "samples", "grid")
        title = "Samples by step" + ("" if is_plain else f": {in_words(name)}")
        sliders.append(album.add_slider(title, frames))
        shown.update(file for _, file in frames)
    for name in others:
        is_new = name not in shown and not name.endswith(".gif")
        if is_new and len(pictures) < album.max_pictures:
            title = in_words(os.path.splitext(os.path.basename(name))[0])
            pictures.append(album.add_file(name, title, ""))
    return [each for each in pictures if each], [each for each in sliders if each]


def _list_files(record: RunRecord, chosen: Sequence[Dict[str, Any]]) -> List[Tuple[str, str, str]]:
    """The path, title and text of each picture of the test; or of the autopsy of its divergence.

    Other reports may come later, by `toolkit evaluate`, and are no part of how the run ended.
    """
    place, title = fields(record.test).get("reports"), ""
    if not isinstance(place, str) or place.split("/")[0] != REPORTS:
        place = ""
    if place and (chosen or record.of_test("page", "pictures") == []):
        return [(f"{place}/{p['file']}", p["title"], p["alt"]) for p in chosen]
    if not place and record.status == events.DIVERGED:
        place, title = f"{REPORTS}/autopsy-{record.step}", "The batch at which training diverged"
    names = list_pictures(record.path, place) if place and record.status != RUNNING else []
    return [(name, title, title) for name in names]
