"""Fix the entropy of Python: every seed that would come from the system comes from the run's.

Patched before the script runs: `random.seed()`, and in `numpy.random` `seed()`, `default_rng()`,
`RandomState()`, and `random.Random()` without a seed get the next of a series. Both
global generators are seeded at the start. All is put back when the script has ended.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from multiprocessing import process
from typing import Any

import numpy as np

from .patches import Patches


def fix_entropy(patches: Patches, seed: int) -> None:
    """Seed the generators of Python and numpy with that of the run, and patch what seeds them."""
    numbers = itertools.count()
    patches.replace(process, "_process_counter", itertools.count(1))  # workers count from here

    def next_seed() -> int:
        worker = process.current_process()._identity  # (), or (2,) in the second worker
        text = " ".join(map(str, (seed, "entropy", *worker, next(numbers)))).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:4], "little")

    random.seed(next_seed())
    np.random.seed(next_seed())

    def seeded(original: Any, value: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(next_seed() if value is None else value, *args, **kwargs)

    for module, name in ((random, "seed"), (np.random, "seed"), (np.random, "default_rng")):
        patches.wrap(module, name, seeded)
    for module, name in ((np.random, "RandomState"), (random, "Random")):
        patches.replace(module, name, _seeded_class(getattr(module, name), next_seed))


def _seeded_class(cls: Any, next_seed: Any) -> Any:
    """A subclass whose instances without a seed get the next one."""

    class Seeded(cls):
        def __init__(self, seed: Any = None):
            super().__init__(next_seed() if seed is None else seed)

    Seeded.__name__ = Seeded.__qualname__ = cls.__name__
    Seeded.__module__ = cls.__module__
    return Seeded


def digest_of_generators() -> str:
    """16 hex digits that identify the state of both global generators."""
    kind, keys, *rest = np.random.get_state()
    digest = hashlib.sha256(repr((random.getstate(), kind, rest)).encode("utf-8"))
    digest.update(np.asarray(keys).tobytes())
    return digest.hexdigest()[:16]
