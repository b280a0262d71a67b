"""Atomic and durable writes of files, and their SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from typing import IO, Any, Iterator

TEMPORARY_PREFIX = ".writing-"  # of the names of files that are being written
_CHUNK = 1 << 20  # bytes


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
