"""Atomic and durable writes of files, their SHA-256, and their paths for TensorFlow."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from typing import IO, Any, Iterator

TEMPORARY_PREFIX = ".writing-"  # of the names of files that are being written
_CHUNK = 1 << 20  # bytes
_PATTERN = re.compile(r"[*?\[\]\\]")  # the characters of a pattern, for TensorFlow
_DESCRIPTORS = "/proc/self/fd"  # has a link to each open file; Linux only


def sha256_of(path: str) -> str:
    """The SHA-256 of a file, 64 hex digits. The file is read in chunks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def atomic_write(path: str, durable: bool = False) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path`, which replaces `path` when the block ends.

    If the block raises an exception, the temporary file is removed and `path` is unchanged.

    Args:
        path: the file to write; its folder is created if needed.
        durable: whether to flush the file and its folder to disk before returning.
    """
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=TEMPORARY_PREFIX)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp denies access to others
        os.replace(temporary, path)
        if durable:
            sync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)  # the only way to read it
    os.umask(mask)
    return mask


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
    if _is_plain(path):
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


def _is_plain(path: str) -> bool:
    """Whether TensorFlow takes a path literally."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return not _PATTERN.search(path)


def sync(path: str) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
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
