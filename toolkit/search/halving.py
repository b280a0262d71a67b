"""Which trials of a cohort are due: a function of the definition and of results, and nothing else.

A *cohort* is a set of configurations that halving compares: they all train up to the first rung,
and the best 1/reduction of them up to the next one. A rung is decided when the cohort has all of
its results, so that the decision does not depend on who trained what and when.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .definition import FINISHED, PAUSED, STOPPED, Definition, TrialResult

Key = Tuple[int, int, int]  # configuration, seed, rung
Results = Mapping[Key, TrialResult]


class Standing(NamedTuple):
    """How far a configuration has come.

    Attributes:
        rung: the last one for which it has all results.
        value: the mean of the metric over the seeds at this rung; None if a seed failed.
        is_stopped: whether others of its cohort were better at this rung.
    """

    rung: int
    value: Optional[float]
    is_stopped: bool


def due_keys(definition: Definition, cohort: Sequence[int], results: Results) -> List[Key]:
    """Return the trials of a cohort that can be trained now; none if it is complete.

    Args:
        definition: of the study.
        cohort: the numbers of its configurations.
        results: all results so far.
    """
    for rung, members in enumerate(_members(definition, cohort, results)):
        keys = [(number, seed, rung) for number in members for seed in definition.seeds]
        due = [key for key in keys if key not in results]
        if due:
            return due
    return []


def standings(
    definition: Definition, cohort: Sequence[int], results: Results
) -> Dict[int, Standing]:
    """Return the standing of each configuration of a cohort that has all results of a rung."""
    by_number: Dict[int, Standing] = {}
    members = _members(definition, cohort, results)
    for rung, numbers in enumerate(members):
        for number in numbers:
            if _has_results(definition, number, rung, results):
                is_stopped = rung + 1 < len(members) and number not in members[rung + 1]
                value = mean_value(definition, number, rung, results)
                by_number[number] = Standing(rung, value, is_stopped)
    return by_number


def final_results(
    definition: Definition, cohort: Sequence[int], results: Results
) -> List[TrialResult]:
    """Return the last result of each trial, by configuration and seed.

    Those of configurations that others have beaten at a rung have the status STOPPED.
    """
    members = _members(definition, cohort, results)
    rows = []
    for number in cohort:
        for seed in definition.seeds:
            rungs = [rung for rung in range(len(members)) if (number, seed, rung) in results]
            if rungs:
                result = results[number, seed, rungs[-1]]
                rows.append(_with_stop(definition, result, members, results))
    return rows


def mean_value(definition: Definition, number: int, rung: int, results: Results) -> Optional[float]:
    """Return the mean of the metric over the seeds; None if a trial has failed or has no value."""
    values = []
    for seed in definition.seeds:
        result = results[number, seed, rung]
        if result.status not in (FINISHED, PAUSED) or result.value is None:
            return None
        values.append(result.value)
    return sum(values) / len(values)


def num_continuing(definition: Definition, count: int) -> int:
    """Return how many of `count` configurations of a rung continue, if so many have a value."""
    return max(1, count // definition.reduction)


def _members(
    definition: Definition, cohort: Sequence[int], results: Results
) -> List[Sequence[int]]:
    """The configurations of each rung, up to the first rung that is not decided."""
    members: List[Sequence[int]] = [cohort]
    while len(members) < len(definition.rungs):
        rung = len(members) - 1
        if not all(_has_results(definition, n, rung, results) for n in members[-1]):
            break
        members.append(_best(definition, members[-1], rung, results))
    return members


def _best(definition: Definition, numbers: Sequence[int], rung: int, results: Results) -> List[int]:
    """The configurations that continue after a rung, in order of their numbers."""
    sign = 1 if definition.direction == "min" else -1
    ranks = []
    for number in numbers:
        value = mean_value(definition, number, rung, results)
        if value is not None:
            ranks.append((sign * value, number))
    return sorted(n for _, n in sorted(ranks)[: num_continuing(definition, len(numbers))])


def _has_results(definition: Definition, number: int, rung: int, results: Results) -> bool:
    return all((number, seed, rung) in results for seed in definition.seeds)


def _with_stop(
    definition: Definition,
    result: TrialResult,
    members: Sequence[Sequence[int]],
    results: Results,
) -> TrialResult:
    """The result as a stopped one, if its configuration does not continue after its rung."""
    rung, number = result.rung, result.configuration
    is_decided = rung + 1 < len(members)
    if result.status != PAUSED or not is_decided or number in members[rung + 1]:
        return result
    place = f"rung {rung + 1} of {len(definition.rungs)} (step {result.step})"
    if mean_value(definition, number, rung, results) is None:
        return result._replace(
            status=STOPPED, reason=f"stopped at {place}: a trial with another seed failed"
        )
    text = f"{len(members[rung + 1])} of {len(members[rung])} configurations continued"
    return result._replace(status=STOPPED, reason=f"stopped at {place}: {text}")
