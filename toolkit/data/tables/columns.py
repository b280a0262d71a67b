"""The columns of a table: numbers, texts or lists, by their values.

A column is one of numbers if each field is a number, True or False, or missing. Otherwise it is one
of texts, unless most of its fields are numbers: then one is wrong, and the table is refused.

Legend: N rows, n fields.
"""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional

import numpy as np

from ...errors import DataError
from .table_file import Fields, TableFile

# How a missing number is written; a missing text is an empty field.
MISSING_NUMBERS = frozenset(
    ("", "?", "-", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "nat")
)
_TRUTH = {"true": 1.0, "false": 0.0}
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


class TextColumn(NamedTuple):
    """N texts, each different one stored once.

    Attributes:
        codes: int32 [N], the position in `values` of each.
        values: the different texts, in the order of their first rows.
    """

    codes: np.ndarray
    values: List[str]

    @property
    def counts(self) -> np.ndarray:
        """How often each value occurs, int64 [len(values)]."""
        return np.bincount(self.codes, minlength=len(self.values))

    def row_of(self, value: str) -> int:
        """The first row with a value."""
        return int(np.argmax(self.codes == self.values.index(value)))

    def take(self) -> np.ndarray:
        """The texts as an array of objects [N]."""
        values = np.empty(len(self.values), object)
        values[:] = self.values
        return values[self.codes]


class Table(NamedTuple):
    """The columns of a table, without those that are left out.

    Attributes:
        file: the file.
        num_rows: N.
        numbers: the columns of numbers by name, float32 [N] each, NaN where a field is missing.
        texts: the columns of texts by name.
        lists: the columns of a JSON table whose fields are lists, each [N] arrays, by name.
    """

    file: TableFile
    num_rows: int
    numbers: Dict[str, np.ndarray]
    texts: Dict[str, TextColumn]
    lists: Dict[str, List[np.ndarray]]

    def refuse_header(self, name: str) -> None:
        """Raise a DataError if the name of a column is one of its texts: it has no header."""
        column = self.texts[name]
        if name in column.values and not self.file.is_json:
            row = column.row_of(name) + 1
            raise DataError(
                f"{self.file.path}: expected the names of the columns in the first line, found "
                f"'{shorten(name)}', which is a value in row {row:,}, too.",
                hint="Write a first line with a name for each column.",
            )


def read_table(file: TableFile, kinds: Mapping[str, str]) -> Table:
    """Read the columns of a table.

    Args:
        file: the table.
        kinds: by name of a column: "text" or "number", whatever its fields look like, or "none" to
            leave it out. The fields of other columns decide.

    Raises:
        DataError: a field does not fit its column, or there are no rows.
    """
    num_rows = len(file.fields[file.columns[0]])
    if not num_rows:
        raise DataError(
            f"{file.path}: expected rows below the header, found none.",
            hint="Give one row or more for each example.",
        )
    numbers: Dict[str, np.ndarray] = {}
    texts: Dict[str, TextColumn] = {}
    lists: Dict[str, List[np.ndarray]] = {}
    for name in file.columns:
        fields, kind = file.fields[name], kinds.get(name, "")
        if kind == "none":
            continue
        if file.is_json and _are_lists(file, name, fields):
            lists[name] = [_as_array(file, name, row, field) for row, field in enumerate(fields)]
            continue
        values = None if kind == "text" else parse_numbers(fields)
        if values is not None:
            numbers[name] = _as_float32(file, name, values)
            continue
        if kind == "number":
            row = next(i for i, text in enumerate(fields) if parse_number(text) is None)
            refuse_text(file, name, fields[row], row)
        codes_of: Dict[str, int] = {}
        codes = [codes_of.setdefault(text.strip(), len(codes_of)) for text in fields]
        texts[name] = TextColumn(np.array(codes, np.int32), list(codes_of))
        if kind != "text":
            refuse_stray_text(file, name, texts[name])
    return Table(file, num_rows, numbers, texts, lists)


