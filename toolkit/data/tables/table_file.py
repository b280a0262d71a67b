"""Read a file as a table: CSV, by pandas, or JSON lines; plain or compressed by gzip.

A place in an error message is `FILE: row N`, counted from 1, without the header and empty lines.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import zlib
from typing import IO, Any, Dict, Iterator, List, Sequence

from ...errors import DataError, join_names
from ..images.image_file import file_endings
from .columns import TableColumn

TABLE_ENDINGS = tuple(
    ending + suffix for ending in (".csv", ".tsv", ".jsonl", ".ndjson") for suffix in ("", ".gz")
)
_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\Z", re.IGNORECASE)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape for half a character of UTF-16
_HEAD = 1 << 16  # bytes that tell what a file is
_GZIP = b"\x1f\x8b"
_OTHER_FORMATS = (
    (b"PK\x03\x04", "an Excel workbook or another zip file"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook"),
    (b"PAR1", "a Parquet file"),
)
_AS_CSV = "Save it as CSV with a header, in UTF-8."


def read_table(path: str) -> Dict[str, TableColumn]:
    """The columns of a table, by the names in the header, or by the keys of the first JSON record.

    Raises a DataError if the file is no table, its columns have no names or equal ones, it has no
    rows, or a row has more fields than the header.
    """
    with _open_text(path) as stream:
        first = next((line for line in iter(stream.readline, "") if line.strip()), "")
        start = first.lstrip()[:1]
        if not start:
            raise DataError(f"{path}: expected a table, found an empty file.", hint=_AS_CSV)
        if start == "[" and "{" in first:
            raise DataError(
                f"{path}: expected one JSON object per line, found a list.",
                hint="Write each record on a line of its own (pandas: orient='records', "
                "lines=True).",
            )
        delimiter = max(_DELIMITERS, key=re.sub('"[^"]*"', "", first).count)
        if first.lower().startswith("sep="):  # from Excel; the header is in the next line
            delimiter = first.rstrip("\r\n")[4:5] or ","
        else:
            stream.seek(0)
        is_json = start == "{"
        fields = _read_json(path, stream) if is_json else _read_csv(path, stream, delimiter)
    if not len(next(iter(fields.values()))):
        raise DataError(
            f"{path}: expected rows below the header, found none.",
            hint="Give one row or more for each example.",
        )
    return {name: TableColumn(path, name, fields[name]) for name in fields}


@contextlib.contextmanager
def _open_text(path: str) -> Iterator[IO[str]]:
    """The text of a file, which is read part by part: a table is in memory once, as its fields.

    The ends of its lines are unchanged but for those of old Macintoshes.
    """
    if not os.path.isfile(path):
        found = "a folder" if os.path.isdir(path) else "no such file"
        hint = "Name a file in it." if os.path.isdir(path) else _AS_CSV
        raise DataError(f"{path}: expected a table, found {found}.", hint=hint)
    with open(path, "rb") as raw:
        is_gzip = raw.read(2) == _GZIP
    encoding = "utf-8"
    try:
        with gzip.open(path, "rb") if is_gzip else open(path, "rb") as file:
            head = file.read(_HEAD)
            for magic, description in _OTHER_FORMATS:
                if head.startswith(magic):
                    raise DataError(f"{path}: expected a table, found {description}.", hint=_AS_CSV)
            if head.startswith((b"\xff\xfe", b"\xfe\xff")):
                encoding = "utf-16"
            elif b"\0" in head[:4096]:
                raise DataError(f"{path}: expected text, found null bytes.", hint=_AS_CSV)
            file.seek(0)
            codec = "utf-8-sig" if encoding == "utf-8" else encoding
            yield io.TextIOWrapper(file, codec, newline="" if b"\n" in head else None)
    except UnicodeError as error:
        raise DataError(
            f"{path}: expected text in {encoding.upper()}, found other bytes.",
            hint="Save the table in UTF-8 (iconv -f latin1 -t utf-8, or the dialog of a "
            "spreadsheet).",
        ) from error
    except (EOFError, OSError, zlib.error) as error:
        if not is_gzip:
            raise
        raise DataError(
            f"{path}: expected a gzip file, found {str(error).rstrip('.')}.",
            hint="The file is damaged; copy it again.",
        ) from error


# -------------------------------------------------------------------------------------------- CSV


def _read_csv(path: str, stream: IO[str], delimiter: str) -> Dict[str, List[str]]:
    """The fields of each column, by its name."""
    import pandas  # type: ignore[import-untyped]

    try:
        frame = pandas.read_csv(
            stream,
            sep=delimiter,
            header=None,
            dtype=object,
            keep_default_na=False,
            skipinitialspace=True,
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
    names, rows = [name.strip() for name in frame.iloc[0]], frame.iloc[1:]
    _check_header(path, names)
    rows = rows[(rows != "").any(axis=1)]  # without the empty lines of a spreadsheet
    return dict(zip(names, rows.to_numpy().T.tolist()))


def _check_header(path: str, names: Sequence[str]) -> None:
    """Refuse a header that is a row of values, or that lacks a name or has one twice."""
    if _look_like_values(names):
        raise DataError(
            f"{path}: expected the names of the columns in the first line, found values "
            f"({join_names([name[:40] for name in names])}).",
            hint="Write a first line with a name for each column.",
        )
    positions: Dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if not name and position > 1:
            raise DataError(
                f"{path}: column {position} of {len(names)} has no name.",
                hint="Name each column in the first line, or remove a delimiter at its end.",
            )
        first = positions.setdefault(name, position)
        if first < position:
            raise DataError(
                f"{path}: the columns {first} and {position} are both named '{name[:40]}'.",
                hint="Give each column a name of its own.",
            )


def _look_like_values(names: Sequence[str]) -> bool:
    """Whether a header has what is no name: an image, or fractions, equal or unordered numbers."""
    if any(name.lower().endswith(file_endings()) for name in names if "." in name):
        return True
    words = names[0].split() if len(names) == 1 else names  # values with spaces between them
    numbers = list(filter(_NUMBER.match, words))
    values = list(map(float, numbers))  # int refuses thousands of digits
    is_index = values == sorted(set(values)) and all(map(str.isdigit, numbers))
    return not is_index or (len(names) == 1 and bool(values))


# ------------------------------------------------------------------------------------- JSON lines


def _read_json(path: str, lines: IO[str]) -> Dict[str, List[Any]]:
    """The fields of each key, by its name: texts and lists."""
    columns: Dict[str, List[Any]] = {}
    for number, text in enumerate(filter(str.strip, lines), 1):
        try:
            record = json.loads(text)
            if _SURROGATE.search(text):  # one half of a pair of surrogates is no text
                json.dumps(record, ensure_ascii=False).encode("utf-8")
            if not isinstance(record, dict) or not record:
                raise ValueError(text.strip()[:40])
            columns = columns or {name: [] for name in record}
            for name in record:
                if name not in columns:
                    raise ValueError(f"the key '{name}', which the first row does not have")
            for name, fields in columns.items():
                value = record.get(name)
                if isinstance(value, dict):
                    raise ValueError(f"an object in '{name}'")
                is_list = isinstance(value, list)
                fields.append(value if is_list else "" if value is None else str(value))
        except (ValueError, RecursionError) as error:
            fault = f"a fault: {error.msg}" if isinstance(error, json.JSONDecodeError) else error
            raise DataError(
                f"{path}: row {number:,}: expected a JSON object with keys, found {fault}.",
                hint='Write one object per line, {"x": 1.5, "label": "cat"}, each with the same '
                "keys, null where there is no value.",
            ) from error
    return columns
