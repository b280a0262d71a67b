"""What a plugin puts on the page of a run: the key "page" of a test result, read with limits.

Whatever is not as docs/plugins/pages.md describes is left out, with a note.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..comparison.record import finite
from .chart import Line, make_chart
from .quantities import parse_quantity
from .tables import as_text, make_table
from .values import clean_text, fields, items

MAX_CLASSES, MAX_ROWS, MAX_CELLS, MAX_COLUMNS, MAX_LINES, MAX_POINTS = 60, 200, 1200, 12, 8, 200
MAX_VALUE = 1e300  # a larger number has no room on an axis
_NAME = 80  # characters


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
    sizes = [max(0.0, finite(size) or 0.0) for size in items(values.get("sizes"))]
    points, kept = [], []
    for place, point in enumerate(items(values.get("points"))[:MAX_POINTS]):
        four = [finite(each) for each in [*items(point), None, None, None, None][:4]]
        x, y, low, high = (None if abs(each or 0) >= MAX_VALUE else each for each in four)
        if x is not None and y is not None:
            points.append((x, y, low, high))
            kept.append(sizes[place] if place < len(sizes) else 0.0)
    draw = "dots" if values.get("draw") == "dots" else "line"
    name = clean_text(values.get("name"), _NAME)
    return Line(name, points, (number, number), draw, kept if sizes else ()) if points else None


def _parse_warning(value: Any) -> Optional[Dict[str, Any]]:
    text, is_note = clean_text(fields(value).get("text")), fields(value).get("level") == "note"
    return {"text": text, "level": "note" if is_note else "warning"} if text else None


# The keys of a plugin's value: how to read one of its parts, and how many there are.
_PARTS: Dict[str, Any] = {
    **{"headline": (parse_quantity, 6), "pictures": (_parse_picture, 12)},
    **{"matrices": (_parse_matrix, 3), "tables": (_parse_table, 6), "charts": (_parse_chart, 8)},
    **{"warnings": (_parse_warning, 3), "advice": (clean_text, 3)},
}
