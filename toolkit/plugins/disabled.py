"""Plugins and commands that the user disabled: installed, but neither loaded nor in conflict.

The user's state folder has their names in a file, one a line: NAME, or NAME@DISTRIBUTION for that
of one distribution alone.
"""

from __future__ import annotations

import os
from typing import Iterable, List

from ..files import atomic_write
from . import trust


def list_path() -> str:
    """The file of the names; "" without a home folder."""
    record = trust.record_path()
    return os.path.join(os.path.dirname(record), "disabled-plugins.txt") if record else ""


def read_names() -> List[str]:
    """The names that are disabled, in their order; none if there is no such file."""
    try:
        with open(list_path(), encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    except (OSError, ValueError):  # also for the path ""
        return []


def write_names(names: Iterable[str]) -> None:
    """Replace the names that are disabled.

    Raises:
        OSError: the file cannot be written.
    """
    path = list_path()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with atomic_write(path) as file:
        file.write("".join(f"{name}\n" for name in sorted(set(names))).encode("utf-8"))


def is_disabled(name: str, distribution: str) -> bool:
    """Whether a plugin or command is disabled, by its name or by that of its distribution, too."""
    return bool({name, f"{name}@{distribution}"} & set(read_names()))
