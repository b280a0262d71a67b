"""The fields of a table: CSV text or JSON lines, plain or compressed by gzip.

A file is read in chunks of rows. A place in an error message is `FILE:LINE`, with the line as an
editor shows it.
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
import zlib
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, NoReturn, Sequence, Tuple

from ...errors import DataError
from ..images.image_file import file_endings

TABLE_ENDINGS = tuple(
    ending + suffix for ending in (".csv", ".tsv", ".jsonl", ".ndjson") for suffix in ("", ".gz")
)
_DELIMITERS = ",;\t|"
_CELLS = 1 << 20  # of a chunk
_MAX_FIELD = 1 << 23  # characters; a quote that is not closed must not fill the memory
_MAX_LINE = 1 << 26  # characters; likewise
_MAX_RATIO = 200  # of characters to bytes of the file: no real table repeats itself so often
_SMALL = 1 << 28  # characters that every file may unpack to
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

Fields = Sequence[Any]  # of one column in a chunk: texts, and lists of a JSON table


class TableFile(NamedTuple):
    """A table whose header was read.

    Attributes:
        path: of the file.
        columns: the names in the header, or the keys of the first JSON record.
        delimiter: between the fields of a CSV file; "" for JSON lines.
        encoding: of the text.
        header_lines: before the first row of a CSV file.
    """

    path: str
    columns: Tuple[str, ...]
    delimiter: str
    encoding: str
    header_lines: int

    @property
    def is_json(self) -> bool:
        return not self.delimiter

    def read_chunks(self) -> Iterator[List[Fields]]:
        """The fields of each column, for one chunk of rows after the other.

        Raises:
            DataError: a row has more or fewer fields than the header, or is no CSV or JSON.
        """
        rows = (row for _, row in self._rows())
        num_rows = max(1, _CELLS // len(self.columns))
        while True:
            chunk = list(itertools.islice(rows, num_rows))
            if not chunk:
                return
            yield list(zip(*chunk))

    def line_of(self, row: int) -> int:
        """The line on which a row begins, from 1. It reads the file again."""
        return next(itertools.islice(self._rows(), row, None))[0]

    def place(self, row: int) -> str:
        """`FILE:LINE` of a row."""
        return f"{self.path}:{self.line_of(row)}"

    def _rows(self) -> Iterator[Tuple[int, Fields]]:
        """The line on which each row begins, and its fields."""
        with _read_text(self.path, self.encoding) as stream:
            yield from self._json_rows(stream) if self.is_json else self._csv_rows(stream)

    def _csv_rows(self, stream: Any) -> Iterator[Tuple[int, Fields]]:
        for _ in range(self.header_lines):
            next(stream, None)
        reader = _csv_reader(stream, self.delimiter)
        width, line = len(self.columns), self.header_lines + 1
        try:
            for row in reader:
                if len(row) == width:
                    if any(row):  # not an empty line of a spreadsheet
                        yield line, row
                elif "".join(row).strip():
                    self._refuse_width(line, len(row))
                line = self.header_lines + reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{self.path}:{line}: expected a row of CSV, found {_csv_fault(error)}.",
                hint="Close each quote, and write a quote within a quoted field twice.",
            ) from error

    def _refuse_width(self, line: int, count: int) -> NoReturn:
        raise DataError(
            f"{self.path}:{line}: expected {_count_fields(len(self.columns))} as in the header, "
            f"found {_count_fields(count)}.",
            hint=f"Quote a field that contains {self.delimiter!r}.",
        )

    def _json_rows(self, stream: Any) -> Iterator[Tuple[int, Fields]]:
        known = set(self.columns)
        for line, text in enumerate(stream, 1):
            if not text.strip():
                continue
            record = _read_record(f"{self.path}:{line}", text)
            unknown = [key for key in record if key not in known]
            if unknown:
                raise DataError(
                    f"{self.path}:{line}: found the key '{unknown[0]}', which the first record "
                    "does not have.",
                    hint="Give each record the same keys, null where there is no value.",
                )
            yield line, [self._as_field(line, name, record.get(name)) for name in self.columns]

    def _as_field(self, line: int, name: str, value: Any) -> Any:
        """A value of JSON as text, and null as empty text; a list remains one."""
        if isinstance(value, (str, list)):
            return value
        if isinstance(value, dict):
            raise DataError(
                f"{self.path}:{line}: expected a value or list in '{name}', found an object.",
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
        first = next((line for line in stream if line.strip()), "")
    start = first.lstrip()[:1]
    if not start:
        raise DataError(f"{path}: expected a table, found an empty file.", hint=_AS_CSV)
    if start == "{":
        columns = tuple(_read_first_record(path, encoding))
        file = TableFile(path, columns, "", encoding, 0)
    elif start == "[" and "{" in first:
        raise DataError(
            f"{path}: expected one JSON object per line, found a list.",
            hint="Write each record on a line of its own (pandas: orient='records', lines=True).",
        )
    else:
        file = _read_csv_header(path, encoding)
    _check_names(file)
    return file


def _read_csv_header(path: str, encoding: str) -> TableFile:
    with _read_text(path, encoding) as stream:
        lines, skipped = iter(stream), 0
        first = next(lines)
        delimiter = _find_delimiter(first)
        if first.strip().lower().startswith("sep=") and len(first.strip()) == 5:  # from Excel
            delimiter, skipped = first.strip()[4], 1
            first = next(lines, "")
        while not first.strip():
            skipped, first = skipped + 1, next(lines)
            delimiter = _find_delimiter(first)
        reader = _csv_reader(itertools.chain([first], lines), delimiter)
        try:
            header = next(reader)
        except csv.Error as error:
            raise DataError(
                f"{path}: expected a header of CSV, found {_csv_fault(error)}.", hint=_AS_CSV
            ) from error
        columns = tuple(name.strip() for name in header)
        return TableFile(path, columns, delimiter, encoding, skipped + reader.line_num)


def _find_delimiter(header: str) -> str:
    """The delimiter that divides a header into most fields."""
    counts = []
    for delimiter in _DELIMITERS:
        with contextlib.suppress(csv.Error, StopIteration):
            counts.append((len(next(_csv_reader([header], delimiter, strict=False))), delimiter))
    return max(counts, key=lambda pair: pair[0])[1] if counts else ","


def _csv_reader(lines: Iterable[str], delimiter: str, strict: bool = True) -> Any:
    return csv.reader(lines, delimiter=delimiter, strict=strict, skipinitialspace=True)


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


def _csv_fault(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end" in text:
        return "a quote that is not closed"
    if "field larger" in text:
        return f"a field of more than {_MAX_FIELD:,} characters"
    if "NUL" in text or "null byte" in text:
        return "a null byte"
    return text.replace("'", "").strip(".")


# -------------------------------------------------------------------------------------- JSON lines


def _read_first_record(path: str, encoding: str) -> Dict[str, Any]:
    with _read_text(path, encoding) as stream:
        for line, text in enumerate(stream, 1):
            if text.strip():
                return _read_record(f"{path}:{line}", text)
    return {}


def _read_record(place: str, text: str) -> Dict[str, Any]:
    """The JSON object in a line."""
    try:
        record = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise DataError(
            f"{place}: expected a JSON object, found a fault: {reason}.",
            hint="Write one object per line.",
        ) from error
    if _SURROGATE.search(text):
        _refuse_half_characters(place, record)
    if not isinstance(record, dict) or not record:
        raise DataError(
            f"{place}: expected a JSON object with keys, found {text.strip()[:40]}.",
            hint='Write one object per line: {"x": 1.5, "label": "cat"}.',
        )
    return record


def _refuse_half_characters(place: str, record: Any) -> None:
    """Raise a DataError if JSON escapes one half of a pair of surrogates, which is no text."""
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        raise DataError(
            f"{place}: expected text, found \\u{code:04x}, which is half a character.",
            hint="Write the character as UTF-8, or both of its halves.",
        ) from error


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
def _read_text(path: str, encoding: str) -> Iterator[Any]:
    """The lines of a file, with their ends unchanged."""
    previous = csv.field_size_limit(_MAX_FIELD)
    try:
        with _open_bytes(path) as file:
            stream = io.TextIOWrapper(file, encoding=encoding, newline="")
            yield _read_lines(stream, path)
    except UnicodeError as error:
        raise DataError(
            f"{path}:{_find_undecodable_line(path, encoding)}: expected text in "
            f"{encoding.replace('-sig', '').upper()}, found other bytes.",
            hint="Save the table in UTF-8 (iconv -f latin1 -t utf-8, or the dialog of a "
            "spreadsheet).",
        ) from error
    finally:
        csv.field_size_limit(previous)


def _read_lines(stream: Any, path: str) -> Iterator[str]:
    """The lines of a text; raises a DataError if one line or all of them are too long."""
    rest = max(_SMALL, _MAX_RATIO * os.path.getsize(path))
    for number, line in enumerate(iter(lambda: stream.readline(_MAX_LINE), ""), 1):
        rest -= len(line)
        if rest < 0:
            raise DataError(
                f"{path}:{number}: expected a table, found a file that unpacks to more than "
                f"{_MAX_RATIO} times its size.",
                hint="If it is a table, unpack it first.",
            )
        if len(line) == _MAX_LINE:
            raise DataError(
                f"{path}:{number}: expected a line of fewer than {_MAX_LINE:,} characters, found "
                "a longer one.",
                hint="Write a line for each example.",
            )
        yield line


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


def _find_undecodable_line(path: str, encoding: str) -> int:
    """The first line of a file that is not in its encoding; of UTF-16, the last line."""
    count = 0
    with _open_bytes(path) as file:
        for line in file:
            count += 1
            if encoding == "utf-8-sig" and _is_undecodable(line):
                break
    return count


def _is_undecodable(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeError:
        return True
    return False
