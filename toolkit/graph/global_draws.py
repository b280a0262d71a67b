"""Draws of numpy's and Python's global generators while a graph is built.

They are constants of the graph. So that a resume builds the same graph, the generators are seeded
from the run's seed for each build, and set back behind it; where a step draws, the run notes that
its numbers are the same in every step.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import re
import sys
from typing import Any, Callable, Iterator

import numpy as np

from ..plugins import Plugins

_DRAW = re.compile(r"\b(?:np|numpy)\.random\.\w|\brandom\.\w+\(")


@contextlib.contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """Seed the global generators in the block, and set them back behind it."""
    states = np.random.get_state(), random.getstate()
    np.random.seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])


@contextlib.contextmanager
def noted_draws(plugins: Plugins, hook: str, note: Callable[[str], None]) -> Iterator[None]:
    """Call `note` with one sentence if the hook that the block calls draws from a generator."""

    def positions() -> Any:
        _, keys, position, *_ = np.random.get_state()
        return position, int(keys[0]), int(keys[-1]), hash(random.getstate())

    before = positions()
    yield
    for function in [] if positions() == before else plugins.hook_functions(hook):
        with contextlib.suppress(OSError, TypeError):  # a module without a source
            source = inspect.getsource(sys.modules[function.function.__module__])
            if _DRAW.search(source):  # else a library drew, Keras for a seed for example
                note(
                    f"random numbers of numpy or Python in the hook '{hook}' of plugin "
                    f"'{function.plugin.name}' are drawn once, for all steps; use run.uniform, "
                    "run.normal or run.dropout"
                )
                return
