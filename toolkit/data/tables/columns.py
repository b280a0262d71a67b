"""A column of a table: numbers, texts or lists, by its fields.

A column is one of numbers if each field is a number, True or False, or missing. Otherwise it is one
of texts, unless most of its fields are numbers: then one is wrong, and the table is refused.

Legend: N rows, K different texts.
"""

from __future__ import annotations

import contextlib
import shlex
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from ...errors import DataError
from ..column import as_array

# How a missing number is written; a missing text is an empty field.
MISSING_NUMBERS = frozenset(
    ("", "?", "-", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "nat")
)
_TRUTH = {"true": 1.0, "false": 0.0}
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


class TableColumn:
    """A column of the table at a path: N texts, or in a table of JSON also N lists, which are
    parsed when they are first asked for.
    """

    def __init__(self, path: str, name: str, fields: Sequence[Any]):
        self.path, self.name, self._fields = path, name, fields
        self._kinds = set(map(type, fields))
        self._parsed: Dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._fields)

    def error(self, row: int, expected: str, found: str, hint: str, why: str = "") -> DataError:
        """The error for the field of a row, which is counted from 0."""
        return DataError(
            f"{self.path}: row {row + 1:,}: expected {expected} in '{self.name}'{why}, found "
            f"{found}.",
            hint=hint,
        )

    @property
    def is_list(self) -> bool:
        """Whether the fields are lists. Raises a DataError if some are and others are not."""
        if len(self._kinds) > 1:
            kind = type(self._fields[0])
            row = next(i for i, field in enumerate(self._fields) if not isinstance(field, kind))
            expected, found = ("a list", "none") if kind is list else ("a value", "a list")
            hint = "Give each record a list, or each a single value."
            raise self.error(row, expected, found, hint, " as in other rows")
        return list in self._kinds

    @property
    def codes(self) -> np.ndarray:
        """The position in `values` of the text of each row, without spaces around it: int64 [N].

        Raises a DataError if the fields are lists.
        """
        if "codes" not in self._parsed:
            if self.is_list:
                raise self.error(0, "a value", "a list", "Name another column.")
            code_of: Dict[str, int] = {}
            texts = map(str.strip, self._fields)
            self._parsed["codes"] = np.array([code_of.setdefault(t, len(code_of)) for t in texts])
            self._parsed["values"] = list(code_of)
        return self._parsed["codes"]

    @property
    def values(self) -> List[str]:
        """The different texts, [K], in the order of their first rows."""
        return self._parsed["values"] if len(self.codes) else []

    def row_of(self, value: str) -> int:
        """The first row with a text."""
        return int(np.argmax(self.codes == self.values.index(value)))

    def map(self, function: Callable[[str], Any], dtype: Any) -> np.ndarray:
        """What a function makes of the text of each row, [N]; it is called once for each text."""
        results = np.empty(len(self.values), dtype)
        results[:] = [function(value) for value in self.values]
        return results[self.codes]

    @property
    def numbers(self) -> Optional[np.ndarray]:
        """float64 [N], NaN where a number is missing; None unless each field is a number."""
        if "numbers" not in self._parsed:
            self._parsed["numbers"] = None if self.is_list else self._parse_numbers()
        return self._parsed["numbers"]

    def _parse_numbers(self) -> Optional[np.ndarray]:
        with contextlib.suppress(ValueError):
            numbers = np.array(list(map(float, self._fields)))
            text = "".join(self._fields)
            if "_" not in text and text.isascii():  # which Python allows in numbers
                return numbers
        is_number = all(parse_number(text) is not None for text in self.values)
        return self.map(parse_number, np.float64) if is_number else None

    def floats(self) -> np.ndarray:
        """The numbers as float32 [N], NaN where one is missing. Raises a DataError if a field is no
        number, or too large for float32.
        """
        numbers = self.numbers
        if numbers is None:
            raise self.text_error(next(t for t in self.values if parse_number(t) is None))
        with np.errstate(invalid="ignore"):  # a comparison with NaN is False
            is_too_large = np.abs(numbers) > _MAX_FLOAT32
        if is_too_large.any():
            row = int(np.argmax(is_too_large))
            hint = "Correct it, or scale the column."
            raise self.error(row, "a number of 32-bit floats", f"{numbers[row]:g}", hint)
        return numbers.astype(np.float32)

    def describe_rounding(self) -> str:
        """A sentence where float32 rounds the numbers to more than a thousandth of their range, as
        it does times in seconds; else "".
        """
        known = np.zeros(0) if self.numbers is None else self.numbers[np.isfinite(self.numbers)]
        if not known.size:
            return ""
        step = np.spacing(np.float32(np.abs(known).max()))
        if not 0 < np.ptp(known) < 1000 * step:
            return ""
        text = f"'{self.name}' is rounded to multiples of {step:g}, as 32-bit floats are"
        return f"{text}: subtract an offset from its numbers."

    def text_error(self, text: str, other: str = "") -> DataError:
        """The error for a text among numbers; `other` is what one may do but correct it."""
        other = other or f"leave the column out (--ignore-columns {shlex.quote(self.name)})"
        hint = f"Correct it, or {other}."
        if _has_comma(text):
            hint = "Write numbers with a decimal point, and without a mark between thousands."
        return self.error(self.row_of(text), "a number", f"'{shorten(text)}'", hint)

    def refuse_stray_text(self, other: str = "") -> None:
        """Raise a DataError that names the first text of a column of which most are numbers."""
        is_text = self.map(lambda text: parse_number(text) is None, bool)
        num_words = (is_text & ~self.map(_has_comma, bool)).sum()
        num_missing = self.map(lambda text: text.lower() in MISSING_NUMBERS, bool).sum()
        if is_text.any() and len(self) - num_missing - num_words > num_words:
            raise self.text_error(self.values[self.codes[np.argmax(is_text)]], other)

    def arrays(self) -> List[np.ndarray]:
        """Lists as N arrays of integers or float32; inner lists give them more axes. Raises a
        DataError if a field is no list of finite numbers.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old versions of numpy, on uneven inner lists
            arrays = list(map(as_array, self._fields))
        for row, array in enumerate(arrays):
            if array.dtype.kind not in "if" or not array.size or not array.shape:
                hint = "Give one number or more, and inner lists of one length."
                raise self.error(row, "a list of numbers", shorten(str(self._fields[row])), hint)
            if array.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    arrays[row] = array.astype(np.float32)
                if not np.isfinite(arrays[row]).all():
                    hint = "Repair or remove that record."
                    raise self.error(row, "finite numbers", "NaN or infinity", hint)
        return arrays


def parse_number(text: str) -> Optional[float]:
    """The number that a text is: NaN if it is missing, None if it is no number."""
    try:
        return float(text) if "_" not in text and text.isascii() else None
    except ValueError:
        lower = text.lower()
        return _TRUTH.get(lower, float("nan") if lower in MISSING_NUMBERS else None)


def _has_comma(text: str) -> bool:
    """Whether a text is a number but for commas."""
    return "," in text and parse_number(text.replace(",", "")) is not None


def shorten(text: str, length: int = 40) -> str:
    """A text, cut off where it is long."""
    return text if len(text) <= length else text[: length - 3] + "..."
