"""The fields of a table: CSV text, read by pandas, or JSON lines; plain or compressed by gzip.

A place in an error message is `FILE: row N`, counted from 1, without the header and empty lines.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import re
import zlib
from typing import IO, Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from ...errors import DataError
from ..images.image_file import file_endings

TABLE_ENDINGS = tuple(
    ending + suffix for ending in (".csv", ".tsv", ".jsonl", ".ndjson") for suffix in ("", ".gz")
)
_DELIMITERS = ",;\t|"
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
    """A table as it is written.

    Attributes:
        path: of the file.
        columns: the names in the header, or the keys of the first JSON record.
        fields: of each column by its name; those that a row lacks at its end are empty.
        is_json: whether it has JSON lines.
    """

    path: str
    columns: Tuple[str, ...]
    fields: Dict[str, Fields]
    is_json: bool

    def place(self, row: int) -> str:
        """`FILE: row N` of a row, which is counted from 0."""
        return f"{self.path}: row {row + 1:,}"


def read_table_file(path: str) -> TableFile:
    """Read a table.

    Raises:
        DataError: the file is no table, its columns have no names or equal ones, or a row has more
            fields than the header.
    """
    encoding = _find_encoding(path)
    with _read_text(path, encoding) as stream:
        first = next((line for line in stream if line.strip()), "")
        has_returns = getattr(stream, "newlines", None) == "\r"  # old pandas has to be told
    start = first.lstrip()[:1]
    if not start:
        raise DataError(f"{path}: expected a table, found an empty file.", hint=_AS_CSV)
    if start == "[" and "{" in first:
        raise DataError(
            f"{path}: expected one JSON object per line, found a list.",
            hint="Write each record on a line of its own (pandas: orient='records', lines=True).",
        )
    with _read_text(path, encoding) as stream:
        if start == "{":
            fields = _read_json(path, stream)
            return TableFile(path, tuple(fields), fields, True)
        delimiter = _find_delimiter(first)
        if first.lower().startswith("sep="):  # from Excel
            delimiter = first.strip()[4:5] or ","
            stream.readline()
        header, *columns = _read_csv(path, stream, delimiter, has_returns)
    _check_header(path, header)
    return TableFile(path, tuple(header), dict(zip(header, columns)), False)


def _read_csv(path: str, stream: IO[str], delimiter: str, has_returns: bool) -> List[List[str]]:
    """The names of the columns, and then the fields of each."""
    import pandas  # type: ignore[import-untyped]

    try:
        frame = pandas.read_csv(
            stream,
            sep=delimiter,
            header=None,
            dtype=object,
            keep_default_na=False,
            skipinitialspace=True,
            lineterminator="\r" if has_returns else None,
        )
    except pandas.errors.EmptyDataError as error:
        raise DataError(
            f"{path}: expected the names of columns, found none.", hint=_AS_CSV
        ) from error
    except (pandas.errors.ParserError, OverflowError) as error:
        text = str(error).strip().rstrip(".")
        match = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
        if match:
            width, line, count = match.groups()
            raise DataError(
                f"{path}: line {line}: expected as many fields as in the header ({width}), found "
                f"{count}.",
                hint=f"Quote a field that contains {delimiter!r}.",
            ) from error
        finding = "a quote that is not closed" if "EOF inside string" in text else text
        raise DataError(
            f"{path}: expected rows of CSV, found {finding}.",
            hint="Close each quote, and write a quote within a quoted field twice.",
        ) from error
    header, rows = [name.strip() for name in frame.iloc[0]], frame.iloc[1:]
    rows = rows[(rows != "").any(axis=1)]  # without the empty lines of a spreadsheet
    return [header, *rows.to_numpy().T.tolist()]


def _find_delimiter(header: str) -> str:
    """The delimiter that divides a header into most fields."""
    counts = []
    for delimiter in _DELIMITERS:
        with contextlib.suppress(csv.Error, StopIteration):
            reader = csv.reader([header], delimiter=delimiter, skipinitialspace=True)
            counts.append((len(next(reader)), delimiter))
    return max(counts, key=lambda pair: pair[0])[1] if counts else ","


def _check_header(path: str, names: Sequence[str]) -> None:
    """Refuse a header that is a row of values, or that has a name twice."""
    if _look_like_values(names):
        raise DataError(
            f"{path}: expected the names of the columns in the first line, found values "
            f"({', '.join(name[:40] for name in names[:5])}{', ...' if len(names) > 5 else ''}).",
            hint="Write a first line with a name for each column.",
        )
    positions: Dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if name in positions and name:
            raise DataError(
                f"{path}: the columns {positions[name]} and {position} are both named "
                f"'{name[:40]}'.",
                hint="Give each column a name of its own.",
            )
        if not name and position > 1:
            raise DataError(
                f"{path}: column {position} of {len(names)} has no name.",
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


def _read_json(path: str, stream: IO[str]) -> Dict[str, Fields]:
    columns: Dict[str, List[Any]] = {}
    for number, text in enumerate(filter(str.strip, stream), 1):
        place = f"{path}: row {number:,}"
        record = _read_record(place, text)
        columns = columns or {name: [] for name in record}
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
