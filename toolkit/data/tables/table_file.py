"""The fields of a table: CSV text, read by pandas, or JSON lines; plain or compressed by gzip.

A place in an error message is `FILE: row N`, counted from 1, without the header and empty lines.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import os
import re
import sys
import warnings
import zlib
from typing import IO, Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from ...errors import DataError
from ..images.image_file import file_endings

TABLE_ENDINGS = tuple(
    ending + suffix for ending in (".csv", ".tsv", ".jsonl", ".ndjson") for suffix in ("", ".gz")
)
_DELIMITERS = ",;\t|"
_MAX_LINE = 1 << 26  # characters of a header or a record
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape for half a character of UTF-16
_GZIP = b"\x1f\x8b"
_OTHER_FORMATS = (
    (b"PK\x03\x04", "an Excel workbook or another zip file"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"SQLite", "an SQLite database"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "an array of an .npy file"),
)
_AS_CSV = "Save it as CSV with a header, in UTF-8."

Fields = Sequence[Any]  # of one column: texts, and lists of a JSON table


class TableFile(NamedTuple):
    """A table whose header was read.

    Attributes:
        path: of the file.
        columns: the names in the header, or the keys of the first JSON record.
        delimiter: between the fields of a CSV file; "" for JSON lines.
        encoding: of the text.
    """

    path: str
    columns: Tuple[str, ...]
    delimiter: str
    encoding: str

    @property
    def is_json(self) -> bool:
        return not self.delimiter

    def place(self, row: int) -> str:
        """`FILE: row N` of a row, which is counted from 0."""
        return f"{self.path}: row {row + 1:,}"

    def read(self) -> Dict[str, Fields]:
        """The fields of each column by its name.

        Raises:
            DataError: a row has more fields than the header, or is no CSV or JSON. The fields that
                a row lacks at its end are empty.
        """
        if not self.is_json:
            with _read_text(self.path, self.encoding) as stream:
                self._refuse_long_rows(stream)
        with _read_text(self.path, self.encoding) as stream:
            return self._read_json(stream) if self.is_json else self._read_csv(stream)

    def _refuse_long_rows(self, stream: IO[str]) -> None:
        """Refuse a row with more fields than the header, which some versions of pandas cut off."""
        _read_header(stream, self.path)
        width, number = len(self.columns), 0
        limit = csv.field_size_limit(sys.maxsize)
        try:
            for row in csv.reader(stream, delimiter=self.delimiter, skipinitialspace=True):
                if any(row[width:]):
                    raise self._width_error(number, len(row))
                number += any(row)
        except csv.Error:
            pass  # pandas says what is wrong
        finally:
            csv.field_size_limit(limit)

    def _width_error(self, row: int, count: int) -> DataError:
        width = len(self.columns)
        return DataError(
            f"{self.place(row)}: expected {_count_fields(width)} as in the header, found "
            f"{_count_fields(count)}.",
            hint=f"Quote a field that contains {self.delimiter!r}.",
        )

    def _read_csv(self, stream: IO[str]) -> Dict[str, Fields]:
        import pandas  # type: ignore[import-untyped]

        _read_header(stream, self.path)
        has_returns = getattr(stream, "newlines", None) == "\r"  # old pandas has to be told
        try:
            with warnings.catch_warnings():  # of empty fields beyond the header
                warnings.simplefilter("ignore", pandas.errors.ParserWarning)
                frame = pandas.read_csv(
                    stream,
                    sep=self.delimiter,
                    header=None,
                    names=list(range(len(self.columns))),
                    index_col=False,
                    dtype=object,
                    keep_default_na=False,
                    skipinitialspace=True,
                    lineterminator="\r" if has_returns else None,
                )
        except pandas.errors.EmptyDataError:
            return dict.fromkeys(self.columns, ())
        except (pandas.errors.ParserError, OverflowError) as error:
            raise self._csv_error(str(error)) from error
        frame = frame[(frame != "").any(axis=1)]  # without the empty lines of a spreadsheet
        return {name: frame[number].tolist() for number, name in enumerate(self.columns)}

    def _csv_error(self, text: str) -> DataError:
        """The error of rows that pandas cannot read, by its message."""
        match = re.search(r"Expected \d+ fields in line (\d+), saw (\d+)", text)
        if match:
            return self._width_error(int(match.group(1)) - 1, int(match.group(2)))
        finding = "a quote that is not closed" if "EOF inside string" in text else text.strip(".")
        return DataError(
            f"{self.path}: expected rows of CSV, found {finding}.",
            hint="Close each quote, and write a quote within a quoted field twice.",
        )

    def _read_json(self, stream: IO[str]) -> Dict[str, Fields]:
        columns: Dict[str, List[Any]] = {name: [] for name in self.columns}
        for text in stream:
            if not text.strip():
                continue
            place = self.place(len(columns[self.columns[0]]))
            record = _read_record(place, text)
            unknown = [key for key in record if key not in columns]
            if unknown:
                raise DataError(
                    f"{place}: found the key '{unknown[0]}', which the first record does not have.",
                    hint="Give each record the same keys, null where there is no value.",
                )
            for name, fields in columns.items():
                fields.append(_as_field(place, name, record.get(name)))
        return dict(columns)


def _as_field(place: str, name: str, value: Any) -> Any:
    """A value of JSON as text, and null as empty text; a list remains one."""
    if isinstance(value, (str, list)):
        return value
    if isinstance(value, dict):
        raise DataError(
            f"{place}: expected a value or list in '{name}', found an object.",
            hint="Write its values as keys of the record.",
        )
    return "" if value is None else repr(value)


def open_table_file(path: str) -> TableFile:
    """Read the header of a table.

    Raises:
        DataError: the file is no table, or its columns have no names or equal ones.
    """
    encoding = _find_encoding(path)
    with _read_text(path, encoding) as stream:
        first = next((line for line in _lines(stream) if line.strip()), "")
    start = first.lstrip()[:1]
    if not start:
        raise DataError(f"{path}: expected a table, found an empty file.", hint=_AS_CSV)
    if start == "[" and "{" in first:
        raise DataError(
            f"{path}: expected one JSON object per line, found a list.",
            hint="Write each record on a line of its own (pandas: orient='records', lines=True).",
        )
    if start == "{":
        file = TableFile(path, tuple(_read_record(f"{path}: row 1", first)), "", encoding)
    else:
        with _read_text(path, encoding) as stream:
            file = TableFile(path, *_read_header(stream, path), encoding)
    _check_names(file)
    return file


def _lines(stream: IO[str]) -> Iterator[str]:
    return iter(lambda: stream.readline(_MAX_LINE), "")


def _read_header(stream: IO[str], path: str) -> Tuple[Tuple[str, ...], str]:
    """The names of the columns of CSV, and the delimiter; the stream is then at the first row."""
    delimiter = ""
    for line in _lines(stream):
        text = line.strip()
        if text.lower().startswith("sep=") and len(text) == 5 and not delimiter:  # from Excel
            delimiter = text[4]
        elif text:
            delimiter = delimiter or _find_delimiter(line)
            rest = itertools.chain([line], _lines(stream))
            reader = csv.reader(rest, delimiter=delimiter, skipinitialspace=True)
            try:
                return tuple(name.strip() for name in next(reader)), delimiter
            except csv.Error as error:
                finding = str(error).replace("'", "").strip(".")
                raise DataError(
                    f"{path}: expected a header of CSV, found {finding}.", hint=_AS_CSV
                ) from error
    raise DataError(f"{path}: expected the names of columns, found none.", hint=_AS_CSV)


def _find_delimiter(header: str) -> str:
    """The delimiter that divides a header into most fields."""
    counts = []
    for delimiter in _DELIMITERS:
        with contextlib.suppress(csv.Error, StopIteration):
            reader = csv.reader([header], delimiter=delimiter, skipinitialspace=True)
            counts.append((len(next(reader)), delimiter))
    return max(counts, key=lambda pair: pair[0])[1] if counts else ","


def _check_names(file: TableFile) -> None:
    """Refuse a header that is a row of values, or that has a name twice."""
    names = file.columns
    if not file.is_json and _look_like_values(names):
        raise DataError(
            f"{file.path}: expected the names of the columns in the first line, found values "
            f"({', '.join(name[:40] for name in names[:5])}{', ...' if len(names) > 5 else ''}).",
            hint="Write a first line with a name for each column.",
        )
    positions: Dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if name in positions and name:
            raise DataError(
                f"{file.path}: the columns {positions[name]} and {position} are both named "
                f"'{name[:40]}'.",
                hint="Give each column a name of its own.",
            )
        if not name and position > 1:
            raise DataError(
                f"{file.path}: column {position} of {len(names)} has no name.",
                hint="Name each column in the first line, or remove a delimiter at its end.",
            )
        positions[name] = position


def _look_like_values(names: Sequence[str]) -> bool:
    """Whether a header has what is no name: an image, or fractions, equal or unordered numbers."""
    if any(name.lower().endswith(file_endings()) for name in names if "." in name):
        return True
    words = names[0].split() if len(names) == 1 else names  # values with spaces between them
    numbers = [word for word in words if _is_number(word)]
    if any(not number.isdigit() for number in numbers):
        return True
    values = [float(number) for number in numbers]  # int refuses thousands of digits
    return values != sorted(set(values)) or (len(names) == 1 and bool(values))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower().strip("+-") not in ("nan", "inf", "infinity")


def _count_fields(count: int) -> str:
    return f"{count:,} field{'' if count == 1 else 's'}"


def _read_record(place: str, text: str) -> Dict[str, Any]:
    """The JSON object in a line."""
    try:
        record = json.loads(text, object_pairs_hook=_unique_keys)
        if _SURROGATE.search(text):  # one half of a pair of surrogates is no text
            json.dumps(record, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise DataError(
            f"{place}: expected a JSON object, found a fault: {reason}.",
            hint="Write one object per line.",
        ) from error
    if not isinstance(record, dict) or not record:
        raise DataError(
            f"{place}: expected a JSON object with keys, found {text.strip()[:40]}.",
            hint='Write one object per line: {"x": 1.5, "label": "cat"}.',
        )
    return record


def _unique_keys(pairs: Sequence[Tuple[str, Any]]) -> Dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key '{twice}' occurs twice")
    return record


# ------------------------------------------------------------------------------------------ bytes


@contextlib.contextmanager
def _open_bytes(path: str) -> Iterator[Any]:
    """The bytes of a file, unpacked if it is a gzip file."""
    with open(path, "rb") as file:
        is_packed = file.read(2) == _GZIP
        file.seek(0)
        if not is_packed:
            yield file
            return
        try:
            with gzip.open(file) as unpacked:
                yield unpacked
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"{path}: expected a gzip file, found {str(error).rstrip('.')}.",
                hint="The file is damaged; copy it again.",
            ) from error


@contextlib.contextmanager
def _read_text(path: str, encoding: str) -> Iterator[IO[str]]:
    """The text of a file, with the ends of its lines unchanged."""
    try:
        with _open_bytes(path) as file:
            yield io.TextIOWrapper(file, encoding=encoding, newline="")
    except UnicodeError as error:
        raise DataError(
            f"{path}: expected text in {encoding.replace('-sig', '').upper()}, found other bytes.",
            hint="Save the table in UTF-8 (iconv -f latin1 -t utf-8, or the dialog of a "
            "spreadsheet).",
        ) from error


def _find_encoding(path: str) -> str:
    """The encoding that a byte order mark names, or UTF-8."""
    if os.path.isdir(path):
        raise DataError(f"{path}: expected a table, found a folder.", hint="Name a file in it.")
    if not os.path.isfile(path):
        raise DataError(f"{path}: expected a table, found no such file.", hint=_AS_CSV)
    with _open_bytes(path) as file:
        start = file.read(4096)
    for magic, description in _OTHER_FORMATS:
        if start.startswith(magic):
            raise DataError(f"{path}: expected a table, found {description}.", hint=_AS_CSV)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in start:
        raise DataError(f"{path}: expected text, found null bytes.", hint=_AS_CSV)
    return "utf-8-sig"
