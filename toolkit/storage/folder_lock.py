"""The lock of a folder, which one process has at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Iterator

from ..files import hold, open_without_links, release

LOCK = ".lock"
_PATIENCE_SECS = 0.3  # `is_locked` of another process locks the folder for less than that


class FolderLock:
    """Locks a folder for this process until it ends, in whatever way.

    The folder itself is locked, so that nobody unlocks it by deleting a file, and the file .lock in
    it, for file systems that lock files alone. Where it `is_effective`, the file system has locks;
    without them, any process can lock it.
    """

    def __init__(self, path: str):
        self._path = path
        self._folder = -1  # a descriptor, like the next one; -1: not open
        self._file = -1
        self._is_folder_locked = False
        self.is_effective = False

    def acquire(self) -> None:
        """Lock the folder; create the file .lock if need be. Raises BlockingIOError if another
        process has locked it, OSError if it cannot be opened.
        """
        try:
            self._folder = hold(os.open(self._path, os.O_RDONLY))
            self._is_folder_locked = _wait_for_lock(self._folder)
            path = os.path.join(self._path, LOCK)
            self._file = hold(open_without_links(path, os.O_RDWR | os.O_CREAT))
            self.is_effective = _wait_for_lock(self._file) or self._is_folder_locked
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Unlock the folder."""
        release(self._file)
        release(self._folder)
        self._file = self._folder = -1

    def is_in_place(self) -> bool:
        """Whether the locked folder is still at its path, and no other process can lock it."""
        pairs = [(self._folder, self._path)]
        if not self._is_folder_locked:
            pairs.append((self._file, os.path.join(self._path, LOCK)))
        try:
            return all(
                os.path.samestat(os.fstat(descriptor), os.stat(path)) for descriptor, path in pairs
            )
        except OSError:
            return False


def is_locked(path: str) -> bool:
    """Whether a process has locked a folder."""
    for each in (path, os.path.join(path, LOCK)):
        try:
            descriptor = os.open(each, os.O_RDONLY | os.O_NONBLOCK)  # in its place may be a pipe
        except OSError:  # there is no such file, or it may not be read
            continue
        try:
            _lock(descriptor, is_shared=True)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


@contextlib.contextmanager
def lock_file(path: str) -> Iterator[int]:
    """Lock a file, which is created if it does not exist, for the time of the block, which gets its
    descriptor: a process that inherits it keeps the lock if this one dies. Raises BlockingIOError
    if another process does not unlock it, OSError if it cannot be opened to write.
    """
    descriptor = open_without_links(path, os.O_RDWR | os.O_CREAT)
    try:
        has_lock = _wait_for_lock(descriptor)
        yield descriptor
        if has_lock:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # also for what has got the descriptor
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int) -> bool:
    """Lock an open file as `_lock` does, and wait a moment for a process that only tries it."""
    end = time.monotonic() + _PATIENCE_SECS
    while True:
        try:
            return _lock(descriptor)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(_PATIENCE_SECS / 30)


def _lock(descriptor: int, is_shared: bool = False) -> bool:
    """Lock an open file; False if its file system has no locks."""
    mode = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # ENOTSUP, ENOLCK, or on NFS EBADF for a folder
        return False
    return True
