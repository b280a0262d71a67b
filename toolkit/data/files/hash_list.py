"""The SHA-256 of each file of a data set: one hash for many files, and a list of them in a file.

The list has the format of the command `sha256sum`, which can check it in the folder of the data
where no name has a line end or a backslash, which that command escapes.
"""

from __future__ import annotations

import hashlib
from typing import Dict, Mapping

from ...files import atomic_write

LIST_FILE = "data.sha256"  # in the folder of a run
ALL_FILES = "all files"  # the name of the one hash
_MAX_NAMES = 20


def summarize(hashes: Mapping[str, str]) -> Dict[str, str]:
    """The hashes by the names of the files, or one hash of them all if there are many.

    A summary is its own summary.
    """
    if len(hashes) <= _MAX_NAMES:
        return dict(hashes)
    return {ALL_FILES: hashlib.sha256(_format(hashes)).hexdigest()}


def is_long(hashes: Mapping[str, str]) -> bool:
    """Whether `summarize` leaves out the names of the files."""
    return len(hashes) > _MAX_NAMES


def write_list(path: str, hashes: Mapping[str, str]) -> None:
    """Write a line for each file."""
    with atomic_write(path) as file:
        file.write(_format(hashes))


def read_list(path: str) -> Dict[str, str]:
    """The inverse of `write_list`; {} if the file is missing or damaged."""
    try:
        with open(path, "rb") as file:
            lines = file.read().decode("utf-8", "surrogateescape").split("\n")[:-1]
    except (OSError, ValueError):
        return {}
    pairs = [line.partition("  ")[::2] for line in lines]
    return {name: digest for digest, name in pairs} if all(map(all, pairs)) else {}


def _format(hashes: Mapping[str, str]) -> bytes:
    text = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))
    return text.encode("utf-8", "surrogateescape")
