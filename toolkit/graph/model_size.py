"""The size of a model, compared with the machine's memory before a session allocates it."""

from __future__ import annotations

import re
from typing import Any, Optional, Sequence

from ..errors import UsageError

# Where Linux says how much memory there is: the machine's, and the limits of containers (cgroups).
_MEMORY_FILES = (
    ("/proc/meminfo", r"MemAvailable:\s*(\d+) kB", 1024),
    ("/sys/fs/cgroup/memory.max", r"(\d+)", 1),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", r"(\d+)", 1),
)


def check_model_size(variables: Sequence[Any]) -> None:
    """Refuse variables that do not fit in the available memory. Raises UsageError, with their size
    and the largest of them.
    """
    sizes = {v: (v.shape.num_elements() or 0) * int(v.dtype.base_dtype.size) for v in variables}
    total, available = sum(sizes.values()), available_memory()
    if available is None or total <= available:
        return
    largest = max(variables, key=lambda v: sizes[v])
    raise UsageError(
        f"The model's variables and their slots take {total / 1e9:,.1f} GB, and "
        f"{available / 1e9:,.1f} GB are available: '{largest.op.name}' alone is "
        f"{largest.shape.as_list()}.",
        hint="Choose a smaller network.",
    )


def available_memory() -> Optional[int]:
    """The bytes that a process may have; None where the system does not say."""
    counts = []
    for path, pattern, unit in _MEMORY_FILES:
        try:
            with open(path) as file:
                match = re.search(pattern, file.read())
        except OSError:
            continue
        if match:
            counts.append(unit * int(match.group(1)))
    return min(counts, default=None)
