"""The folder of downloads and converted data, and its entries, each of which is built once.

An entry is a folder GROUP/NAME, named by all that its content depends on. What was built is in its
folder `content`, with the sizes of the files in `entry.json`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import warnings
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ...errors import DataError, RetryError, UsageError, suggest
from ...files import TEMPORARY_PREFIX, hold, release

# Folders of the cache with one folder for each entry.
GROUPS = ("arrays", "features", "hashes", "decoded", "records")
_SIZES = "entry.json"


class CacheEntry(NamedTuple):
    """A folder of the cache that can be removed: what it held is downloaded or computed again."""

    name: str  # its path in the cache folder
    num_bytes: int
    last_change: float  # in seconds since the epoch


def cache_folder() -> str:
    """The environment's TOOLKIT_CACHE, or else the user's cache folder; it may not exist yet."""
    folder = os.environ.get("TOOLKIT_CACHE")
    if folder:
        return os.path.expanduser(folder)
    import pooch

    return str(pooch.os_cache("toolkit"))


def list_entries(datasets: Mapping[str, Iterable[str]]) -> List[CacheEntry]:
    """What is in the cache, sorted by name. Files of anybody else in the folder are left out.

    `datasets` has the names of those that are downloaded, each with those of its files; a folder
    without any of them is somebody else's. Raises a DataError if the cache cannot be read.
    """
    root, entries = cache_folder(), []
    with translate_read_errors("The cache"):
        paths = [
            os.path.join(group, n) for group in GROUPS for n in _list(os.path.join(root, group))
        ]
        paths += [n for n, files in datasets.items() if {*files} & {*_list(os.path.join(root, n))}]
    for name in sorted(paths):
        num_bytes, times = 0, []
        for base, _, files in os.walk(os.path.join(root, name)):
            for path in (base, *(os.path.join(base, file) for file in files)):
                with contextlib.suppress(FileNotFoundError):  # another process removes it meanwhile
                    state = os.lstat(path)
                    num_bytes += 0 if path == base else state.st_size
                    times.append(state.st_mtime)
        if times:
            entries.append(CacheEntry(name, num_bytes, max(times)))
    return entries


def _list(folder: str) -> List[str]:
    """The names in a folder, which may not exist."""
    return os.listdir(folder) if os.path.isdir(folder) else []


def remove_entries(
    entries: Iterable[CacheEntry],
    names: Iterable[str],
    is_locked: Callable[[str], bool],
) -> Tuple[List[CacheEntry], List[CacheEntry]]:
    """Remove entries of the cache by their names; that of a group, "decoded", removes all it holds.
    Return those that are no longer there, and those that stay, in use.

    A folder stays that a process has locked: a run that trains there, or a download. Raises
    UsageError, and removes none, if there is no such entry; RetryError if the system refuses.
    """
    entry_of = {entry.name: entry for entry in entries}
    known = {*entry_of, *map(os.path.dirname, entry_of), *GROUPS} - {""}
    wanted = [name.rstrip("/") for name in names]
    for name in wanted:
        if name not in known:
            raise UsageError(f"The cache has no '{name}'.", hint=suggest(name, list(entry_of)))
    removed: List[CacheEntry] = []
    in_use: List[CacheEntry] = []
    for name, entry in entry_of.items():
        if name not in wanted and os.path.dirname(name) not in wanted:
            continue
        path = os.path.join(cache_folder(), name)
        is_used = is_locked(path)
        (in_use if is_used else removed).append(entry)
        if not is_used:
            with writing_to_cache():
                _remove(path)
    return removed, in_use


def _remove(path: str) -> None:
    """Remove a file or a folder; another process may remove it, too."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def free_bytes() -> int:
    """The bytes that can be written to the cache; 0 if the system does not say."""
    folder = os.path.abspath(cache_folder())
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def find_entry(group: str, name: str) -> Optional[str]:
    """The folder with the content of an entry; None if it is missing or damaged."""
    content = os.path.join(cache_folder(), group, name, "content")
    try:
        with open(os.path.join(content, _SIZES), encoding="utf-8") as file:
            is_intact = json.load(file) == _measure_files(content)
    except (OSError, ValueError):
        return None
    return content if is_intact else None


def open_entry(group: str, name: str, build: Callable[[str], None]) -> str:
    """The folder with the content of an entry, which is built first if it is missing or damaged.

    A second process that needs the same entry waits for it. The name says all that the content
    depends on, for instance by a hash. `build` writes the files into a new folder: it raises a
    DataError if it cannot read what they are made of; its OSErrors are taken as those of the cache.
    Raises RetryError if the cache cannot be written; nothing half-written stays.
    """
    content = find_entry(group, name)
    if content is not None:
        return content
    folder = os.path.join(cache_folder(), group, name)
    with one_process_at_a_time(folder) as is_locked:
        content = find_entry(group, name)  # another process may have built it until now
        if content is not None:
            return content
        content = os.path.join(folder, "content")
        with writing_to_cache():
            for left in os.listdir(folder) if is_locked else ():  # by a process that was killed
                _remove(os.path.join(folder, left))
            temporary = tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=folder)
            try:
                built = os.path.join(temporary, "content")
                os.mkdir(built)  # others may read it, as they may not a temporary folder
                build(built)
                sizes = _measure_files(built)
                with open(os.path.join(built, _SIZES), "w", encoding="utf-8") as file:
                    json.dump(sizes, file)
                if find_entry(group, name) is None:  # without locks it may be there
                    _remove(content)
                    os.rename(built, content)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    return content


def _measure_files(folder: str) -> Dict[str, int]:
    """The size of each file of an entry in bytes; 0 of a folder: a run has hashes of its own."""
    names = sorted(set(os.listdir(folder)) - {_SIZES})
    paths = {name: os.path.join(folder, name) for name in names}
    return {n: os.path.getsize(path) if os.path.isfile(path) else 0 for n, path in paths.items()}


@contextlib.contextmanager
def translate_read_errors(place: str = "The data") -> Iterator[None]:
    """Raise a DataError when the system fails to read data, or runs out of memory."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or place}: {error.strerror or error}.",
            hint="Check that it is there and may be read.",
        ) from error
    except MemoryError as error:
        raise DataError(
            f"{getattr(error, 'filename', place)}: expected data that fits in memory; the process "
            "may not have more.",
            hint="Free some memory or raise a limit on it (ulimit -v), or use a part of the data.",
        ) from error


@contextlib.contextmanager
def one_process_at_a_time(folder: str) -> Iterator[bool]:
    """Create a folder, wait until no other process writes into it, and let others wait.

    The block gets whether the folder is locked: without locks, others may write at the same time.
    """
    with writing_to_cache():
        os.makedirs(folder, exist_ok=True)
    descriptor, is_locked = hold(os.open(folder, os.O_RDONLY)), True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:  # of a file system without locks
            is_locked = False
            text = "processes that need the same data at once compute it several times"
            warnings.warn(f"The cache has no locks: {text}.", RuntimeWarning, stacklevel=3)
        yield is_locked
    finally:
        release(descriptor)


@contextlib.contextmanager
def writing_to_cache() -> Iterator[None]:
    """Raise a RetryError with the way out when the system refuses a write in the block."""
    try:
        yield
    except OSError as error:
        raise RetryError(
            f"The cache cannot be written: {error.filename or cache_folder()}: "
            f"{error.strerror or error}.",
            hint="Free some space there, or set TOOLKIT_CACHE to a folder that can be written.",
        ) from error
