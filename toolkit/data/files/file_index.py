"""What is known of data files without reading them again: SHA-256, and the headers of images.

It stays in the folder `hashes` of the cache, a table of SQLite for each place that `--data` names.
A row is valid as long as size, time of modification and inode of the file are the same. A file that
was written within the last seconds is not entered: a later write could leave its time as it is.

Legend: M files.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import sqlite3
import time
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from ...files import sha256_of
from ..images.image_file import ImageHeader, read_header
from .cache import cache_folder
from .parallel import map_parallel

GROUP = "hashes"  # the folder in the cache
# Files of fewer bytes, and fewer files, are read again in no time.
SMALL_BYTES = 4 << 20
SMALL_COUNT = 200
_SETTLED = 2  # seconds after which a write has another time than one before
# Without waiting for the disk: a table that a crash damages costs only time.
_TABLES = """
PRAGMA synchronous = OFF;
PRAGMA journal_mode = MEMORY;
CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, size INT, time INT, inode INT, sha256 TEXT,
    width INT, height INT, is_grey INT, has_alpha INT, has_more_frames INT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS arrays (name TEXT PRIMARY KEY, content BLOB);
"""
_NO_STATE = (-1, -1, -1)
_NO_HEADER = (-1, -1, -1, -1, -1)

Row = Tuple[Any, ...]  # the SHA-256 of a file, and the five numbers of its header


class FileIndex:
    """SHA-256 and headers of the files of one data source, the file or folder that `--data` names;
    "" leaves nothing in the cache. A cache that cannot be read or written costs only time.
    """

    def __init__(self, place: str = ""):
        self._path = ""
        if place:
            root = os.path.abspath(place)
            name = re.sub(r"[^A-Za-z0-9_.-]+", "-", os.path.basename(root))[:40].lstrip(".-")
            digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
            group = os.path.join(cache_folder(), GROUP)
            self._path = os.path.join(group, f"{name or 'data'}-{digest}", "files.sqlite")

    def digests(self, paths: Sequence[str]) -> List[str]:
        """The SHA-256 of each file, hex digits. Raises an OSError if one cannot be read."""
        rows = self._rows(paths, lambda path: (sha256_of(path), *_NO_HEADER), needs_header=False)
        return [row[0] for row in rows]

    def describe_images(self, paths: Sequence[str]) -> Tuple[List[str], ImageHeader]:
        """The SHA-256 of each image file, hex digits, and the headers of all.

        Raises a DataError that names a file that is no image.
        """

        def read(path: str) -> Row:
            size, *flags = read_header(path)
            return (sha256_of(path), *size, *map(int, flags))

        rows = self._rows(paths, read, needs_header=True)
        headers = np.array([row[1:] for row in rows], np.int64).reshape(-1, 5)
        return [row[0] for row in rows], ImageHeader(headers[:, :2], *(headers[:, 2:] == 1).T)

    def remember(self, name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """An array that is a function of its name, which says what it depends on: computed once."""
        find = "SELECT content FROM arrays WHERE name = ?"
        row = self._use(lambda table: table.execute(find, [name]).fetchone())
        if row is not None:
            with contextlib.suppress(ValueError, EOFError):
                return np.load(io.BytesIO(row[0]), allow_pickle=False)
        array, content = compute(), io.BytesIO()
        np.save(content, array)
        store = "INSERT OR REPLACE INTO arrays VALUES (?, ?)"
        self._use(lambda table: table.execute(store, [name, content.getvalue()]), is_new=True)
        return array

    def _rows(self, paths: Sequence[str], read: Callable[[str], Row], needs_header: bool) -> Any:
        """The rows of files, in their order; `read` is called with the path of each new one."""
        started = time.time()
        states = [_state(path) for path in paths]
        rows: List[Optional[Row]] = [None] * len(paths)
        names = [os.fsencode(path) for path in paths]
        find = "SELECT * FROM files WHERE path = ?"
        known = self._use(lambda table: [table.execute(find, [n]).fetchone() for n in names]) or ()
        for number, row in enumerate(known):
            if row and row[1:4] == states[number] and (row[5] >= 0 or not needs_header):
                rows[number] = row[4:]
        missing = [number for number, row in enumerate(rows) if row is None]
        text = f"Reading {len(missing):,} files"
        results = map_parallel(lambda number: read(paths[number]), missing, text)
        for number, result in zip(missing, results):
            rows[number] = result
        is_large = len(paths) >= SMALL_COUNT or sum(state[0] for state in states) >= SMALL_BYTES
        if missing and is_large:
            new = [
                (names[number], *states[number], *row)
                for number, row in zip(missing, results)
                if states[number][1] < (started - _SETTLED) * 1e9  # else a write may not change it
                and _state(paths[number]) == states[number] != _NO_STATE
            ]

            def update(table: sqlite3.Connection) -> None:
                known = table.execute("SELECT path FROM files").fetchall()
                gone = [row for row in known if not os.path.lexists(row[0])]
                table.executemany("DELETE FROM files WHERE path = ?", gone)
                values = ", ".join("?" * 10)
                table.executemany(f"INSERT OR REPLACE INTO files VALUES ({values})", new)

            self._use(update, is_new=True)
        return rows

    def _use(self, action: Callable[[Any], Any], is_new: bool = False) -> Any:
        """What an action returns for the tables, in one transaction; None if they cannot be used.
        Only with `is_new` are they created."""
        if not self._path or not (is_new or os.path.exists(self._path)):
            return None
        with contextlib.suppress(OSError, sqlite3.Error):
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with contextlib.closing(sqlite3.connect(self._path)) as connection, connection:
                try:
                    connection.executescript(_TABLES)
                    return action(connection)
                except sqlite3.DatabaseError as error:
                    if type(error) is sqlite3.DatabaseError:  # others: in use, or a full disk
                        self.forget()
                    raise
        return None

    def forget(self) -> None:
        """Forget the files, which are then read again."""
        with contextlib.suppress(OSError):
            os.remove(self._path)


def _state(path: str) -> Tuple[int, int, int]:
    """Size, time of modification and inode, which change when a file is written or replaced.

    They are -1 if the file cannot be reached: reading it raises an error that names it.
    """
    try:
        state = os.stat(path)
    except OSError:
        return _NO_STATE
    return state.st_size, state.st_mtime_ns, state.st_ino & (2**63 - 1)
