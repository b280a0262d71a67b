"""What a page says, as one JSON value: of a run, of several runs, or of a search."""

from __future__ import annotations

import json
import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from .. import __version__
from ..comparison.record import RunRecord, finite
from .curves import thin
from .pictures import ONE_OF_SEVERAL, ONE_RUN, Album, Picture, describe_encoder
from .run_content import describe_run, read_files
from .values import clean_text, format_count, shortest

FORMAT = 1
RUN, COMPARISON, SEARCH = "run", "comparison", "search"  # the kinds of pages
MAX_RUNS = 50
_POINTS = 8_000  # of all curves of a page
MAX_JSON = 160_000  # bytes
_MAX_POINTS, _MIN_POINTS = 1000, 30  # of one curve


class Content(NamedTuple):
    """A page.

    Attributes:
        values: its JSON, as DESIGN of the page describes: "format", "kind", "title", "runs", ...
        pictures: of the runs; objects in `values` name them by number.
    """

    values: Dict[str, Any]
    pictures: List[Picture]


def describe_page(
    records: Sequence[RunRecord],
    comparison: Optional[Dict[str, Any]] = None,
    search: Optional[Dict[str, Any]] = None,
    title: str = "",
) -> Content:
    """Gather what a page says.

    Args:
        records: of the runs, at least one; the first `MAX_RUNS` are shown.
        comparison: the values of the page's comparison, or None.
        search: the values of the page's search, or None.
        title: of the page; "" for one from the names of the runs.
    """
    shown_records = list(records)[:MAX_RUNS]
    files = [read_files(record) for record in shown_records]
    num_curves = sum(len(each.curves) + len(each.speed) for each in files)
    max_points = max(_MIN_POINTS, min(_MAX_POINTS, _POINTS // max(num_curves, 1)))
    runs: List[Dict[str, Any]] = []
    pictures: List[Picture] = []
    num_encoded = 0
    for number, (record, each) in enumerate(zip(shown_records, files)):
        album = Album(ONE_RUN if len(files) == 1 else ONE_OF_SEVERAL, len(pictures))
        run = describe_run(record, each, album, number, max_points)
        runs.append(run if len(files) == 1 else _without_details(run))
        pictures += album.pictures
        num_encoded += album.num_encoded
    _add_seed_groups(runs, comparison)
    notes: List[str] = []
    if num_encoded:
        (runs[0]["notes"] if len(runs) == 1 else notes).append(describe_encoder(num_encoded))
    if len(records) > MAX_RUNS:
        notes.append(f"Of {len(records):,} runs, the first {MAX_RUNS} are shown.")
    kind = SEARCH if search is not None else COMPARISON if len(records) > 1 else RUN
    values = {
        "format": FORMAT,
        "kind": kind,
        "title": clean_text(title, 200) or _default_title(records),
        "toolkit": __version__,
        "runs": runs,
        "comparison": comparison,
        "search": search,
        "notes": notes,
    }
    shrink(values)
    return Content(values, pictures)


def _add_seed_groups(runs: List[Dict[str, Any]], comparison: Optional[Dict[str, Any]]) -> None:
    """Number the groups of runs that differ in the seed alone, whose curves are one band."""
    for number, places in enumerate((comparison or {}).get("groups", [])):
        for place in places:
            if place < len(runs):
                runs[place].update(seed_group=number, group_name=runs[places[0]]["name"])


def shrink(values: Dict[str, Any]) -> None:
    """Leave out details of the runs of a page, until its JSON is small enough."""
    for leave_out in _OMISSIONS:
        if len(json.dumps(values)) <= MAX_JSON:
            return
        for run in values["runs"]:
            leave_out(run)
        if _NOTE not in values["notes"]:
            values["notes"].append(_NOTE)


def _thin_curves(run: Dict[str, Any], max_points: int) -> None:
    for curve in run["curves"] + run["speed"]["curves"]:
        numbers = [math.nan if value is None else value for value in curve["values"]]
        if len(numbers) > max_points:
            curve["thinned"] = curve["thinned"] or len(numbers)
        steps, numbers = thin(curve["steps"], numbers, max_points)
        curve.update(steps=steps, values=[shortest(finite(number)) for number in numbers])


def _cut_tables(run: Dict[str, Any]) -> None:
    for table in run["tables"]:
        del table["rows"][30:]
    del run["events"][50:], run["data"]["classes"][50:]


def _drop_sections(run: Dict[str, Any]) -> None:
    run.update(matrices=[], tables=[], charts=[])
    run["options"] = [option for option in run["options"] if not option["default"]][:100]
    for option in run["options"]:
        option["value"] = option["value"][:80]


_NOTE = "Curves, tables or events are shorter than in the folder, since the page has a limit."
_OMISSIONS: Sequence[Callable[[Dict[str, Any]], None]] = (
    lambda run: _thin_curves(run, 200),
    _cut_tables,
    lambda run: _thin_curves(run, 20),
    _drop_sections,
)


def _without_details(run: Dict[str, Any]) -> Dict[str, Any]:
    """A run on a page with others, without what its own page shows."""
    chosen_options = [option for option in run["options"] if not option["default"]]
    return dict(run, options=chosen_options, tables=[], charts=[], matrices=[], lines=[])


def _default_title(records: Sequence[RunRecord]) -> str:
    if len(records) == 1:
        return clean_text(records[0].name, 200)
    return format_count(len(records), "run")
