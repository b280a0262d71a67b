"""Which options of a study matter: the share of the variance of the metric that each explains.

The measure is functional ANOVA over a random forest (Hutter, Hoos and Leyton-Brown, 2014), as
Optuna has it. Its interval comes from resampling the configurations.
"""

from __future__ import annotations

import math
import warnings
from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from .definition import Definition
from .sampler import History, optuna_study

MIN_PER_OPTION = 5  # configurations for each option that varies, at least
MIN_CONFIGURATIONS = 10
_RESAMPLES = 20
_TREES = 32
_LEVEL = 0.9


class Importance(NamedTuple):
    """How much of the variance an option explains.

    Attributes:
        name: of the option.
        share: in [0, 1].
        low, high: the ends of the interval of resampled configurations, at the level 0.9.
    """

    name: str
    share: float
    low: float
    high: float


def measure_importance(definition: Definition, history: History) -> Tuple[List[Importance], str]:
    """Return the importance of each option, the largest first; or [], and why there is none.

    Configurations that failed, or that halving stopped, do not count.

    Args:
        definition: of the study.
        history: each configuration with its standing.
    """
    last = len(definition.rungs) - 1
    entries = [e for e in history if e[1].value is not None and e[1].rung == last]
    names = [dimension.name for dimension in definition.space]
    if len(names) < 2:
        return [], "one option varies" if names else "no option varies"
    least = max(MIN_CONFIGURATIONS, MIN_PER_OPTION * len(names))
    if len(entries) < least:
        return [], f"{len(entries)} configurations finished, and it needs {least}"
    if len({standing.value for _, standing in entries}) == 1:
        return [], "all configurations have the same value"
    shares = _shares(definition, entries)
    random = np.random.RandomState(0)
    samples = []
    for _ in range(_RESAMPLES):
        positions = random.randint(0, len(entries), len(entries))
        sample = _shares(definition, [entries[position] for position in positions])
        samples.append([sample.get(name, 0.0) for name in names])
    lows, highs = np.quantile(samples, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    rows = [
        Importance(name, shares.get(name, 0.0), float(low), float(high))
        for name, low, high in zip(names, lows, highs)
    ]
    return sorted(rows, key=lambda row: -row.share), ""


def _shares(definition: Definition, entries: Sequence) -> Dict[str, float]:
    from optuna.importance import FanovaImportanceEvaluator

    study = optuna_study(definition, entries)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            shares = FanovaImportanceEvaluator(n_trees=_TREES, seed=0).evaluate(study)
        except (RuntimeError, ValueError):  # an option or the metric does not vary in the sample
            return {}
    return {n: share if math.isfinite(share) else 0.0 for n, share in shares.items()}


def describe_importance(rows: Sequence[Importance]) -> str:
    """Return the importances as one line."""
    return ", ".join(
        f"{row.name} {100 * row.share:.0f} % [{100 * row.low:.0f}, {100 * row.high:.0f}]"
        for row in rows
    )
