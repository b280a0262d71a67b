"""Draws of numpy's and Python's global generators while a graph is built.

They are constants of the graph. So that a resume builds the same graph, the generators are seeded
from the run's seed for each build, and set back behind it; where a step draws, the run notes that
its numbers are the same in every step.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import random
import re
import sys
from typing import Any, Callable, Iterator, List, Tuple

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
    """Note if the hook that the block calls draws from a global generator.

    Args:
        plugins: of the run.
        hook: its name.
        note: called with one sentence.
    """
    before = _positions()
    yield
    place = _find_draw(plugins, hook) if _positions() != before else ""
    if place:  # else a library drew, Keras for a seed for example
        note(
            f"random numbers of numpy or Python in the hook '{hook}'{place} are drawn once, for "
            "all steps; use run.uniform, run.normal or run.dropout"
        )


def _positions() -> Tuple[Any, ...]:
    """What a draw changes in the states of the generators."""
    _, keys, position, *_ = np.random.get_state()
    return position, int(keys[0]), int(keys[-1]), hash(random.getstate())


def _find_draw(plugins: Plugins, hook: str) -> str:
    """` of plugin 'x' (file:line)` of the first draw in the source of the hook, else of its plugin;
    "" without one.
    """
    functions = plugins.hook_functions(hook)
    sources = [(each, _source_of(each.function)) for each in functions]
    sources += [(each, _source_of(sys.modules.get(each.function.__module__))) for each in functions]
    for function, (file, first, lines) in sources:
        for number, line in enumerate(lines):
            if _DRAW.search(line):
                return f" of plugin '{function.plugin.name}' ({file}:{first + number})"
    return ""


def _source_of(target: Any) -> Tuple[str, int, List[str]]:
    """File, number of the first line, and lines of a function or a module; no lines if unknown."""
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(target))
        return os.path.abspath(inspect.getsourcefile(target) or ""), max(first, 1), lines
    except (OSError, TypeError, ValueError):
        return "", 1, []
