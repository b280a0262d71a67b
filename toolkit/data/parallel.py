"""A pool of threads for work that releases Python's lock: reading, hashing and decoding files."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, List, Sequence

_MAX_THREADS = 32


def map_parallel(function: Callable[[Any], Any], items: Sequence[Any]) -> List[Any]:
    """The results of a function for each item, in their order, computed in several threads.

    An exception ends it: items that no thread has begun are left out. The function may not call
    `map_parallel`, whose threads would wait for each other.
    """
    return list(iterate_parallel(function, items))


def iterate_parallel(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """As `map_parallel`, one result after the other, as soon as it is there."""
    if len(items) < 2:
        return map(function, items)
    return _pool(os.getpid()).map(function, items)


def num_threads() -> int:
    """How many threads work at once: the processors that this process may use."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        count = os.cpu_count() or 1
    return min(_MAX_THREADS, count)


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The pool of a process; a forked process has none of the threads of its parent."""
    return ThreadPoolExecutor(num_threads(), thread_name_prefix="toolkit-data")
