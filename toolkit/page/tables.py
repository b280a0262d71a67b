"""Tables of a page: numbers with equal decimals, bars and intervals on a common axis."""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..comparison.record import finite
from .values import clean_text, format_alike, format_number


class Span(NamedTuple):
    """A number with the ends of its interval, which a cell shows as a dot on an axis."""

    value: float
    low: Optional[float] = None
    high: Optional[float] = None


def make_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    bars: Sequence[str] = (),
    is_log: bool = False,
    marked: str = "",
    note: str = "",
) -> Dict[str, Any]:
    """A table for the templates; {} without rows. A row has a number, a text, a `Span` or None for
    each column. The numbers of `bars` are drawn, too, on a logarithmic axis if `is_log` and all are
    positive; the row whose first cell has the text `marked` stands out.
    """
    cells = [_make_cells(column, name in bars, is_log) for name, column in zip(columns, zip(*rows))]
    heads = [
        {"name": name, "is_number": any(c["is_number"] and "bar" not in c for c in column)}
        for name, column in zip(columns, cells)
    ]
    body = [{"cells": row, "is_marked": row[0]["text"] == marked != ""} for row in zip(*cells)]
    return {"title": title, "columns": heads, "rows": body, "note": note} if rows else {}


def _make_cells(values: Sequence[Any], has_bars: bool, is_log: bool) -> List[Dict[str, Any]]:
    """The cells of a column."""
    is_span = any(isinstance(each, Span) for each in values)
    spans = [each if isinstance(each, Span) else Span(finite(each)) for each in values]  # type: ignore
    is_count = not any(isinstance(each, (float, Span)) for each in values)
    numbers = [int(s.value) if is_count and s.value is not None else s.value for s in spans]
    texts = format_alike(numbers)
    ends = [end for span in spans for end in span if end is not None] or [0.0]
    low, high, is_log = min(ends), max(ends), is_log and min(ends) * 1e300 > max(1.0, *ends)
    if is_log:
        low = low / (high / low) ** 0.05
    elif is_span:
        low, high = low - 0.04 * (high - low), high + 0.04 * (high - low)
    else:
        low, high = min(0.0, low), max(high, 1.0 if low >= 0 and high > 0.5 else 0.0)
    cells = []
    for value, span, text in zip(values, spans, texts):
        text = as_text(value) if isinstance(value, (str, bool)) else text
        cell = {"text": text, "is_number": span.value is not None}
        if span.value is not None and (is_span or has_bars):
            at = place_on(span.value, low, high, is_log)
            drawn = None if is_span else (0.0, at)
            if span.low is not None and span.high is not None:
                drawn = place_on(span.low, low, high), place_on(span.high, low, high)
                cell["more"] = " to ".join(format_alike(span)[1:])
            cell.update(bar={"range": drawn, "point": at if is_span else None}, sort=span.value)
        cells.append(cell)
    return cells


def place_on(value: float, low: float, high: float, is_log: bool = False) -> float:
    """Where a value is between two others, in percent."""
    if is_log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    share = (value - low) / (high - low) if high > low else 0.5
    return round(100 * min(1.0, max(0.0, share)), 2)


def as_text(value: Any) -> str:
    """The text of a cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    number = finite(value)
    return clean_text(value) if number is None else format_number(number)