def _as_float32(file: TableFile, name: str, numbers: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # a comparison with NaN is False
        is_too_large = np.abs(numbers) > _MAX_FLOAT32
    if is_too_large.any():
        row = int(np.argmax(is_too_large))
        raise DataError(
            f"{file.place(row)}: expected a number of 32-bit floats in '{name}', found "
            f"{numbers[row]:g}.",
            hint="Correct it, or scale the column.",
        )
    return numbers.astype(np.float32)


def _are_lists(file: TableFile, name: str, fields: Fields) -> bool:
    """Whether the fields are lists; raises a DataError if some are and others are not."""
    is_list = [isinstance(field, list) for field in fields]
    if (not is_list[0]) in is_list:
        row = is_list.index(not is_list[0])
        expected, found = ("a list", "none") if is_list[0] else ("a value", "a list")
        raise DataError(
            f"{file.place(row)}: expected {expected} in '{name}' as in other rows, found {found}.",
            hint="Give each record a list, or each a single value.",
        )
    return is_list[0]


def _as_array(file: TableFile, name: str, row: int, field: List[Any]) -> np.ndarray:
    """A list of numbers as an array of integers or float32; inner lists give it more axes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old versions of numpy, on uneven inner lists
            array = np.array(field)
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "iuf" or not array.size:
        raise DataError(
            f"{file.place(row)}: expected a list of numbers in '{name}', found "
            f"{shorten(str(field))}.",
            hint="Give one number or more, and inner lists of one length.",
        )
    if array.dtype.kind != "f":
        return array
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise DataError(
            f"{file.place(row)}: expected finite numbers in '{name}', found NaN or infinity.",
            hint="Repair or remove that record.",
        )
    return array


def refuse_stray_text(file: TableFile, name: str, column: TextColumn) -> None:
    """Raise a DataError that names the first text of a column of which most fields are numbers."""
    numbers = [parse_number(text) for text in column.values]
    has_comma = [_has_comma(text) for text in column.values]
    is_text = np.array([number is None for number in numbers])
    is_number = np.array([number is not None and number == number for number in numbers])
    is_number |= has_comma
    if is_text.any() and column.counts[is_number].sum() > column.counts[~is_number & is_text].sum():
        value = column.values[int(np.argmax(is_text))]
        refuse_text(file, name, value, column.row_of(value))


def _has_comma(text: str) -> bool:
    """Whether a text is a number but for commas."""
    return "," in text and parse_number(text.replace(",", "")) is not None


def refuse_text(file: TableFile, name: str, value: str, row: int) -> NoReturn:
    """Raise a DataError for a text in a column of numbers."""
    hint = f"Correct it, or leave the column out (--ignore-columns {name})."
    if _has_comma(value):
        hint = "Write numbers with a decimal point, and without a mark between thousands."
    raise DataError(
        f"{file.place(row)}: expected a number in '{name}', found '{shorten(value.strip())}'.",
        hint=hint,
    )


def parse_numbers(fields: Fields) -> Optional[np.ndarray]:
    """The numbers of fields, float64 [n], NaN where one is missing; None if one is no number."""
    try:
        numbers = np.array(list(map(float, fields)))
    except ValueError:
        values = [parse_number(text) for text in fields]
        return None if None in values else np.array(values, np.float64)
    text = "".join(fields)
    if "_" in text or not text.isascii():  # which Python allows in numbers
        return None
    return numbers


def parse_number(text: str) -> Optional[float]:
    """The number that a text is: NaN if it is missing, None if it is no number."""
    text = text.strip()
    try:
        return float(text) if "_" not in text and text.isascii() else None
    except ValueError:
        lower = text.lower()
        return _TRUTH.get(lower, float("nan") if lower in MISSING_NUMBERS else None)


def shorten(text: str, length: int = 40) -> str:
    """A text, cut off where it is long."""
    return text if len(text) <= length else text[: length - 3] + "..."
