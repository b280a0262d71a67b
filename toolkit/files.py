"""Atomic and durable writes of files, their SHA-256, locks, and paths for TensorFlow."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import stat
import tempfile
from typing import IO, Any, Iterator, Set

TEMPORARY_PREFIX = ".writing-"  # of the names of files that are being written
_CHUNK = 1 << 20  # bytes
# What TensorFlow takes literally: without the characters of a pattern, and in UTF-8.
_PLAIN = re.compile(r"[^*?\[\]\\\ud800-\udfff]*", re.DOTALL)
_DESCRIPTORS = "/proc/self/fd"  # has a link to each open file; Linux only


def sha256_of(path: str) -> str:
    """The SHA-256 of a file, 64 hex digits. The file is read in chunks."""
    digest = hashlib.sha256()
    with open_regular_file(path) as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def open_regular_file(path: str) -> IO[bytes]:
    """Open a file to read its bytes, but no pipe or device, which may have no end: that raises an
    OSError, like a file that cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def hold(descriptor: int) -> int:
    """The descriptor of a lock, which a forked process closes: a worker that a plugin forks may
    outlive this one, and would keep the lock. To be closed by `release`.
    """
    _held.add(descriptor)
    return descriptor


def release(descriptor: int) -> None:
    """Close the descriptor of a lock, unless a fork has closed it, or it is none."""
    if descriptor in _held:
        _held.remove(descriptor)
        os.close(descriptor)


def _release_all() -> None:
    while _held:
        os.close(_held.pop())


_held: Set[int] = set()  # descriptors
os.register_at_fork(after_in_child=_release_all)


@contextlib.contextmanager
def atomic_write(path: str, durable: bool = False) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path`, which replaces `path` when the block ends.

    It has the permissions of a file that it replaces. If the block raises an exception, the
    temporary file is removed and `path` is unchanged.

    Args:
        path: the file to write; its folder is created if needed.
        durable: whether to flush the file and its folder to disk before returning.
    """
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, TEMPORARY_PREFIX + secrets.token_hex(8))
    descriptor = open_without_links(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with contextlib.suppress(OSError):  # what is replaced may be private
                os.fchmod(descriptor, stat.S_IMODE(os.stat(path).st_mode))
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if durable:
            sync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def open_without_links(path: str, flags: int) -> int:
    """Open a file as `os.open` does, but not through a symbolic link, which raises an OSError, too;
    return its descriptor.
    """
    try:
        return os.open(path, flags | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            error.strerror = f"{os.path.basename(path)} is a symbolic link"
        raise


def make_folders(path: str) -> None:
    """Create a folder and its missing parents, and wait until their names are on the disk."""
    missing = []
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    os.makedirs(path, exist_ok=True)
    for folder in reversed(missing):
        with contextlib.suppress(PermissionError):  # to read the parent, as creating does not
            sync(os.path.dirname(folder))


@contextlib.contextmanager
def plain_path(path: str) -> Iterator[str]:
    """Yield another path of a file, which TensorFlow takes literally. It is valid in the block.

    TensorFlow looks for a checkpoint as for a pattern, so it does not find one below a folder such
    as "lr[1]", and it refuses names that are not UTF-8. Only the folder's name is replaced.
    """
    folder, name = os.path.split(os.path.abspath(path))
    with plain_folder(folder) as plain:
        yield os.path.join(plain, name)


@contextlib.contextmanager
def plain_folder(path: str) -> Iterator[str]:
    """As `plain_path`, for an existing folder: the whole path is replaced, if it has to be."""
    if _PLAIN.fullmatch(path):
        yield path
    elif os.path.isdir(_DESCRIPTORS):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            yield os.path.join(_DESCRIPTORS, str(descriptor))
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory(prefix="toolkit-") as temporary:
            link = os.path.join(temporary, "folder")
            os.symlink(os.path.abspath(path), link)
            yield link


def sync(path: str) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of folders, which some file systems cannot flush
            raise
    finally:
        os.close(descriptor)


def write_json(path: str, values: Any) -> None:
    """Write values as JSON, atomically and durably."""
    with atomic_write(path, durable=True) as file:
        file.write((json.dumps(to_json_value(values), indent=2) + "\n").encode("utf-8"))


def to_json_value(value: Any) -> Any:
    """The value with None for non-finite floats, and Python's numbers for numpy scalars."""
    if isinstance(value, dict):
        return {key: to_json_value(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(part) for part in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float) and not (abs(value) < float("inf")):
        return None
    return value
