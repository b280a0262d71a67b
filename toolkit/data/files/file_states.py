"""Whether files change while they are read."""

from __future__ import annotations

import os
from typing import Iterable, List, NamedTuple, Optional

from ...errors import DataError

_AT_ONCE = 10000  # files that one look at the sizes of many checks


class FileState(NamedTuple):
    """What tells a file from the one that was there before."""

    size: int  # bytes
    inode: int
    mtime: int  # of the last change, in nanoseconds since the epoch


class FileStates:
    """The states of files when this object was created.

    Args:
        paths: of the files.
    """

    def __init__(self, paths: Iterable[str]):
        self._paths: List[str] = list(dict.fromkeys(paths))
        self._states = [file_state(path) for path in self._paths]
        self._next = 0

    def find_difference(self) -> Optional[str]:
        """The path of a file that has another state now, perhaps only another time."""
        for path, state in zip(self._paths, self._states):
            if file_state(path) != state:
                return path
        return None

    def find_change(self) -> Optional[str]:
        """The path of a file that certainly has another content now, though it can still be read.

        Another time alone may be a `touch`, and a removed file that is open can still be read. Of
        many files, each call checks some.
        """
        count = min(_AT_ONCE, len(self._paths))
        for number in range(self._next, self._next + count):
            place = number % len(self._paths)
            path, old = self._paths[place], self._states[place]
            new = file_state(path)
            if old and new and (old.size, old.inode) != (new.size, new.inode):
                return path
        self._next += count
        return None


def file_state(path: str) -> Optional[FileState]:
    """The state of a file; None if it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileState(status.st_size, status.st_ino, status.st_mtime_ns)


def change_error(path: str) -> DataError:
    """The error of a file that changed during training."""
    return DataError(
        f"{path} changed while it was read.",
        hint="Put the same file back, and continue with 'toolkit resume'.",
    )
