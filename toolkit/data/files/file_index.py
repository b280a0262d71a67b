"""What is known of data files without reading them again: SHA-256, and the headers of images.

It stays in the folder `hashes` of the cache, for each place that `--data` names. An entry is valid
as long as size, time of modification and inode of the file are the same. A file that was written
within the last seconds is not entered: a later write could leave its time as it is.

Legend: M files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...files import atomic_write, sha256_of
from ..images.image_file import read_header
from .cache import cache_folder
from .parallel import map_parallel

GROUP = "hashes"  # the folder in the cache
# Files of fewer bytes, and fewer files, are read again in no time.
SMALL_BYTES = 4 << 20
SMALL_COUNT = 200
_SETTLED = 2  # seconds after which a write has another time than one before
_FORMAT = 2
_BATCH = 16  # files that a thread reads before it takes the next ones
_MIN_ENTRIES = 100  # that always have room in a table
_HEADER = slice(3, 8)  # of the numbers of an entry; the first three are its state
_NO_STATE = (-1, -1, -1)
_NO_HEADER = (-1, -1, -1, -1, -1)


class ImageTable(NamedTuple):
    """What is known of M image files.

    Attributes:
        digests: SHA-256 of each file, hex digits.
        sizes: (width, height) of each image, upright, int64 [M, 2].
        is_grey: of each image, bool [M].
        has_alpha: whether pixels of the image can be transparent, bool [M].
        has_more_frames: whether frames or pages follow the first one, bool [M].
    """

    digests: List[str]
    sizes: np.ndarray
    is_grey: np.ndarray
    has_alpha: np.ndarray
    has_more_frames: np.ndarray


class FileIndex:
    """SHA-256 and headers of the files of one data source.

    A cache that cannot be read or written costs only time.

    Args:
        place: the file or folder that `--data` names; "" leaves nothing in the cache.
        cache_dir: the cache folder; None for the default.
        is_fresh: whether to read all files again.
    """

    def __init__(self, place: str = "", cache_dir: Optional[str] = None, is_fresh: bool = False):
        self._place = place
        self._folder = _entry_folder(os.path.abspath(place), cache_dir) if place else ""
        self._is_fresh = is_fresh
        self._table: Optional[_Table] = None

    def digests(self, paths: Sequence[str]) -> List[str]:
        """The SHA-256 of each file, hex digits.

        Raises:
            OSError: a file cannot be read.
        """
        return self._entries(paths, _read_digest, needs_header=False).list_digests()

    def describe_images(self, paths: Sequence[str]) -> ImageTable:
        """The SHA-256 and the header of each image file.

        Raises:
            DataError: a file is no image; the message names it.
        """
        entries = self._entries(paths, _read_image, needs_header=True)
        headers = entries.numbers[:, _HEADER]
        flags = headers[:, 2:] == 1
        return ImageTable(entries.list_digests(), headers[:, :2], *flags.T)

    def load(self, name: str) -> Optional[np.ndarray]:
        """An array that `save` stored under a name; None if there is none."""
        if not self._folder or self._is_fresh:
            return None
        try:
            array = np.load(os.path.join(self._folder, name + ".npy"), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return array if isinstance(array, np.ndarray) else None

    def save(self, name: str, array: np.ndarray) -> None:
        """Store an array, which is a function of the contents of the files and of its name."""
        with contextlib.suppress(OSError):
            if self._folder:
                with atomic_write(os.path.join(self._folder, name + ".npy")) as file:
                    np.save(file, array)

    def _entries(self, paths: Sequence[str], read: Callable, needs_header: bool) -> _Table:
        """The entries of files, in their order; `read` is called with the path of each new one."""
        table = self._load_table()
        names = [self._name(path) for path in paths]
        rows = np.array([table.rows.get(name, -1) for name in names], np.int64)
        numbers = np.full((len(paths), 8), -1, np.int64)
        digests = np.zeros(len(paths), "S64")
        started = time.time()
        numbers[:, :3] = np.array([_state(path) for path in paths]).reshape(-1, 3)
        is_known = rows >= 0
        if is_known.any():
            before = table.numbers[rows]
            is_known &= (before[:, :3] == numbers[:, :3]).all(axis=1)
            if needs_header:
                is_known &= before[:, 3] >= 0
            numbers[is_known, _HEADER] = before[is_known, _HEADER]
            digests[is_known] = table.digests[rows[is_known]]
        missing = np.flatnonzero(~is_known).tolist()
        text = f"Reading {len(missing):,} files"
        results = map_parallel(lambda row: read(paths[row]), missing, _BATCH, text)
        if results:
            digests[missing] = [digest for digest, _ in results]
            numbers[missing, _HEADER] = [header for _, header in results]
            is_settled = np.ones(len(paths), bool)
            is_settled[missing] = [
                _is_settled(paths[row], tuple(numbers[row, :3]), started) for row in missing
            ]
            self._store(names, numbers, digests, is_settled)
        return _Table(names, numbers, digests)

    def _name(self, path: str) -> str:
        """The name of a file's entry: its path, below the place if it is there; never empty."""
        if self._place and path.startswith(self._place):
            return path[len(self._place) :] or os.path.basename(path)
        return os.path.abspath(path)

    def _load_table(self) -> _Table:
        if self._table is None:
            is_used = self._folder and not self._is_fresh
            self._table = _Table.load(self._table_path) if is_used else _Table.empty()
        return self._table

    def _store(
        self, names: List[str], numbers: np.ndarray, digests: np.ndarray, is_valid: np.ndarray
    ) -> None:
        """Enter files; entries of other files stay, unless there are many of them."""
        table = self._load_table()
        has_room = len(table.rows) < 2 * len(names) + _MIN_ENTRIES
        others = sorted(set(table.rows) - set(names)) if has_room else []
        rows = [table.rows[name] for name in others]
        valid = np.flatnonzero(is_valid)
        self._table = _Table(
            others + [names[row] for row in valid],
            np.concatenate([table.numbers[rows], numbers[valid]]),
            np.concatenate([table.digests[rows], digests[valid]]),
        )
        is_large = numbers[:, 0].sum() >= SMALL_BYTES or len(names) >= SMALL_COUNT
        with contextlib.suppress(OSError):
            if self._folder and is_large:
                self._table.save(self._table_path)

    @property
    def _table_path(self) -> str:
        return os.path.join(self._folder, "table.npz")


