"""How many processes of pytest fit this machine."""

import os
from pathlib import Path

# Bytes: a worker 0.85e9 of its own, the process that it forks from 0.25e9, and some jobs.
MEMORY = 1.6e9
MOST = 8


def count_workers():
    """As many as cores, as far as the processor's quota and the free memory allow; at most 8."""
    cores = len(os.sched_getaffinity(0))
    return max(1, int(min(cores, MOST, cpu_quota() + 0.5, free_memory() / MEMORY)))


def cpu_quota(root="/sys/fs/cgroup"):
    """The cores that the control group of this process may use, infinite without a quota."""
    text = read(os.path.join(root, "cpu.max"))  # version 2: "150000 100000", "max 100000"
    if text is None:  # version 1
        quota = read(os.path.join(root, "cpu", "cpu.cfs_quota_us"))
        text = f"{quota or 'max'} {read(os.path.join(root, 'cpu', 'cpu.cfs_period_us')) or 1}"
    quota, period = text.split()
    return float("inf") if quota in ("max", "-1") else int(quota) / int(period)


def free_memory(meminfo="/proc/meminfo", root="/sys/fs/cgroup"):
    """Bytes that this process and its children may still use."""
    free = float("inf")
    for line in (read(meminfo) or "").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    for names in (
        ("memory.max", "memory.current"),  # version 2: "4000000000" or "max"
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),  # version 1
    ):
        limits = [(read(os.path.join(root, name)) or "max") for name in names]
        if "max" not in limits:
            free = min(free, int(limits[0]) - int(limits[1]))
    return free


def read(path):
    """The text of a file, or None where it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
