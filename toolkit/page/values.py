"""Values of a run folder, which anybody may have written, made safe and short for a page."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Sequence

from ..display import numbers
from ..display.escapes import escape_controls


def clean_text(value: Any, limit: int = 300) -> str:
    """The text in one line, without control characters, cut to a length; "" if it is no text."""
    if not isinstance(value, str):
        return ""
    text = escape_controls(" ".join(value[: 4 * limit].split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def in_words(name: str) -> str:
    """A name as a reader says it: `generator/learning_rate` is "generator learning rate"."""
    return clean_text(name, 80).replace("_", " ").replace("/", " ")


def count(value: Any) -> Optional[int]:
    """The number if it is an integer from 0 to 2**53, else None."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= 2**53 else None


def items(value: Any) -> List[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def fields(value: Any) -> Dict[str, Any]:
    """The value if it is an object of JSON, else an empty one."""
    return value if isinstance(value, dict) else {}


def format_number(value: float) -> str:
    """A number as a person reads it: a whole one with commas, another as the console has it."""
    is_whole = float(value).is_integer() and abs(value) < 1e9
    return f"{value:,.0f}" if is_whole else numbers.format_number(value)


def format_alike(values: Sequence[Optional[float]]) -> List[str]:
    """The numbers of a column with equally many decimals; a dash for None."""
    known = [number for number in values if number is not None]
    largest = max(map(abs, known), default=0.0)
    decimals = 4 if largest < 10 else 3 if largest < 100 else 2
    # Whole values have none; but the float 1 may be a share.
    is_whole = all(float(n).is_integer() and (largest != 1 or type(n) is int) for n in known)
    is_plain = 1e-3 <= largest < 1e4 and not is_whole
    texts = [f"{n:.{decimals}f}" if is_plain else format_number(n) for n in known]
    return ["–" if number is None else texts.pop(0) for number in values]


format_count = functools.partial(numbers.format_count, mark=",")
