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
from typing import Any, Dict, List, Sequence, Tuple

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from .definition import CHOICE, FLOAT, GRID, INT, TPE, Configuration, Definition, Dimension
from .halving import Standing, num_continuing
from .space import count_configurations

logging.getLogger("optuna").setLevel(logging.ERROR)

STARTUP = 10  # configurations that TPE samples at random
BATCH = 5  # the smallest batch of TPE
ATTEMPTS = 64  # to find a configuration that differs from all before
History = Sequence[Tuple[Configuration, Standing]]


def batch_size(definition: Definition) -> int:
    """Return the number of configurations of a batch, which is also a cohort of halving."""
    if definition.sampler != TPE:
        return definition.trials
    smallest = definition.reduction ** (len(definition.rungs) - 1) if definition.reduction else 1
    return min(definition.trials, max(BATCH, smallest))


def batches(definition: Definition) -> List[List[int]]:
    """Return the numbers of the configurations of each batch."""
    size = batch_size(definition)
    numbers = list(range(definition.trials))
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


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


def needs_results(definition: Definition, numbers: Sequence[int]) -> bool:
    """Return whether a batch is sampled from the results of those before it."""
    return definition.sampler == TPE and numbers[-1] >= STARTUP


def sample_batch(
    definition: Definition,
    numbers: Sequence[int],
    former: Sequence[Configuration],
    history: History,
    known: Sequence[Configuration] = (),
) -> List[Configuration]:
    """Return the configurations of a batch.

    The first ones of a batch, and of a part of a grid, do not depend on how many there are in all:
    a study that gets more trials has the configurations of one that had as many from the start.

    Args:
        definition: of the study.
        numbers: of the batch.
        former: all configurations of the batches before.
        history: those that are complete, in order of number, if the batch needs results.
        known: those of the batch that the study had before it got more trials; they keep their
            numbers.
    """
    missing = [n for n in numbers if all(n != each.number for each in known)]
    if definition.sampler == GRID:
        points = [v for v in _grid(definition) if all(v != each.values for each in known)]
        return [*known, *(Configuration(n, v) for n, v in zip(missing, points))]
    history = history if needs_results(definition, numbers) else []
    configurations = [*former, *known]
    for number in missing:
        pending = configurations[len(former) :]
        configurations.append(_sample(definition, number, configurations, pending, history))
    return configurations[len(former) :]


def _sample(
    definition: Definition,
    number: int,
    former: Sequence[Configuration],
    pending: Sequence[Configuration],
    history: History,
) -> Configuration:
    """One configuration, unlike those before if there is another one."""
    values: Dict[str, Any] = {}
    for attempt in range(ATTEMPTS):
        seed = _seed(definition.study_seed, number, attempt)
        values = _ask(definition, number, seed, pending, history)
        if all(values != configuration.values for configuration in former):
            break
    return Configuration(number, values)


def _ask(
    definition: Definition,
    number: int,
    seed: int,
    pending: Sequence[Configuration],
    history: History,
) -> Dict[str, Any]:
    """The values that Optuna suggests."""
    is_random = definition.sampler != TPE or number < STARTUP
    sampler = optuna.samplers.RandomSampler(seed=seed) if is_random else _tpe_sampler(seed)
    study = optuna_study(definition, history, sampler)
    if not is_random:  # which considers no other trials; there may be thousands
        study.add_trials([_pending_trial(definition, each) for each in pending])
    space = {dimension.name: _index_distribution(dimension) for dimension in definition.space}
    params = study.ask(space).params
    return {d.name: _value(d, params[d.name]) for d in definition.space}


def _tpe_sampler(seed: int) -> optuna.samplers.BaseSampler:
    with warnings.catch_warnings():  # some versions of Optuna call these arguments experimental
        warnings.simplefilter("ignore")
        return optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=0, multivariate=True, constant_liar=True
        )


def _seed(study_seed: int, number: int, attempt: int) -> int:
    """A seed of 32 bits for one configuration."""
    text = f"{study_seed}/{number}/{attempt}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