class _Table:
    """Entries of M files.

    Args:
        names: of the entries, [M].
        numbers: int64 [M, 8]: size, time of modification in ns, inode; width, height, is grey, has
            alpha, has more frames (-1 where the header is not known).
        digests: S64 [M].
    """

    def __init__(self, names: List[str], numbers: np.ndarray, digests: np.ndarray):
        self.rows: Dict[str, int] = dict(zip(names, range(len(names))))
        self.numbers = numbers
        self.digests = digests

    @classmethod
    def empty(cls) -> _Table:
        return cls([], np.zeros((0, 8), np.int64), np.zeros(0, "S64"))

    @classmethod
    def load(cls, path: str) -> _Table:
        """The table in a file; an empty one if the file is missing or damaged."""
        try:
            # numpy leaves a file open that it opens itself, and that is no archive.
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                blob, numbers, digests = (arrays[key] for key in ("names", "numbers", "digests"))
                is_current = int(arrays["format"]) == _FORMAT
        except Exception:  # damaged bytes can make zipfile and numpy raise anything
            return cls.empty()
        names = blob.tobytes().decode("utf-8", "surrogateescape").split("\0") if blob.size else []
        is_intact = numbers.shape == (len(names), 8) and digests.shape == (len(names),)
        is_intact &= numbers.dtype == np.int64 and digests.dtype == np.dtype("S64")
        return cls(names, numbers, digests) if is_current and is_intact else cls.empty()

    def save(self, path: str) -> None:
        blob = "\0".join(self.rows).encode("utf-8", "surrogateescape")
        with atomic_write(path) as file:
            np.savez(
                file,
                names=np.frombuffer(blob, np.uint8),
                numbers=self.numbers,
                digests=self.digests,
                format=_FORMAT,
            )

    def list_digests(self) -> List[str]:
        return np.char.decode(self.digests, "ascii").tolist()


def _entry_folder(root: str, cache_dir: Optional[str]) -> str:
    """The folder of a place in the cache; its name begins as that of the place."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", os.path.basename(root))[:40].lstrip(".-") or "data"
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    return os.path.join(cache_folder(cache_dir), GROUP, f"{name}-{digest}")


def _state(path: str) -> Tuple[int, int, int]:
    """Size, time of modification and inode, which change when a file is written or replaced.

    They are -1 if the file cannot be reached: reading it raises an error that names it.
    """
    try:
        state = os.stat(path)
    except OSError:
        return _NO_STATE
    return state.st_size, state.st_mtime_ns, state.st_ino & (2**63 - 1)


def _is_settled(path: str, state: Tuple[int, ...], started: float) -> bool:
    """Whether a later write to the file would change its state, which it had before it was read."""
    return state[1] < (started - _SETTLED) * 1e9 and _state(path) == state != _NO_STATE


def _read_digest(path: str) -> Tuple[str, Sequence[int]]:
    return sha256_of(path), _NO_HEADER


def _read_image(path: str) -> Tuple[str, Sequence[int]]:
    header: Any = read_header(path)
    return sha256_of(path), tuple(int(value) for value in header)
