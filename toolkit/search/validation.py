"""The check of a study's configurations before the first trial: options, then graphs."""

from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..errors import ToolkitError, UsageError
from . import sampler
from .definition import FLOAT, Configuration, Definition, Dimension
from .graph_check import PROBE, Answer, Request, check_configurations
from .planning import describe_values, first_values, refuse_faults
from .resolution import TrialOptions

MAX_GRAPHS = 32
PROBE_SECS = 4.0
Values = Dict[str, Any]


class Validation(NamedTuple):
    """What was checked.

    Attributes:
        num_known: how many configurations are known before the first trial; their options and
            those at the limits of the space are valid.
        num_graphs: how many graphs were built.
        num_kinds: how many differ by more than numbers within ranges.
        answers: of the graphs.
    """

    num_known: int
    num_graphs: int
    num_kinds: int
    answers: List[Answer]

    def __str__(self) -> str:
        graphs = f"{self.num_graphs} graph{'s' * (self.num_graphs != 1)} built"
        if self.num_graphs < self.num_kinds:
            graphs += f", a sample of {self.num_kinds} kinds"
        known = f"{self.num_known} configuration{'s' * (self.num_known != 1)}"
        return f"the options of {known} and of the space's limits; {graphs}"


def validate(
    definition: Definition, options: TrialOptions, folder: str, times: bool = False
) -> Validation:
    """Check the configurations of a study.

    Those are checked that are known before the first trial (all of a grid and of random
    configurations, the first ones of TPE), and those at the limits of the space. Each is resolved;
    of those that differ in numbers within ranges alone, one graph is built. A configuration
    that is sampled later is checked by its own run before the first step.

    Args:
        definition: of the study.
        options: of its trials.
        folder: of the study.
        times: whether to time some steps of the first one, too.

    Raises:
        ToolkitError: one cannot be trained; names its values.
    """
    known = [configuration.values for configuration in known_configurations(definition)]
    limits = limit_values(definition.space, known[0] if known else None)
    for values in [*known, *limits]:
        try:
            options.resolve(values)
        except ToolkitError as error:
            raise UsageError(
                f"Trials with {describe_values(values)} cannot be trained: {error.message}",
                hint=error.hint,
            ) from None
    kinds = _unlike_values(definition.space, [*known, *limits])
    sample = [*limits_of_ranges(definition.space, kinds[0]), *_spread(kinds, MAX_GRAPHS)]
    sample = _unique(sample)
    request = Request.of(definition, sample)
    if times:
        request = request._replace(task=PROBE, probe_secs=PROBE_SECS)
    answers = check_configurations(request, folder, "graphs")
    refuse_faults(sample, answers)
    return Validation(len(known), len(sample), len(kinds), answers)


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
    limits = []
    for dimension in space:
        ends = dimension.choices or [
            _end(dimension, end) for end in (dimension.low, dimension.high)
        ]
        limits += [dict(base, **{dimension.name: value}) for value in ends]
    return limits


def limits_of_ranges(space: Sequence[Dimension], base: Values) -> List[Values]:
    """Return two configurations: all ranges at their low, and at their high ends."""
    ranges = [d for d in space if not d.choices]
    lows = {d.name: _end(d, d.low) for d in ranges}
    highs = {d.name: _end(d, d.high) for d in ranges}
    return [dict(base, **lows), dict(base, **highs)] if ranges else [base]


def _end(dimension: Dimension, value: float) -> Any:
    return float(value) if dimension.kind == FLOAT else int(value)


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


def _unique(values: Sequence[Values]) -> List[Values]:
    return list({json.dumps(each, sort_keys=True): each for each in values}.values())
