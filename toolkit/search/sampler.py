"""The configurations of a study: each is a function of its number, the definition and results.

TPE samples in *batches* of a fixed size, each from the results of all batches before it, in order
of number. The random numbers of a configuration follow from the study's seed and its number alone.
So neither kills nor the number of workers change what is sampled.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
import warnings
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

import optuna
from optuna import distributions
from optuna.trial import TrialState, create_trial

from .definition import CHOICE, FLOAT, GRID, INT, TPE, Configuration, Definition, Dimension
from .table import Row, num_continuing

logging.getLogger("optuna").setLevel(logging.ERROR)

STARTUP = 10  # configurations that TPE samples at random
BATCH = 5  # the smallest batch of TPE
ATTEMPTS = 64  # to find a configuration that differs from all before
Values = Dict[str, Any]  # of the options that vary


def batches(definition: Definition) -> List[List[int]]:
    """Return the numbers of the configurations of each batch, which is also a cohort of halving."""
    size = definition.trials
    if definition.sampler == TPE:
        pauses = len(definition.rungs) - 1 if definition.reduction else 0
        size = max(BATCH, definition.reduction**pauses)
    numbers = list(range(definition.trials))
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def count_trials(definition: Definition) -> List[int]:
    """Return how many trials train up to each rung, if none fails."""
    counts = [0] * len(definition.rungs)
    for numbers in batches(definition):
        count = len(numbers)
        for rung in range(len(counts)):
            counts[rung] += count * len(definition.seeds)
            count = num_continuing(definition, count) if definition.reduction else count
    return counts


def needs_results(definition: Definition, numbers: Sequence[int]) -> bool:
    """Return whether a batch is sampled from the results of those before it."""
    return definition.sampler == TPE and numbers[-1] >= STARTUP and numbers[0] > 0


def known_values(definition: Definition) -> List[Values]:
    """Return the values of the configurations that do not depend on results."""
    known: Dict[int, Configuration] = {}
    for numbers in batches(definition):
        if needs_results(definition, numbers):
            break
        for number, values in sample_batch(definition, numbers, known):
            known[number] = Configuration(number, values)
    return [each.values for each in known.values()]


def sample_batch(
    definition: Definition,
    numbers: Sequence[int],
    known: Mapping[int, Configuration],
    history: Sequence[Row] = (),
) -> List[Tuple[int, Values]]:
    """The numbers and values of the configurations of a batch that the study lacks.

    The first ones of a batch, and of a part of a grid, do not depend on how many there are in all:
    a study that gets more trials has the configurations of one that had as many from the start.
    `known` are those of the batches before, and those of this one from before, which keep their
    numbers; `history` has the rows of the batches before, if the batch needs results.
    """
    missing = [number for number in numbers if number not in known]
    former = [known[number].values for number in sorted(known)]
    if definition.sampler == GRID:
        return list(zip(missing, (point for point in _grid(definition) if point not in former)))
    batch = [known[number].values for number in numbers if number in known]
    sampled = []
    for number in missing:
        for attempt in range(ATTEMPTS):  # until it differs from those before, if others are left
            seed = _seed(definition.study_seed, number, attempt)
            # TPE may suggest the same for ever.
            is_random = attempt >= ATTEMPTS // 2 or number < STARTUP or definition.sampler != TPE
            values = _ask(definition, seed, is_random, batch, history)
            if values not in former:
                break
        former.append(values)
        batch.append(values)
        sampled.append((number, values))
    return sampled


def _ask(
    definition: Definition,
    seed: int,
    is_random: bool,
    pending: Sequence[Values],
    history: Sequence[Row],
) -> Values:
    """The values that Optuna suggests; `pending` are those of the batch so far."""
    if is_random:  # considers no others; there may be thousands
        study = make_study(definition, (), optuna.samplers.RandomSampler(seed=seed))
    else:
        with warnings.catch_warnings():  # some versions call these arguments experimental
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=0, multivariate=True, constant_liar=True
            )
        study = make_study(definition, history, sampler, pending)
    params = study.ask({each.name: _distribution(each) for each in definition.space}).params
    return {each.name: _value(each, params[each.name]) for each in definition.space}


def _seed(study_seed: int, number: int, attempt: int) -> int:
    """A seed of 32 bits for one configuration."""
    text = f"{study_seed}/{number}/{attempt}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


def _grid(definition: Definition) -> Iterator[Values]:
    """The values of a grid in order; a random part of it, in order, if the study is smaller."""
    count = int(definition.num_configurations)
    points = set(range(count)) if definition.trials >= count else set()
    generator = random.Random(_seed(definition.study_seed, 0, 0))
    while len(points) < definition.trials < count:  # too many, perhaps, for a list of them
        points.add(generator.randrange(count))
    axes = [(each.name, each.values or [], int(each.size)) for each in definition.space]
    for point in sorted(points):
        values = {}
        for name, axis, size in reversed(axes):  # the last option varies fastest
            point, position = divmod(point, size)
            values[name] = axis[position]
        yield {name: values[name] for name, _, _ in axes}


# ---------------------------------------------------------------------------------- Optuna's terms


def make_study(
    definition: Definition, rows: Sequence[Row], sampler: Any = None, pending: Sequence[Values] = ()
) -> optuna.study.Study:
    """Return a study of Optuna with the rows of configurations, and with values of others.

    Failed configurations count as the worst, and those that did not come to the last rung as
    pruned. Lists and steps appear as positions.
    """
    is_min = definition.direction == "min"
    study = optuna.create_study(direction="minimize" if is_min else "maximize", sampler=sampler)
    space = {each.name: _distribution(each) for each in definition.space}

    def add(state: TrialState, values: Values, **result: Any) -> None:
        params = {
            each.name: each.values.index(values[each.name])
            if _has_positions(each) and each.values
            else values[each.name]
            for each in definition.space
        }
        study.add_trial(create_trial(state=state, params=params, distributions=space, **result))

    for row in rows:
        is_pruned = not row.has_failed and row.rung < len(definition.rungs) - 1
        value = (math.inf if is_min else -math.inf) if row.has_failed else row.value
        steps = {row.rung: value} if is_pruned else {}
        state = TrialState.PRUNED if is_pruned else TrialState.COMPLETE
        add(state, row.values, value=value, intermediate_values=steps)
    for values in pending:
        add(TrialState.RUNNING, values)
    return study


def _has_positions(dimension: Dimension) -> bool:
    return dimension.kind == CHOICE or (dimension.kind == FLOAT and bool(dimension.step))


def _distribution(dimension: Dimension) -> distributions.BaseDistribution:
    """The distribution from which Optuna suggests a value or its position."""
    if dimension.kind == CHOICE:
        return distributions.CategoricalDistribution(range(len(dimension.choices)))
    if _has_positions(dimension):
        return distributions.IntDistribution(0, len(dimension.values or [0]) - 1)
    low, high, step = dimension.low, dimension.high, int(dimension.step) or 1
    if dimension.kind == INT:
        low, high = int(low), int(low) + (int(high) - int(low)) // step * step
        return distributions.IntDistribution(low, high, log=dimension.is_log, step=step)
    return distributions.FloatDistribution(low, high, log=dimension.is_log)


def _value(dimension: Dimension, suggestion: Any) -> Any:
    if _has_positions(dimension):
        return (dimension.values or [])[suggestion]
    if dimension.kind == INT:
        return int(suggestion)
    # Six digits, so that a person can write the value.
    return min(max(float(f"{suggestion:.6g}"), dimension.low), dimension.high)
