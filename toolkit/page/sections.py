"""How good a run is, and what a plugin puts on its page: the key "page" of a test result, read with
limits.

Whatever is not as docs/plugins/pages.md describes is left out, with a note.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence

from ..comparison.metrics import DIRECTIONS, direction_of
from ..comparison.record import RunRecord, finite
from .chart import Line, make_chart
from .curves import Curve
from .tables import as_text, make_table, place_on
from .values import (
    clean_text,
    count,
    fields,
    format_alike,
    format_count,
    format_number,
    in_words,
    items,
)

MAX_CLASSES, MAX_ROWS, MAX_CELLS, MAX_COLUMNS, MAX_LINES, MAX_POINTS = 60, 200, 1200, 12, 8, 200
MAX_VALUE = 1e300  # a larger number has no room on an axis
_NAME = 80  # characters
_FIRST = ("accuracy", "loss")  # after the metric that chooses the best checkpoint
_FEW = 4  # quantities that no plugin chose
_WORDS = {"max": "higher is better", "min": "lower is better"}
_NO_WORD = "Of a loss of two networks, neither higher nor lower values are better by themselves."


def read_sections(value: Any) -> Dict[str, List[Any]]:
    """The valid parts of a plugin's value, which may be anything, by the keys of `_PARTS`, and
    "notes" for what is left out; None for no value.
    """
    notes: List[str] = []
    if value is not None and not isinstance(value, dict):
        notes.append("What the plugin has for this page is no object of JSON.")
    values = dict(fields(value))
    if "picture" in values:
        others = [each for each in items(values.get("pictures")) if each != values["picture"]]
        values["pictures"] = [values["picture"], *others]
    parts = {}
    for name, (parse, limit) in _PARTS.items():
        if values.get(name) is not None and not isinstance(values[name], list):
            notes.append(f"'{name}' of the plugin is no list, and is left out.")
        given = items(values.get(name))
        parts[name] = [each for each in map(parse, given[:limit]) if each]
        if len(parts[name]) < len(given):
            notes.append(f"Of '{name}' of the plugin, {len(given) - len(parts[name]):,} left out.")
    return {**parts, "notes": notes}


def _parse_picture(value: Any) -> Optional[Dict[str, Any]]:
    file = fields(value).get("file")
    texts = {name: clean_text(fields(value).get(name)) for name in ("title", "alt")}
    return dict(texts, file=file) if isinstance(file, str) and file else None


def _parse_matrix(value: Any) -> Optional[Dict[str, Any]]:
    """Counts by true class (row) and predicted class (column)."""
    values = fields(value)
    names, rows = items(values.get("names")), items(values.get("counts"))
    counts = [[finite(cell) for cell in items(row)] for row in rows]
    is_square = all(len(row) == len(rows) for row in [names, *counts])
    is_valid = all(cell is not None and cell >= 0 for row in counts for cell in row)
    if not 0 < len(rows) <= MAX_CLASSES or not is_square or not is_valid:
        return None
    return {
        "title": clean_text(values.get("title"), _NAME) or "Confusion",
        "names": [as_text(name) for name in names],
        "counts": [[int(cell or 0) for cell in row] for row in counts],
    }


def _parse_table(value: Any) -> Optional[Dict[str, Any]]:
    values = fields(value)
    columns = [as_text(name) for name in items(values.get("columns"))[:MAX_COLUMNS]]
    rows = items(values.get("rows"))
    limit = min(MAX_ROWS, MAX_CELLS // max(len(columns), 1))
    if not columns or not all(isinstance(row, list) for row in rows[:limit]):
        return None
    return make_table(
        clean_text(values.get("title"), _NAME) or "Table",
        columns,
        [[*row, *[None] * len(columns)][: len(columns)] for row in rows[:limit]],
        bars=[as_text(name) for name in items(values.get("bars"))],
        is_log=values.get("log") is True,
        marked=as_text(values.get("marked")),
        note=f"{limit} of {len(rows):,} rows" if len(rows) > limit else "",
    )


def _parse_chart(value: Any) -> Optional[Dict[str, Any]]:
    values = fields(value)
    title, x, y = (clean_text(values.get(name), _NAME) for name in ("title", "x", "y"))
    parts = items(values.get("lines"))[:MAX_LINES]
    lines = [line for line in map(_parse_line, parts, range(MAX_LINES)) if line]
    return make_chart(title, lines, x or "x", y, values.get("diagonal") is True) if lines else None


def _parse_line(value: Any, number: int) -> Optional[Line]:
    values = fields(value)
    points = []
    for point in items(values.get("points"))[:MAX_POINTS]:
        x, y, low, high = (finite(each) for each in [*items(point), None, None, None, None][:4])
        if x is not None and y is not None and max(abs(x), abs(y)) < MAX_VALUE:
            points.append((x, y, low, high))
    draw = "dots" if values.get("draw") == "dots" else "line"
    name = clean_text(values.get("name"), _NAME)
    return Line(name, points, (number, number), draw) if points else None


def _parse_warning(value: Any) -> Optional[Dict[str, Any]]:
    text, is_note = clean_text(fields(value).get("text")), fields(value).get("level") == "note"
    return {"text": text, "level": "note" if is_note else "warning"} if text else None


# --------------------------------------------------------------------------------------- quantities


def parse_quantity(value: Any) -> Optional[Dict[str, Any]]:
    """A number with its interval and its scale for the templates, from the values that
    docs/plugins/pages.md describes; None if they are not valid.
    """
    values = fields(value)
    name, number = clean_text(values.get("name"), 80), finite(values.get("value"))
    if not name or number is None:
        return None
    low, high, level = (finite(values.get(key)) for key in ("low", "high", "level"))
    interval = [low, high] if low is not None and high is not None and low <= high else []
    found = [(key, finite(values.get(key))) for key in ("floor", "chance")]
    marks = {key: mark for key, mark in found if mark is not None}
    drawn = [values["value"], *interval, *marks.values()]
    text, *texts = format_alike(drawn)
    direction = next((each for each in DIRECTIONS if each == values.get("direction")), "")
    ends = [end for end in map(finite, items(values.get("ends"))) if end is not None]
    if len(ends) != 2:  # a share is between 0 and 1; what has a floor is above 0
        is_share = direction == "max" and 0 <= number <= 1
        ends = [0.0, 1.0] if is_share else [0.0, 1.1 * max(drawn) if marks else 0.0]
    has_scale = ends[0] < ends[1] and ends[0] <= number
    places = [place_on(each, ends[0], ends[1]) for each in drawn]
    scale = {
        "point": places[0],
        "range": places[1 : 1 + len(interval)],
        "ticks": places[1 + len(interval) :],
        "ends": list(map(format_number, ends)),
        "better": {"max": "right", "min": "left"}.get(direction),
    }
    sentence = clean_text(values.get("text")) or ("" if has_scale else _WORDS.get(direction, ""))
    if direction == "max" and min([number, *interval]) <= marks.get("chance", -math.inf):
        sentence += " It may be no better than chance."
    return {
        "name": in_words(name),
        "text": f"{text} {clean_text(values.get('unit'), 20)}".strip(),
        "interval": " to ".join(texts[: len(interval)]),
        "method": f"{100 * (level or 0.95):.3g} % interval {clean_text(values.get('method'), 80)}",
        "marks": [" ".join(pair) for pair in zip(marks, texts[len(interval) :])],
        "scale": scale if has_scale else None,
        "sentence": sentence,
        "note": clean_text(values.get("note")),
    }


def list_quantities(
    record: RunRecord, headline: Sequence[Dict[str, Any]], curves: Sequence[Curve]
) -> List[Dict[str, Any]]:
    """The numbers of the first screen: the plugin's headline, or else the metrics of the test, of
    the last validation, or of the end of the training, the most telling one first.
    """
    if headline and record.test is not None:
        return list(headline)
    intervals = fields(fields(record.test).get("intervals"))
    values = {name: (value, "") for name, value in record.metrics.items()}
    for split in ("validation", "train"):
        if record.test is None and not values:
            last = {c.name: c.points()[-1:] for c in curves if c.split == split}
            values = {n: (p[0][1], f"{split}, step {p[0][0]:,}") for n, p in last.items() if p}
    names = [name for name in values if not name.endswith("_noise")]
    first = [name for name in (fields(record.best).get("metric"), *_FIRST) if name in names]
    quantities = []
    for name in dict.fromkeys([*first, *names]):
        direction = direction_of(record, name) or ("min" if name == "loss" else None)
        text = _NO_WORD if name in ("d_loss", "g_loss") and not direction else ""
        declared = dict(zip(("name", "value", "note"), (name, *values[name])), text=text)
        interval = fields(intervals.get(name))
        quantities.append(parse_quantity({**interval, **declared, "direction": direction}))
    return [each for each in quantities if each is not None][:_FEW]


def describe_test(record: RunRecord) -> str:
    """`On the test split, 500 examples, best checkpoint, step 300.`; "" without a test."""
    test = fields(record.test)
    examples, step = count(test.get("examples")), count(test.get("step"))
    checkpoint = clean_text(test.get("checkpoint"), 20)
    texts = [
        "On the test split",
        "" if examples is None else format_count(examples, "example"),
        checkpoint and f"{checkpoint} checkpoint",
        "" if step is None else f"step {step:,}",
    ]
    return f"{', '.join(filter(None, texts))}." if test else ""


# The keys of a plugin's value: how to read one of its parts, and how many there are.
_PARTS: Dict[str, Any] = {
    **{"headline": (parse_quantity, 6), "pictures": (_parse_picture, 12)},
    **{"matrices": (_parse_matrix, 3), "tables": (_parse_table, 6), "charts": (_parse_chart, 8)},
    **{"warnings": (_parse_warning, 3), "advice": (clean_text, 3)},
}
