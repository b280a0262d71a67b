"""A pool of threads for work that releases Python's lock: reading, hashing and decoding files."""

from __future__ import annotations

import contextlib
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, List, Sequence

from ...display.waits import waiting

_MAX_THREADS = 32
_BATCH = 16  # items that a thread takes at once: passing around single ones takes longer


def map_parallel(function: Callable[[Any], Any], items: Sequence[Any], text: str = "") -> List[Any]:
    """The results of a function for each item, in their order, computed in several threads.

    An exception ends it: items that no thread has begun are left out. The function may not call
    `map_parallel`, whose threads would wait for each other. A text says what is done, if that may
    take seconds.
    """
    batches = [items[start : start + _BATCH] for start in range(0, len(items), _BATCH)]

    def work(part: Sequence[Any]) -> List[Any]:
        return [function(item) for item in part]

    results: List[Any] = []
    with waiting(text, len(items)) if text else contextlib.nullcontext() as wait:
        run = _pool(os.getpid()).map if len(batches) > 1 else map
        for part in run(work, batches):
            results += part
            if wait is not None:
                wait.show(len(results))
    return results


def count_cores() -> int:
    """The processors that this process may use, as TensorFlow counts them for its threads."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The pool of a process; a forked process has none of the threads of its parent."""
    return ThreadPoolExecutor(min(_MAX_THREADS, count_cores()), thread_name_prefix="toolkit-data")
