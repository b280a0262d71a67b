"""Where the records of a study are: in a file, of its folder or as `--storage` names it."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple, Optional

from ..errors import CheckpointError, UsageError
from ..files import write_json
from ..storage.jsonl import read_json

JOURNAL, SQLITE = "journal", "sqlite"  # kinds of places
JOURNAL_FILE = "study.journal"
PLACE_FILE = "storage.json"  # in the study's folder, if the records are elsewhere
SQLITE_SUFFIXES = (".sqlite", ".sqlite3", ".db")
SQLITE_START = b"SQLite format 3\0"
JOURNAL_START = b'{"op_code"'
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+_.-]*)://")
_HINT = "Name a file, for instance shared.journal or shared.sqlite on a disk that machines share."


class Place(NamedTuple):
    """Where the records of a study are.

    Attributes:
        kind: JOURNAL or SQLITE.
        path: of the file.
    """

    kind: str
    path: str


def find_place(folder: str, storage: Optional[str] = None) -> Place:
    """Return where the records of the study in a folder are.

    Args:
        folder: of the study; it need not exist.
        storage: a file; None for that of the study, at first a journal in its folder.

    Raises:
        UsageError: the file is none for records, or the study has its records elsewhere.
        CheckpointError: the folder's note of its storage is damaged.
    """
    current = _read_place(folder)
    if storage is None:
        return current or _file_place(os.path.join(folder, JOURNAL_FILE))
    place = _parse(storage)
    is_started = os.path.exists(os.path.join(folder, JOURNAL_FILE))
    if current is None and is_started:
        current = _file_place(os.path.join(folder, JOURNAL_FILE))
    if current is not None and os.path.realpath(current.path) != os.path.realpath(place.path):
        raise UsageError(
            f"The study in {folder} has its records in {current.path}, not in {place.path}.",
            hint="Leave --storage out to continue it.",
        )
    return place


def write_place(folder: str, place: Place) -> None:
    """Note in the folder of a study where its records are."""
    path = os.path.join(folder, PLACE_FILE)
    is_inside = os.path.abspath(place.path) == os.path.abspath(os.path.join(folder, JOURNAL_FILE))
    if not os.path.exists(path) and not (place.kind == JOURNAL and is_inside):
        write_json(path, {"storage": place.path})


def _read_place(folder: str) -> Optional[Place]:
    path = os.path.join(folder, PLACE_FILE)
    if not os.path.lexists(path):
        return None
    values: Any = read_json(path)
    if not isinstance(values, dict) or not isinstance(values.get("storage"), str):
        raise CheckpointError(f"{path} is not valid.", path=path)
    return _parse(values["storage"])


def _parse(storage: str) -> Place:
    if not storage.strip():
        raise UsageError("--storage is empty.", hint=_HINT)
    scheme = _SCHEME.match(storage)
    if scheme is not None:  # what follows may have a password
        raise UsageError(
            f"A study is a folder and keeps its records in a file, not in '{scheme.group()}'.",
            hint=_HINT,
        )
    return _file_place(storage)


def _file_place(path: str) -> Place:
    """The place of a file: SQLite by its suffix or its contents, else a journal."""
    path = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(path):
        raise UsageError(f"--storage {path} is a folder.", hint=_HINT)
    start = _read_start(path)
    is_sqlite = path.endswith(SQLITE_SUFFIXES) if not start else start == SQLITE_START
    if start and not is_sqlite and not start.startswith(JOURNAL_START):
        raise UsageError(
            f"{path} is neither a journal of a study nor an SQLite database.",
            hint="Name a new file, or one of a study.",
        )
    return Place(SQLITE if is_sqlite else JOURNAL, path)


def _read_start(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_START))
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
