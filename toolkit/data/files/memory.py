"""How much memory there is for data, asked before a compressed file is unpacked into it."""

from __future__ import annotations

import os
from typing import Dict, NamedTuple, Optional

from ...errors import DataError


class _Container(NamedTuple):
    """Where Linux says how much memory a container has."""

    folder: str
    limit: str  # the file with the limit in bytes
    usage: str  # the file with the bytes in use, among them the cache of files
    cache: str  # the row of memory.stat with the bytes of the cache that can be freed


# Where Linux says it: the machine, and containers (cgroups 2 and 1).
_MEMINFO = "/proc/meminfo"
_CONTAINERS = (
    _Container("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    _Container(
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def check_memory(place: str, num_bytes: int) -> None:
    """Raise a DataError if data of this size does not fit in the available memory.

    Args:
        place: the file, for the message.
        num_bytes: of the data after unpacking.
    """
    if not fits_in_memory(num_bytes):
        raise DataError(
            f"{place}: expected data that fits in memory, found {format_bytes(num_bytes)} where "
            f"{format_bytes(available_memory() or 0)} are available.",
            hint="Use a part of it, or a machine with more memory.",
        )


def fits_in_memory(num_bytes: int) -> bool:
    """Whether so many bytes can be allocated, as far as the system says."""
    available = available_memory()
    return available is None or num_bytes <= available


def available_memory() -> Optional[int]:
    """The bytes that a process can still allocate; None where the system does not say."""
    counts = [_read_remainder(container) for container in _CONTAINERS] + [_read_available()]
    return min((count for count in counts if count is not None), default=None)


def _read_remainder(container: _Container) -> Optional[int]:
    """The bytes that a container has left; None if it has no limit."""
    limit = _read_number(os.path.join(container.folder, container.limit))
    if limit is None:
        return None
    usage = _read_number(os.path.join(container.folder, container.usage)) or 0
    rows = _read_rows(os.path.join(container.folder, "memory.stat"))
    cache = rows.get(container.cache, 0)
    return max(0, limit - max(0, usage - cache))


def _read_rows(path: str) -> Dict[str, int]:
    """The numbers of a file with a name and a number in each line; {} if it cannot be read."""
    try:
        with open(path) as file:
            return {name: int(number) for name, number in map(str.split, file)}
    except (OSError, ValueError):
        return {}


def _read_number(path: str) -> Optional[int]:
    """The number in a file; None if there is none, as in a container without a limit."""
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _read_available() -> Optional[int]:
    try:
        with open(_MEMINFO) as file:
            rows = dict(line.split(":", 1) for line in file if ":" in line)
        return int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return None


def format_bytes(count: int) -> str:
    """A size with its unit: 120 bytes, 1.5 MB, 12.0 GB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,} bytes"
