"""The user's cache folder, hashes of files, and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from typing import Optional

_CHUNK = 1 << 20


def cache_folder(cache_dir: Optional[str] = None) -> str:
    """`cache_dir`, else the environment's TOOLKIT_CACHE, else the system's cache of the user."""
    chosen = cache_dir or os.environ.get("TOOLKIT_CACHE")
    if chosen:
        return os.path.expanduser(chosen)
    import pooch

    return str(pooch.os_cache("toolkit"))


def sha256_of(path: str) -> str:
    """The SHA-256 of a file, as 64 hex digits, read in chunks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def written_whole(path: str):
    """A temporary file beside `path`, open for writing; it becomes `path` when the block ends."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
