"""How many trials a study has, and roughly how long they take."""

from __future__ import annotations

from typing import List

from .definition import Definition
from .graph_check import Answer
from .halving import num_continuing
from .planning import rung_steps
from .sampler import batches

_END_SECS = 4.0  # of each process besides building graphs and training


def rung_counts(definition: Definition) -> List[int]:
    """Return how many configurations train up to each rung, if none fails."""
    counts = [0] * len(definition.rungs)
    for numbers in batches(definition):
        count = len(numbers)
        for rung in range(len(definition.rungs)):
            counts[rung] += count
            count = num_continuing(definition, count) if definition.reduction else count
    return counts


def count_results(definition: Definition) -> int:
    """Return how many trials there are: one per configuration, seed and rung, if none fails."""
    return sum(rung_counts(definition)) * len(definition.seeds)


def estimate_secs(definition: Definition, answer: Answer, workers: int) -> float:
    """Return the seconds that the study takes, if all configurations are as fast as one.

    Args:
        definition: of the study.
        answer: of the one that was timed.
        workers: trials at a time.
    """
    length = answer.total_steps
    if definition.budget.kind == "cpu_secs" and answer.cpu_secs_per_step:
        length = max(1, int(definition.budget.amount / answer.cpu_secs_per_step))
    secs, step = 0.0, 0
    for count, end in zip(rung_counts(definition), rung_steps(definition, length)):
        secs += count * ((end - step) * answer.secs_per_step + answer.start_secs + _END_SECS)
        step = end
    return secs * len(definition.seeds) / min(workers, definition.trials)


def describe_secs(seconds: float) -> str:
    """Return a time as a person says it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
