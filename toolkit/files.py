"""Files that appear whole or not at all, are durable where that is asked for, and have a hash."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from typing import Any

TEMPORARY_PREFIX = ".writing-"  # how the names of files begin that are being written
_CHUNK = 1 << 20


def sha256_of(path: str) -> str:
    """The SHA-256 of a file, as 64 hex digits, read in chunks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def atomic_write(path: str, durable: bool = False):
    """A temporary file beside `path`, open for writing; it becomes `path` when the block ends.

    durable: it is on the disk, not only in the system's memory, before anything after it happens.
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
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        if durable:
            sync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync(path: str) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: str, values: Any) -> None:
    """Write durably: a reader, and a kill, sees the old file or the new one, whole."""
    with atomic_write(path, durable=True) as file:
        file.write((json.dumps(to_json_value(values), indent=2) + "\n").encode("utf-8"))


def to_json_value(value: Any) -> Any:
    """The value with every non-finite float replaced by None, and numpy scalars by Python's."""
    if isinstance(value, dict):
        return {key: to_json_value(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(part) for part in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float) and not (abs(value) < float("inf")):
        return None
    return value