def _grid(definition: Definition) -> List[Dict[str, Any]]:
    """The values of a grid in order; a random part of it, in order, if the study is smaller."""
    axes = [dimension.values or [] for dimension in definition.space]
    count = int(count_configurations(definition.space))
    points = set(range(count)) if definition.trials >= count else set()
    generator = random.Random(_seed(definition.study_seed, 0, 0))
    while len(points) < definition.trials < count:  # too many, perhaps, for a list of them
        points.add(generator.randrange(count))
    return [_grid_point(definition, axes, point) for point in sorted(points)]


def _grid_point(
    definition: Definition, axes: Sequence[Sequence[Any]], point: int
) -> Dict[str, Any]:
    """The values at a position of the grid; the last option varies fastest."""
    values: Dict[str, Any] = {}
    for dimension, axis in reversed(list(zip(definition.space, axes))):
        point, position = divmod(point, int(dimension.size))
        values[dimension.name] = axis[position]
    return {dimension.name: values[dimension.name] for dimension in definition.space}


# ---------------------------------------------------------------------------------- Optuna's terms


def optuna_study(
    definition: Definition, history: History, sampler: Any = None
) -> optuna.study.Study:
    """Return a study of Optuna in memory with the standings of configurations.

    Failed configurations count as the worst. Lists and steps appear as positions.
    """
    is_min = definition.direction == "min"
    direction = StudyDirection.MINIMIZE if is_min else StudyDirection.MAXIMIZE
    study = optuna.create_study(direction=direction, sampler=sampler)
    study.add_trials([_history_trial(definition, *entry) for entry in history])
    return study


def _history_trial(
    definition: Definition, configuration: Configuration, standing: Standing
) -> optuna.trial.FrozenTrial:
    worst = math.inf if definition.direction == "min" else -math.inf
    value = worst if standing.value is None else standing.value
    is_pruned = standing.is_stopped and standing.value is not None
    return create_trial(
        state=TrialState.PRUNED if is_pruned else TrialState.COMPLETE,
        value=value,
        intermediate_values={standing.rung: value} if is_pruned else {},
        **_positions(definition, configuration),
    )


def _pending_trial(
    definition: Definition, configuration: Configuration
) -> optuna.trial.FrozenTrial:
    return create_trial(state=TrialState.RUNNING, **_positions(definition, configuration))


def _positions(definition: Definition, configuration: Configuration) -> Dict[str, Any]:
    """The parameters of Optuna's trial: values of ranges, positions of other values."""
    params = {d.name: _position(d, configuration.values[d.name]) for d in definition.space}
    distributions = {d.name: _index_distribution(d) for d in definition.space}
    return {"params": params, "distributions": distributions}


def _has_positions(dimension: Dimension) -> bool:
    return dimension.kind == CHOICE or (dimension.kind == FLOAT and bool(dimension.step))


def _index_distribution(dimension: Dimension) -> BaseDistribution:
    """The distribution from which Optuna suggests a value or its position."""
    if dimension.kind == CHOICE:
        return CategoricalDistribution(range(len(dimension.choices)))
    if _has_positions(dimension):
        return IntDistribution(0, len(dimension.values or [0]) - 1)
    if dimension.kind == INT:
        step = int(dimension.step) or 1
        low = int(dimension.low)
        high = low + (int(dimension.high) - low) // step * step
        return IntDistribution(low, high, log=dimension.is_log, step=step)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.is_log)


def _value(dimension: Dimension, suggestion: Any) -> Any:
    if _has_positions(dimension):
        return (dimension.values or [])[suggestion]
    if dimension.kind == INT:
        return int(suggestion)
    # Six digits, so that a person can write the value.
    value = float(f"{suggestion:.6g}")
    return min(max(value, dimension.low), dimension.high)


def _position(dimension: Dimension, value: Any) -> Any:
    if _has_positions(dimension):
        return (dimension.values or []).index(value)
    return value
