"""What a plugin puts on the page of a run: the key "page" of a test result, read with limits.

Whatever is not as docs/plugins/pages.md describes is left out, with a note.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..comparison.record import finite
from .values import clean_text, fields, format_number, items, shortest
from .worst import REMARK, WARNING, Worst

MAX_HEADLINE, MAX_PICTURES, MAX_MATRICES, MAX_TABLES, MAX_CHARTS = 6, 12, 3, 6, 8
MAX_CLASSES = 60  # of a matrix
MAX_ROWS, MAX_COLUMNS = 200, 12
MAX_LINES, MAX_POINTS = 8, 200
_CELL = 120  # characters
_NAME = 80


class Sections(NamedTuple):
    """The valid part of a plugin's value.

    Attributes:
        headline: see `headline.py`.
        pictures: {"file", "title", "alt"} each, the main one first.
        matrices, tables, charts: as on the page.
        worst: what the plugin warns of.
        notes: a sentence for what is left out.
    """

    headline: List[Dict[str, Any]]
    pictures: List[Dict[str, str]]
    matrices: List[Dict[str, Any]]
    tables: List[Dict[str, Any]]
    charts: List[Dict[str, Any]]
    worst: List[Worst]
    notes: List[str]


def read_sections(value: Any) -> Sections:
    """The sections in a plugin's value, which may be anything; None for no value."""
    notes: List[str] = []
    if value is not None and not isinstance(value, dict):
        notes.append("What the plugin has for this page is no object of JSON.")
    values = fields(value)

    def read(name: str, parse: Callable[[Any], Any], limit: int) -> List[Any]:
        return _read_list(name, values.get(name), parse, limit, notes)

    pictures = read("pictures", _parse_picture, MAX_PICTURES)
    if values.get("picture") is not None:
        main = _read_list("picture", [values["picture"]], _parse_picture, 1, notes)
        pictures = main + [picture for picture in pictures if picture not in main]
    return Sections(
        headline=read("headline", parse_quantity, MAX_HEADLINE),
        pictures=pictures,
        matrices=read("matrices", _parse_matrix, MAX_MATRICES),
        tables=read("tables", _parse_table, MAX_TABLES),
        charts=read("charts", _parse_chart, MAX_CHARTS),
        worst=read("warnings", _parse_warning, 3),
        notes=notes,
    )


def _read_list(
    name: str, value: Any, parse: Callable[[Any], Any], limit: int, notes: List[str]
) -> List[Any]:
    """The valid parts of a list, at most `limit`."""
    if value is not None and not isinstance(value, list):
        notes.append(f"'{name}' of the plugin is no list, and is left out.")
    parts = items(value)
    parsed = [parse(part) for part in parts[:limit]]
    valid = [part for part in parsed if part is not None]
    if len(valid) < len(parts):
        notes.append(f"Of '{name}' of the plugin, {len(parts) - len(valid):,} left out.")
    return valid


def parse_quantity(value: Any) -> Optional[Dict[str, Any]]:
    """A number with its name, and the interval and the floor that it may have."""
    values = fields(value)
    name, number = clean_text(values.get("name"), _NAME), finite(values.get("value"))
    if not name or number is None:
        return None
    low, high, level = (finite(values.get(key)) for key in ("low", "high", "level"))
    has_interval = low is not None and high is not None and low <= high
    unit = clean_text(values.get("unit"), 20)
    return {
        "name": name,
        "value": shortest(number),
        "text": format_number(number) + (f" {unit}" if unit else ""),
        "low": shortest(low) if has_interval else None,
        "high": shortest(high) if has_interval else None,
        "level": (level or 0.95) if has_interval else None,
        "method": clean_text(values.get("method"), _NAME) if has_interval else "",
        "floor": shortest(finite(values.get("floor"))),
        "note": clean_text(values.get("note")),
        "unit": unit,
    }


def _parse_picture(value: Any) -> Optional[Dict[str, str]]:
    values = fields(value)
    file = values.get("file")
    if not isinstance(file, str) or not file:
        return None
    texts = {name: clean_text(values.get(name)) for name in ("title", "alt")}
    return {"file": file, **texts}


def _parse_matrix(value: Any) -> Optional[Dict[str, Any]]:
    """Counts by true class (row) and predicted class (column)."""
    values = fields(value)
    names, rows = items(values.get("names")), items(values.get("counts"))
    length = len(rows)
    if not 0 < length <= MAX_CLASSES or len(names) != length:
        return None
    counts = [[_cell_count(cell) for cell in items(row)] for row in rows]
    if any(len(row) != length or None in row for row in counts):
        return None
    title = clean_text(values.get("title"), _NAME) or "Confusion"
    return {"title": title, "names": [_cell_text(name) for name in names], "counts": counts}


def _cell_count(value: Any) -> Optional[float]:
    number = finite(value)
    return shortest(number) if number is not None and number >= 0 else None


def _parse_table(value: Any) -> Optional[Dict[str, Any]]:
    values = fields(value)
    columns = [_cell_text(name) for name in items(values.get("columns"))[:MAX_COLUMNS]]
    rows = items(values.get("rows"))
    if not columns or not all(isinstance(row, list) for row in rows[:MAX_ROWS]):
        return None
    cells = [[_cell(cell) for cell in row[: len(columns)]] for row in rows[:MAX_ROWS]]
    table = {
        "title": clean_text(values.get("title"), _NAME) or "Table",
        "columns": columns,
        "rows": [row + [None] * (len(columns) - len(row)) for row in cells],
    }
    if len(rows) > MAX_ROWS:
        table["note"] = f"{MAX_ROWS} of {len(rows):,} rows"
    return table


def _cell(value: Any) -> Any:
    """A number, a text, or None."""
    return _cell_text(value) if isinstance(value, (str, bool)) else shortest(finite(value))


def _cell_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    number = finite(value)
    return clean_text(value, _CELL) if number is None else format_number(number)


def _parse_chart(value: Any) -> Optional[Dict[str, Any]]:
    values = fields(value)
    parts = [_parse_line(line) for line in items(values.get("lines"))[:MAX_LINES]]
    lines = [line for line in parts if line is not None]
    if not lines:
        return None
    texts = {name: clean_text(values.get(name), _NAME) for name in ("title", "x", "y")}
    return {**texts, "lines": lines, "diagonal": values.get("diagonal") is True}


def _parse_line(value: Any) -> Optional[Dict[str, Any]]:
    """A line through points [x, y], or [x, y, low, high] with an interval of y."""
    values = fields(value)
    points = []
    for point in items(values.get("points"))[:MAX_POINTS]:
        numbers = [shortest(finite(number)) for number in items(point)[:4]]
        if len(numbers) >= 2 and None not in numbers[:2]:
            points.append(numbers + [None] * (4 - len(numbers)))
    return {"name": clean_text(values.get("name"), _NAME), "points": points} if points else None


def _parse_warning(value: Any) -> Optional[Worst]:
    """What the plugin warns of: {"text": ..., "level": "warning" or "note"}."""
    values = fields(value)
    text = clean_text(values.get("text"))
    if not text:
        return None
    return Worst(text, None, REMARK if values.get("level") == REMARK else WARNING)
