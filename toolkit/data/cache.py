"""The folder of downloads and converted data."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, Optional

from ..errors import RetryError


def cache_folder(cache_dir: Optional[str] = None) -> str:
    """The path of the cache folder, which may not exist yet.

    It is `cache_dir`, or else the environment's TOOLKIT_CACHE, or else the user's cache folder.
    """
    folder = cache_dir or os.environ.get("TOOLKIT_CACHE")
    if folder:
        return os.path.expanduser(folder)
    import pooch

    return str(pooch.os_cache("toolkit"))


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
