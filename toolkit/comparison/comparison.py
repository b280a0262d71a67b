"""The comparison of several runs: what differs, what is better, and where they parted."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ..errors import UsageError, suggest
from ..statistics.intervals import LEVEL
from .differences import (
    SEED,
    describe_code,
    describe_data,
    describe_mixture,
    describe_software,
    distinct_seeds,
    find_option_differences,
    group_by_seed,
)
from .metrics import direction_of
from .parting import find_parting
from .record import RunRecord
from .verdict import Group, choose_metrics, judge, list_pairs, measure_band

MAX_ALL_PARTINGS = 4  # groups; of more, each is compared with the first alone


def compare(
    records: Sequence[RunRecord], metrics: Sequence[str] = (), level: float = LEVEL
) -> Dict[str, Any]:
    """Compare two runs or more, of different names, by some metrics, else the main one and all with
    a direction. `level` is the probability that no two groups without a difference are called
    separated. Raises UsageError if no run has a metric, CheckpointError if a log cannot be read.

    Returns values of JSON, in which runs are named by their positions:

    - "groups": the positions of the runs of each group, which differ in the seed alone; "names": of
      the groups; "mixtures": what else differs within each, a clause each.
    - "level": for which the verdicts hold.
    - "options": those that differ, see `find_option_differences`.
    - "code", "data", "software": how these differ, a clause each.
    - "metrics": the main one first, each with its "name", its "direction" ("min", "max" or None)
      and for each group a `Band` or None.
    - "verdicts": of pairs of groups, see `Verdict`; "a" and "b" are the first runs of both.
    - "parting": of pairs of runs "a" and "b", see `Parting`.
    """
    known = {name for record in records for name in record.metrics}
    for name in metrics:
        if name not in known:
            raise UsageError(f"No run has a metric '{name}'.", hint=suggest(name, known))
    places = group_by_seed(records)
    members = [[records[place] for place in group] for group in places]
    seeds = [distinct_seeds(each) for each in members]
    groups = [
        Group(each[0].name + (f" ({len(each)} seeds)" if len(each) > 1 else ""), each)
        for each in seeds
    ]
    names = list(metrics) or choose_metrics(groups)
    directions = {name: [direction_of(record, name) for record in records] for name in names}
    bands = {name: [measure_band(group, name) for group in groups] for name in names}
    return {
        "names": [group.name for group in groups],
        "groups": places,
        "mixtures": [describe_mixture(each) for each in members],
        "level": level,
        "options": find_option_differences(records),
        "code": describe_code(records),
        "data": describe_data(records),
        "software": describe_software(records),
        "metrics": [
            {
                "name": name,
                "direction": next(filter(None, directions[name]), None),
                "values": [dict(band._asdict()) if band else None for band in bands[name]],
            }
            for name in names
        ],
        "verdicts": [
            {
                **verdict._asdict(),
                "a": places[verdict.groups[0]][0],
                "b": places[verdict.groups[1]][0],
                "groups": list(verdict.groups),
                "separation": verdict.separation and dict(verdict.separation._asdict()),
            }
            for verdict in judge(groups, names, level)
        ],
        "parting": [
            {"a": a, "b": b, **find_parting(records[a], records[b])._asdict()}
            for a, b in _list_partings(records, places)
        ],
    }


def _list_partings(
    records: Sequence[RunRecord], places: Sequence[Sequence[int]]
) -> List[Tuple[int, int]]:
    """Pairs of runs, one of each two groups, of one seed if there are such; of one group all."""
    if len(places) == 1:
        return [(0, place) for place in range(1, len(records))]
    seeds = [record.options.get(SEED) for record in records]
    chosen = []
    for one, other in list_pairs(len(places), MAX_ALL_PARTINGS):
        pairs = [(a, b) for a in places[one] for b in places[other]]
        chosen.append(next((pair for pair in pairs if seeds[pair[0]] == seeds[pair[1]]), pairs[0]))
    return chosen
