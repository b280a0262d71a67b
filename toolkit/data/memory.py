"""How much memory there is for data, asked before a compressed file is unpacked into it."""

from __future__ import annotations

from typing import Optional

from ..errors import DataError

# Where Linux says it: the machine, and the limit of a container (cgroups 2 and 1).
_MEMINFO = "/proc/meminfo"
_CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def check_memory(place: str, num_bytes: int) -> None:
    """Raise a DataError if data of this size does not fit in the available memory.

    Args:
        place: the file, for the message.
        num_bytes: of the data after unpacking.
    """
    available = available_memory()
    if available is not None and num_bytes > available:
        raise DataError(
            f"{place}: expected data that fits in memory, found {format_bytes(num_bytes)} where "
            f"{format_bytes(available)} are available.",
            hint="Use a part of it, or a machine with more memory.",
        )


def available_memory() -> Optional[int]:
    """The bytes that a process can still allocate; None where the system does not say."""
    limits = [_read_limit(path) for path in _CONTAINER_LIMITS] + [_read_available()]
    return min((limit for limit in limits if limit is not None), default=None)


def _read_limit(path: str) -> Optional[int]:
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
