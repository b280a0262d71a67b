"""Where the records of a study are: a file or a server, as `--storage` names it."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple, Optional

from ..errors import CheckpointError, UsageError
from ..files import write_json
from ..storage.manifest import read_json

JOURNAL, SQLITE, POSTGRESQL = "journal", "sqlite", "postgresql"  # kinds of places
JOURNAL_FILE = "study.journal"
PLACE_FILE = "storage.json"  # in the study's folder, if the records are elsewhere
NAME_IN_FILE = "study"  # of the study in a file, which has one alone
SQLITE_SUFFIXES = (".sqlite", ".sqlite3", ".db")
SQLITE_START = b"SQLite format 3\0"
JOURNAL_START = b'{"op_code"'
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+_.-]*)://")
_EXAMPLES = "postgresql://USER@HOST/DATABASE, sqlite:///FILE or a path"
_DRIVERS = ("psycopg2", "psycopg")


class Place(NamedTuple):
    """Where the records of a study are.

    Attributes:
        kind: JOURNAL, SQLITE or POSTGRESQL.
        address: the path of a file, or a URL with its password.
        text: the address without a password.
        study: the name of the study there.
    """

    kind: str
    address: str
    text: str
    study: str


def find_place(folder: str, storage: Optional[str] = None) -> Place:
    """Return where the records of the study in a folder are.

    Args:
        folder: of the study; it need not exist.
        storage: a file or a URL; None for that of the study, at first a journal in its folder.

    Raises:
        UsageError: the URL or the file is none for records, or the study has its records elsewhere.
        CheckpointError: the folder's note of its storage is damaged.
    """
    current = _read_place(folder)
    if storage is None:
        return current or _file_place(os.path.join(folder, JOURNAL_FILE))
    place = _parse(storage, folder)
    is_started = os.path.exists(os.path.join(folder, JOURNAL_FILE))
    if current is None and is_started:
        current = _file_place(os.path.join(folder, JOURNAL_FILE))
    if current is not None and not _is_same(current, place):
        raise UsageError(
            f"The study in {folder} has its records in {current.text}, not in {place.text}.",
            hint="Leave --storage out to continue it.",
        )
    return place if current is None else place._replace(study=current.study)


def write_place(folder: str, place: Place) -> None:
    """Note in the folder of a study where its records are, without a password."""
    path = os.path.join(folder, PLACE_FILE)
    is_inside = os.path.abspath(place.address) == os.path.abspath(
        os.path.join(folder, JOURNAL_FILE)
    )
    if not os.path.exists(path) and not (place.kind == JOURNAL and is_inside):
        write_json(path, {"storage": place.text, "study": place.study})


def _read_place(folder: str) -> Optional[Place]:
    path = os.path.join(folder, PLACE_FILE)
    if not os.path.lexists(path):
        return None
    values: Any = read_json(path)
    names = ("storage", "study")
    if not isinstance(values, dict) or not all(isinstance(values.get(n), str) for n in names):
        raise CheckpointError(f"{path} is not valid.", path=path)
    return _parse(values["storage"], folder)._replace(study=values["study"])


def _is_same(place: Place, other: Place) -> bool:
    if place.kind == POSTGRESQL or other.kind == POSTGRESQL:
        return place.text == other.text
    return os.path.realpath(place.address) == os.path.realpath(other.address)


def _parse(storage: str, folder: str) -> Place:
    if not storage.strip():
        raise UsageError("--storage is empty.", hint=f"Valid: {_EXAMPLES}.")
    scheme = _SCHEME.match(storage)
    if scheme is None:
        return _file_place(storage)
    dialect, _, driver = scheme.group(1).lower().partition("+")
    if dialect in ("postgresql", "postgres") and driver in ("", *_DRIVERS):
        return _postgresql_place(storage[scheme.end() :], driver or _DRIVERS[0], folder)
    if dialect == "sqlite" and not driver:
        return _sqlite_place(storage[scheme.end() :])
    raise UsageError(
        f"A study cannot keep its records in a storage of '{scheme.group(1)}://'.",
        hint=f"Valid: {_EXAMPLES}.",
    )


def _postgresql_place(rest: str, driver: str, folder: str) -> Place:
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(f"postgresql+{driver}://{rest}")
        if not url.database or rest.count("@") > 1:  # a part of a password would be the host
            raise ValueError
    except (ArgumentError, ValueError):  # their texts have the password
        raise UsageError(
            "The URL of --storage does not name a host and a database.",
            hint="Write postgresql://USER@HOST:PORT/DATABASE; in a password, '@' is %40 and '/' "
            "is %2F.",
        ) from None
    query = {n: v for n, v in url.query.items() if "password" not in n.lower()}
    public = URL.create(POSTGRESQL, url.username, None, url.host, url.port, url.database, query)
    study = os.path.basename(os.path.abspath(folder))
    address = url.render_as_string(hide_password=False)
    return Place(POSTGRESQL, address, public.render_as_string(hide_password=False), study)


def _sqlite_place(rest: str) -> Place:
    path = rest[1:].partition("?")[0]
    if not rest.startswith("/") or not path or path == ":memory:":
        raise UsageError(
            f"'sqlite://{rest}' names no file.",
            hint="Write sqlite:///FILE for a relative path, sqlite:////FILE for an absolute one.",
        )
    return _file_place(path)._replace(kind=SQLITE)


def _file_place(path: str) -> Place:
    """The place of a file: SQLite by its suffix or its contents, else a journal."""
    path = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(path):
        raise UsageError(f"--storage {path} is a folder.", hint=f"Valid: {_EXAMPLES}.")
    start = _read_start(path)
    is_sqlite = path.endswith(SQLITE_SUFFIXES) if not start else start == SQLITE_START
    if start and not is_sqlite and not start.startswith(JOURNAL_START):
        raise UsageError(
            f"{path} is neither a journal of a study nor an SQLite database.",
            hint="Name a new file, or one of a study.",
        )
    return Place(SQLITE if is_sqlite else JOURNAL, path, path, NAME_IN_FILE)


def _read_start(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_START))
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
