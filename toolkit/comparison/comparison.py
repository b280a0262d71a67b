"""The comparison of several runs: what differs, what is better, and where they parted."""

from __future__ import annotations

import itertools
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import UsageError, suggest
from ..statistics.intervals import LEVEL
from .differences import (
    SEED,
    OptionDifference,
    describe_code,
    describe_data,
    describe_mixture,
    describe_software,
    find_option_differences,
    group_by_seed,
)
from .metrics import direction_of, metrics_by_name
from .parting import Parting, find_parting
from .record import RunRecord
from .verdict import Band, Group, Verdict, choose_metrics, judge, make_groups, measure_band

MAX_ALL_PAIRS = 4  # groups; of more, each is compared with the first alone


class Comparison(NamedTuple):
    """The comparison of several runs.

    Attributes:
        records: of the runs.
        places: the positions of the runs of each group, which differ in the seed alone.
        groups: the groups, with one run of each seed.
        level: for which the verdicts hold.
        options: that differ.
        code: which plugins have other code, a clause each.
        data: how the data differs, a clause each.
        software: the versions that differ, a clause each.
        metrics: the names of the metrics, the main one first.
        verdicts: of pairs of groups.
        partings: of pairs of runs, by their positions.
    """

    records: List[RunRecord]
    places: List[List[int]]
    groups: List[Group]
    level: float
    options: List[OptionDifference]
    code: List[str]
    data: List[str]
    software: List[str]
    metrics: List[str]
    verdicts: List[Verdict]
    partings: Dict[Tuple[int, int], Parting]

    def band(self, group: int, metric: str) -> Optional[Band]:
        """A metric of a group; None if one of its runs does not have it."""
        return measure_band(self.groups[group], metric)

    def direction(self, metric: str) -> Optional[str]:
        """Which values of a metric are better, "min" or "max"; None if nothing says it."""
        directions = [direction_of(record, metric) for record in self.records]
        return next((direction for direction in directions if direction), None)

    def seeds(self, group: int) -> List[Any]:
        return [record.options.get(SEED) for record in self.groups[group].records]

    def mixture(self, group: int) -> List[str]:
        """What else than the seed differs between the runs of a group, a clause each."""
        return describe_mixture([self.records[place] for place in self.places[group]])

    def as_json(self) -> Dict[str, Any]:
        """The comparison as JSON values; runs are named by their positions."""
        bands = [
            [self.band(group, name) for group in range(len(self.groups))] for name in self.metrics
        ]
        return {
            "names": [group.name for group in self.groups],
            "groups": self.places,
            "mixtures": [self.mixture(group) for group in range(len(self.groups))],
            "level": self.level,
            "options": [
                {"name": each.name, "values": each.values, "origins": each.origins}
                for each in self.options
            ],
            "code": self.code,
            "data": self.data,
            "software": self.software,
            "metrics": [
                {
                    "name": name,
                    "direction": self.direction(name),
                    "values": [dict(band._asdict()) if band else None for band in row],
                }
                for name, row in zip(self.metrics, bands)
            ],
            "verdicts": [
                {
                    "metric": verdict.metric,
                    "a": self.places[verdict.a][0],
                    "b": self.places[verdict.b][0],
                    "groups": [verdict.a, verdict.b],
                    "verdict": verdict.verdict,
                    "text": verdict.text,
                    "separation": verdict.separation and dict(verdict.separation._asdict()),
                }
                for verdict in self.verdicts
            ],
            "parting": [
                {
                    "a": a,
                    "b": b,
                    "step": parting.equal_step,
                    "differs_by": parting.differing_step,
                    "text": parting.text,
                    "causes": parting.causes,
                }
                for (a, b), parting in self.partings.items()
            ],
        }


def compare(
    records: Sequence[RunRecord], metrics: Sequence[str] = (), level: float = LEVEL
) -> Comparison:
    """Compare runs.

    Args:
        records: of two or more runs, with different names.
        metrics: the names of those to compare; () for the main one and all with a direction.
        level: the probability that no two groups without a difference are called separated.

    Raises:
        UsageError: no run has such a metric.
        CheckpointError: a commit log cannot be read.
    """
    records = list(records)
    known = {name for record in records for name in metrics_by_name(record)}
    for name in metrics:
        if name not in known:
            raise UsageError(f"No run has a metric '{name}'.", hint=suggest(name, known))
    places = group_by_seed(records)
    groups = make_groups(records, places)
    names = list(metrics) or choose_metrics(groups)
    return Comparison(
        records=records,
        places=places,
        groups=groups,
        level=level,
        options=find_option_differences(records),
        code=describe_code(records),
        data=describe_data(records),
        software=describe_software(records),
        metrics=names,
        verdicts=judge(groups, names, level),
        partings=find_partings(records, places),
    )


def find_partings(
    records: Sequence[RunRecord], places: Sequence[Sequence[int]]
) -> Dict[Tuple[int, int], Parting]:
    """Where runs parted: one run of each group with one of each other group, or each group with the
    first if there are many; the runs of a group alone.

    Args:
        records: of the runs.
        places: the positions of the runs of each group.
    """
    if len(places) == 1:
        pairs = [(0, place) for place in range(1, len(records))]
    else:
        groups = itertools.combinations(range(len(places)), 2)
        pairs = [
            _choose_pair(records, places[a], places[b])
            for a, b in groups
            if a == 0 or len(places) <= MAX_ALL_PAIRS
        ]
    return {(a, b): find_parting(records[a], records[b]) for a, b in pairs}


def _choose_pair(
    records: Sequence[RunRecord], a: Sequence[int], b: Sequence[int]
) -> Tuple[int, int]:
    """A run of each of two groups, with equal seeds if there are such runs."""
    pairs = [(x, y) for x in a for y in b]
    seeds = [records[place].options.get(SEED) for place in range(len(records))]
    return next((pair for pair in pairs if seeds[pair[0]] == seeds[pair[1]]), pairs[0])
