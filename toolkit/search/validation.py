"""The check of a study's configurations before the first trial: options, then graphs."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence

from ..plugins import Plugins
from . import sampler
from .definition import FLOAT, Configuration, Definition, Dimension
from .graphs import check_graphs
from .planning import first_values
from .trial_options import naming_values, resolve_trial

MAX_GRAPHS = 32
Values = Dict[str, Any]


def validate(definition: Definition, plugins: Plugins) -> str:
    """Check the configurations of a study.

    Those are checked that are known before the first trial (all of a grid and of random
    configurations, the first ones of TPE), and those at the limits of the space. Each is resolved;
    of those that differ in numbers within ranges alone, one graph is built. A configuration
    that is sampled later is checked by its own run before the first step.

    Args:
        definition: of the study.
        plugins: of its trials.

    Returns:
        What was checked, a clause.

    Raises:
        ToolkitError: one cannot be trained; names its values.
    """
    known = [configuration.values for configuration in known_configurations(definition)]
    limits = limit_values(definition.space, known[0] if known else None)
    for values in [*known, *limits]:
        with naming_values(values):
            resolve_trial(plugins, definition, values)
    kinds = _unlike_values(definition.space, [*known, *limits])
    sample = [*limits_of_ranges(definition.space, kinds[0]), *_spread(kinds, MAX_GRAPHS)]
    sample = list({json.dumps(each, sort_keys=True): each for each in sample}.values())
    check_graphs(definition, sample)
    text = f"the options of {len(known)} configuration{'s' * (len(known) != 1)} and of the space's "
    text += f"limits; {len(sample)} graph{'s' * (len(sample) != 1)} built"
    is_sample = len(sample) < len(kinds)
    return text + (f", a sample of {len(kinds)} kinds" if is_sample else "")


def known_configurations(definition: Definition) -> List[Configuration]:
    """Return the configurations that do not depend on results."""
    known: List[Configuration] = []
    for numbers in sampler.batches(definition):
        if sampler.needs_results(definition, numbers):
            break
        known += sampler.sample_batch(definition, numbers, known, [])
    return known


def limit_values(space: Sequence[Dimension], base: Optional[Values] = None) -> List[Values]:
    """Return configurations that have, one after the other, each choice and each end of a range.

    Args:
        space: of the study.
        base: the other values; None for the first of each dimension.
    """
    base = base or first_values(space)
    return [dict(base, **{each.name: value}) for each in space for value in each.ends]


def limits_of_ranges(space: Sequence[Dimension], base: Values) -> List[Values]:
    """Return two configurations: all ranges at their low, and at their high ends."""
    ranges = [d for d in space if not d.choices]
    if not ranges:
        return [base]
    return [dict(base, **{d.name: d.ends[end] for d in ranges}) for end in (0, 1)]


def _unlike_values(space: Sequence[Dimension], values: Sequence[Values]) -> List[Values]:
    """Return one of those configurations that differ in numbers within ranges of floats alone."""
    names = [d.name for d in space if d.kind != FLOAT]
    kinds: Dict[str, Values] = {}
    for each in values:
        kinds.setdefault(json.dumps([each[name] for name in names]), each)
    return list(kinds.values())


def _spread(values: Sequence[Values], count: int) -> List[Values]:
    """Return at most `count` of the values, evenly spread."""
    if len(values) <= count:
        return list(values)
    return [values[i * len(values) // count] for i in range(count)]
