"""The folder of downloads and converted data."""

from __future__ import annotations

import os
from typing import Optional


def cache_folder(cache_dir: Optional[str] = None) -> str:
    """The path of the cache folder, which may not exist yet.

    It is `cache_dir`, or else the environment's TOOLKIT_CACHE, or else the user's cache folder.
    """
    folder = cache_dir or os.environ.get("TOOLKIT_CACHE")
    if folder:
        return os.path.expanduser(folder)
    import pooch

    return str(pooch.os_cache("toolkit"))
