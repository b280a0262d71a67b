"""How many processes of pytest fit this machine."""

import os
from pathlib import Path

# Bytes: a worker 0.85e9 of its own, the process that it forks from 0.25e9, and some jobs.
MEMORY = 1.6e9
MOST = 8
GROUP = "/sys/fs/cgroup"  # the control group of this process, of version 2 or 1


def count_workers():
    """As many as cores, as far as the processor's quota and the free memory allow; at most 8."""
    cores = len(os.sched_getaffinity(0))
    return max(1, int(min(cores, MOST, cpu_quota() + 0.5, free_memory() / MEMORY)))


def cpu_quota():
    """The cores that this process may use, infinite without a quota."""
    old = f"{read(f'{GROUP}/cpu/cpu.cfs_quota_us')} {read(f'{GROUP}/cpu/cpu.cfs_period_us')}"
    quota, period = read(f"{GROUP}/cpu.max", old).split()  # "150000 100000", "max 100000"
    return float("inf") if quota in ("max", "-1") else int(quota) / int(period)


def free_memory():
    """Bytes that this process and its children may still use."""
    lines = read("/proc/meminfo").splitlines()
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for start, end in ("memory.", ""), ("memory/memory.", "_in_bytes"):
        limit = read(f"{GROUP}/{start}{'limit' if end else 'max'}{end}")
        usage = read(f"{GROUP}/{start}{'usage' if end else 'current'}{end}")
        free += [int(limit) - int(usage)] if "max" not in (limit, usage) else []
    return min(free, default=float("inf"))


def read(path, missing="max"):
    """The text of a file, or another where it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return missing
