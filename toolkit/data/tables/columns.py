"""The columns of a table: numbers, texts or lists, by their values.

A column is one of numbers if each field is a number, True or False, or missing. Otherwise it is one
of texts, unless most of its fields are numbers: then one is wrong, and the table is refused.

Legend: N rows, n rows of a chunk, F columns of numbers.
"""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple

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
        positions: of the columns of numbers in `numbers`, by name.
        numbers: float32 [N, F], NaN where a field is missing.
        texts: the columns of texts by name.
        lists: the columns of a JSON table whose fields are lists, each [N] arrays, by name.
    """

    file: TableFile
    num_rows: int
    positions: Dict[str, int]
    numbers: np.ndarray
    texts: Dict[str, TextColumn]
    lists: Dict[str, List[np.ndarray]]

    def refuse_stray_text(self, name: str) -> None:
        """Raise a DataError if most fields of a column of texts are numbers."""
        refuse_stray_text(self.file, name, self.texts[name])

    def refuse_header(self, name: str) -> None:
        """Raise a DataError if the name of a column is one of its texts: it has no header."""
        column = self.texts[name]
        if name in column.values and not self.file.is_json:
            line = self.file.line_of(column.row_of(name))
            raise DataError(
                f"{self.file.path}: expected the names of the columns in the first line, found "
                f"'{shorten(name)}', which is a value in line {line}, too.",
                hint="Write a first line with a name for each column.",
            )


Block = Tuple[List[str], np.ndarray]  # the names of columns, and their numbers float32 [n, F]


def read_table(file: TableFile, kinds: Mapping[str, str]) -> Table:
    """Read the columns of a table.

    Args:
        file: the table.
        kinds: by name of a column: "text" or "number", whatever its fields look like, or "none" to
            leave it out. The fields of other columns decide.

    Raises:
        DataError: a field does not fit its column, or there are no rows.
    """
    builders = [_Builder(file, name, kinds.get(name, "")) for name in file.columns]
    blocks = []
    num_rows = 0
    for chunk in file.read_chunks():
        for builder, fields in zip(builders, chunk):
            builder.add(fields, num_rows)
        blocks.append(_stack(builders, file, num_rows))
        num_rows += len(chunk[0])
    if not num_rows:
        raise DataError(
            f"{file.path}: expected rows below the header, found none.",
            hint="Give one row or more for each example.",
        )
    return Table(
        file,
        num_rows,
        *_join_numbers(builders, blocks),
        {each.name: each.finish_texts() for each in builders if each.kind == "text"},
        {each.name: each.lists for each in builders if each.kind == "list"},
    )


def _stack(builders: Sequence[_Builder], file: TableFile, row: int) -> Block:
    """The numbers of the last chunk, which begins with a row."""
    chunks = {each.name: each.chunk for each in builders if each.chunk is not None}
    names = list(chunks)
    if not names:
        return [], np.empty((0, 0), np.float32)
    numbers = np.stack(list(chunks.values()), axis=1)
    with np.errstate(invalid="ignore"):  # a comparison with NaN is False
        is_too_large = np.abs(numbers) > _MAX_FLOAT32
    if is_too_large.any():
        position, column = np.argwhere(is_too_large)[0]
        raise DataError(
            f"{file.place(row + int(position))}: expected a number of 32-bit floats in "
            f"'{names[column]}', found {numbers[position, column]:g}.",
            hint="Correct it, or scale the column.",
        )
    return names, numbers.astype(np.float32)


def _join_numbers(
    builders: Sequence[_Builder], blocks: Sequence[Block]
) -> Tuple[Dict[str, int], np.ndarray]:
    """The positions of the columns of numbers, and their numbers [N, F]."""
    names = [each.name for each in builders if each.kind in ("number", "unknown")]
    positions = dict(zip(names, range(len(names))))
    if not names:
        return {}, np.empty((0, 0), np.float32)
    arrays = []
    for block_names, array in blocks:
        if len(block_names) > len(names):  # a column turned out to be one of texts
            array = array[:, [position for position, n in enumerate(block_names) if n in positions]]
        arrays.append(array)
    return positions, np.concatenate(arrays)


class _Builder:
    """Collects one column.

    Attributes:
        name: of the column.
        kind: "number", "text", "list", "none" (left out), or "unknown" while all fields are
            missing.
        chunk: the numbers of the last chunk, float64 [n]; None if it is no column of numbers.
        lists: of a column of lists.
    """

    def __init__(self, file: TableFile, name: str, kind: str):
        self.name = name
        self.kind = kind or "unknown"
        self.chunk: Optional[np.ndarray] = None
        self.lists: List[np.ndarray] = []
        self._file = file
        self._is_fixed = bool(kind)
        self._numbers: Dict[str, int] = {}  # the code of each text
        self._codes: List[np.ndarray] = []

    def add(self, fields: Fields, row: int) -> None:
        """Add the fields of a chunk, the first of which is in the row `row`."""
        self.chunk = None
        if self.kind == "none":
            return
        if self._file.is_json and self._are_lists(fields, row):
            self._add_lists(fields, row)
        elif self.kind == "text":
            self._add_texts(fields)
        else:
            self._add_numbers(fields, row)

    def _add_numbers(self, fields: Fields, row: int) -> None:
        numbers = parse_numbers(fields)
        if numbers is None:
            self._become_texts(fields, row)
            return
        self.chunk = numbers
        if self.kind == "unknown" and (numbers[0] == numbers[0] or not np.isnan(numbers).all()):
            self.kind = "number"

    def _become_texts(self, fields: Fields, row: int) -> None:
        """Make it a column of texts, if all fields before were missing."""
        if self.kind == "number":
            position = next(i for i, text in enumerate(fields) if parse_number(text) is None)
            refuse_text(self._file, self.name, fields[position], row + position)
        self.kind = "text"
        if row:
            self._codes.append(np.zeros(row, np.int32))
            self._numbers[""] = 0
        self._add_texts(fields)

    def _add_texts(self, fields: Fields) -> None:
        numbers = self._numbers
        codes = [numbers.setdefault(text.strip(), len(numbers)) for text in fields]
        self._codes.append(np.array(codes, np.int32))

    def finish_texts(self) -> TextColumn:
        """The texts, unless most of them are numbers."""
        column = TextColumn(np.concatenate(self._codes), list(self._numbers))
        if not self._is_fixed:
            refuse_stray_text(self._file, self.name, column)
        return column

    def _are_lists(self, fields: Fields, row: int) -> bool:
        """Whether the fields are lists; raises a DataError if some are and others are not."""
        is_list = [isinstance(field, list) for field in fields]
        is_undecided = row == 0 and self.kind in ("unknown", "text")
        are_lists = is_list[0] if is_undecided else self.kind == "list"
        if (not are_lists) in is_list:
            position = is_list.index(not are_lists)
            self._refuse_list(fields[position], row + position)
        return are_lists

    def _refuse_list(self, field: Any, row: int) -> NoReturn:
        expected, actual = ("a value", "a list") if isinstance(field, list) else ("a list", "none")
        raise DataError(
            f"{self._file.place(row)}: expected {expected} in '{self.name}' as in other rows, "
            f"found {actual}.",
            hint="Give each record a list, or each a single value.",
        )

    def _add_lists(self, fields: Fields, row: int) -> None:
        self.kind = "list"
        for position, field in enumerate(fields):
            self.lists.append(self._as_array(field, row + position))

    def _as_array(self, field: List[Any], row: int) -> np.ndarray:
        """A list of numbers as an array of integers or float32; inner lists give it more axes."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of old versions of numpy, on uneven inner lists
                array = np.array(field)
        except ValueError:
            array = np.array(None)
        if array.dtype.kind not in "iuf" or not array.size:
            raise DataError(
                f"{self._file.place(row)}: expected a list of numbers in '{self.name}', found "
                f"{shorten(str(field))}.",
                hint="Give one number or more, and inner lists of one length.",
            )
        if array.dtype.kind != "f":
            return array
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise DataError(
                f"{self._file.place(row)}: expected finite numbers in '{self.name}', found NaN or "
                "infinity.",
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
