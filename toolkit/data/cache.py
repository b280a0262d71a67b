"""Where downloads and converted data are kept between runs."""

from __future__ import annotations

import os
from typing import Optional


def cache_folder(cache_dir: Optional[str] = None) -> str:
    """`cache_dir`, else the environment's TOOLKIT_CACHE, else the system's cache of the user."""
    chosen = cache_dir or os.environ.get("TOOLKIT_CACHE")
    if chosen:
        return os.path.expanduser(chosen)
    import pooch

    return str(pooch.os_cache("toolkit"))
