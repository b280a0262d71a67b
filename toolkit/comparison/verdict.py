"""Whether two groups of runs differ in a metric by more than chance, in words."""

from __future__ import annotations

import math
import os
import zipfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..display.numbers import format_number
from ..files import open_regular_file
from ..statistics.example_means import exact_mean, is_mean
from ..statistics.intervals import LEVEL, normal_quantile
from ..statistics.separation import THESE_EXAMPLES, Estimate, Separation, adjust, separate
from ..storage.report_folder import EXAMPLE_MEANS, EXAMPLES
from .differences import distinct_seeds
from .metrics import Metric, direction_of, main_metric, metrics_by_name
from .record import RunRecord

SEPARATED, NOT_SEPARATED, NOT_COMPARABLE = "separated", "not separated", "not comparable"
MAX_ALL_PAIRS = 6  # of more groups, each is compared with the first alone
_MAX_BYTES = 64 << 20  # of an array in the file of examples
_MAX_HASH = 12  # digits of a hash in a sentence


class Verdict(NamedTuple):
    """The comparison of two groups by a metric.

    Attributes:
        metric: its name; "" if the two are not comparable by any.
        a: the position of the one group.
        b: that of the other.
        verdict: "separated", "not separated" or "not comparable".
        text: the verdict with its reason or its numbers.
        separation: the numbers; None if they are not comparable.
    """

    metric: str
    a: int
    b: int
    verdict: str
    text: str
    separation: Optional[Separation] = None


class Group(NamedTuple):
    """Runs that differ in the seed alone.

    Attributes:
        name: of the group.
        records: of its runs, one of each seed.
    """

    name: str
    records: List[RunRecord]

    @property
    def first(self) -> RunRecord:
        return self.records[0]


class Band(NamedTuple):
    """A metric of a group.

    Attributes:
        value: the mean over the seeds.
        low: the lower end of the interval of the only run; of several seeds, the lowest value.
        high: likewise.
        deviation: the standard deviation over the seeds; None for one.
        seeds: how many there are.
    """

    value: float
    low: Optional[float]
    high: Optional[float]
    deviation: Optional[float]
    seeds: int

    def __str__(self) -> str:
        """`0.8380 [0.8032, 0.8675]`, or `0.8380 (sd 0.0050, 0.8320 to 0.8440, 3 seeds)`."""
        text = format_number(self.value)
        if self.low is None or self.high is None:
            return text
        low, high = format_number(self.low), format_number(self.high)
        if self.deviation is None:
            return f"{text} [{low}, {high}]"
        return f"{text} (sd {format_number(self.deviation)}, {low} to {high}, {self.seeds} seeds)"


def measure_band(group: Group, name: str) -> Optional[Band]:
    """A metric of a group; None if a run does not have it."""
    metrics = [metrics_by_name(record).get(name) for record in group.records]
    values = [metric.value for metric in metrics if metric is not None]
    if not values or len(values) < len(metrics):
        return None
    if len(values) == 1:
        only = metrics[0]
        return Band(values[0], only and only.low, only and only.high, None, 1)
    deviation = float(np.std(values, ddof=1))
    return Band(float(np.mean(values)), min(values), max(values), deviation, len(values))


def choose_metrics(groups: Sequence[Group]) -> List[str]:
    """The metrics to compare: those of any group with a direction, the main one first."""
    records = [record for group in groups for record in group.records]
    names: Dict[str, None] = {}
    for record in records:
        main = main_metric(record) if record.test is not None else None
        names.update(dict.fromkeys([main.name] if main else []))
    for record in records:
        declared = [name for name in metrics_by_name(record) if direction_of(record, name)]
        names.update(dict.fromkeys(name for name in declared if not name.endswith("_noise")))
    return list(names)


def list_pairs(count: int) -> List[Tuple[int, int]]:
    """The pairs of groups to compare."""
    if count > MAX_ALL_PAIRS:
        return [(0, other) for other in range(1, count)]
    return [(a, b) for a in range(count) for b in range(a + 1, count)]


def judge(groups: Sequence[Group], metrics: Sequence[str], level: float = LEVEL) -> List[Verdict]:
    """Compare groups in pairs by each metric; the level holds for all verdicts together.

    A pair that no metric compares, for one reason, has one verdict.

    Args:
        groups: of runs.
        metrics: the names of the metrics.
        level: the probability that no pair without a difference is called separated, and that all
            intervals contain the true differences.
    """
    pairs = [(name, a, b) for name in metrics for a, b in list_pairs(len(groups))]
    reasons = [find_obstacle(groups[a], groups[b], name) for name, a, b in pairs]
    separators = [
        _separator(groups[a], groups[b], name)
        for (name, a, b), reason in zip(pairs, reasons)
        if not reason
    ]
    separations = adjust(separators, level)
    count = sum(not math.isnan(each.p) for each in separations)
    remaining = iter(separations)
    obstacles = _common_obstacles(groups, pairs, reasons)
    verdicts = []
    for (name, a, b), reason in zip(pairs, reasons):
        names = f"{groups[a].name} and {groups[b].name}"
        if (a, b) in obstacles:
            if name == metrics[0]:
                text = f"{names} are not comparable: {obstacles[a, b]}"
                verdicts.append(Verdict("", a, b, NOT_COMPARABLE, text))
            continue
        if reason:
            text = f"{name}: {names} are not comparable: {reason}"
            verdicts.append(Verdict(name, a, b, NOT_COMPARABLE, text))
            continue
        separation = next(remaining)
        direction = direction_of(groups[a].first, name) or direction_of(groups[b].first, name)
        word, text = _describe(groups[a], groups[b], name, separation, direction, count)
        verdicts.append(Verdict(name, a, b, word, text, separation))
    return verdicts


def _common_obstacles(
    groups: Sequence[Group], pairs: Sequence[Tuple[str, int, int]], reasons: Sequence[str]
) -> Dict[Tuple[int, int], str]:
    """The pairs of groups that none of several metrics compares, with the one reason for it."""
    by_pair: Dict[Tuple[int, int], List[str]] = {}
    for (_, a, b), reason in zip(pairs, reasons):
        by_pair.setdefault((a, b), []).append(reason)
    obstacles = {}
    for (a, b), clauses in by_pair.items():
        plugins = [groups[each].first.plugin for each in (a, b)]
        if len(clauses) < 2 or not all(clauses):
            continue
        if len(set(clauses)) == 1:
            obstacles[a, b] = clauses[0]
        elif plugins[0] != plugins[1]:
            obstacles[a, b] = f"other plugins ({plugins[0]} and {plugins[1]})"
    return obstacles


# ---------------------------------------------------------------------------------- comparability


def find_obstacle(a: Group, b: Group, name: str) -> str:
    """Why two groups cannot be compared by a metric, as a clause; "" if they can."""
    for group in (a, b):
        for record in group.records:
            if record.test is None:
                return f"{record.name} has no result of the test split ({record.status})"
            if name not in record.metrics:
                return f"{record.name} has no {name}"
            if not math.isfinite(record.metrics[name]):
                return f"{name} of {record.name} is not finite"
    first, *others = [*a.records, *b.records]
    for other in others:
        reason = _compare_splits(first, other, name) or _compare_dependencies(first, other, name)
        if reason:
            return reason
    return ""


def is_same_split(a: RunRecord, b: RunRecord) -> bool:
    """Whether the same examples, in the same order, were tested."""
    return not _compare_splits(a, b, "")


def _compare_splits(a: RunRecord, b: RunRecord, name: str) -> str:
    """How two test splits differ, as a clause; "" if they have the same examples."""
    before, after = a.test or {}, b.test or {}
    hashes = before.get("examples_sha256"), after.get("examples_sha256")
    if None not in hashes and hashes[0] == hashes[1]:
        return ""
    counts = before.get("examples"), after.get("examples")
    if counts[0] != counts[1]:
        return f"other test split: {counts[0]} and {counts[1]} examples"
    if before.get("split") != after.get("split"):
        return f"other split: {before.get('split')} and {after.get('split')}"
    if a.data_sha256 != b.data_sha256:
        names = f"{a.data_name} and {b.data_name}" if a.data_name != b.data_name else a.data_name
        return f"other test split: the data differs ({names})"
    if a.partition != b.partition:
        return "other test split: other examples of the data are held out"
    if _dependencies(a, name) and None not in hashes:
        # A score compares with the examples themselves, which options such as a size change.
        return "other test split: the same examples, in another form"
    return ""


def _dependencies(record: RunRecord, name: str) -> Dict[str, Any]:
    recorded = (record.test or {}).get("depends_on")
    values = recorded.get(name) if isinstance(recorded, dict) else None
    return values if isinstance(values, dict) else {}


def _compare_dependencies(a: RunRecord, b: RunRecord, name: str) -> str:
    """What else the values of a metric depend on and differs, as a clause; "" if nothing does."""
    before, after = _dependencies(a, name), _dependencies(b, name)
    changes = [
        f"other {key}: {_shorten(before.get(key))} and {_shorten(after.get(key))}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
    return "; ".join(changes)


def _shorten(value: Any) -> str:
    text = "unknown" if value is None else str(value)
    return text[:_MAX_HASH] if len(text) == 64 else text


# -------------------------------------------------------------------------------------- separation


def _separator(a: Group, b: Group, name: str) -> Callable[[float], Separation]:
    """The separation of two groups that are comparable, as a function of the level."""
    values = [[read_examples(record, name) for record in group.records] for group in (a, b)]
    arrays = [[array for array in side if array is not None] for side in values]
    is_complete = all(len(x) == len(y) for x, y in zip(values, arrays))
    if is_complete and len({len(array) for side in arrays for array in side}) == 1:
        is_paired = all(is_same_split(a.first, each) for each in [*a.records, *b.records])
        return lambda level: separate(arrays[0], arrays[1], level, is_paired)

    records = [*a.records, *b.records]
    missing = [r.name for r, array in zip(records, [*values[0], *values[1]]) if array is None]
    loss = f"not paired: {missing[0]} has no values of its examples" if missing else ""
    has_lost_pairs = 0 < len(missing) < len(records)

    def separate_values(level: float) -> Separation:
        sides = [[_estimate(record, name, level) for record in group.records] for group in (a, b)]
        separation = separate(sides[0], sides[1], level, is_paired=False)
        return _add_remark(separation, loss) if has_lost_pairs else separation

    return separate_values


def _add_remark(separation: Separation, text: str) -> Separation:
    """Add what a verdict says beside its numbers."""
    return separation._replace(note=f"{_note_of(separation)}; {text}")


def _note_of(separation: Separation) -> str:
    """The note of a separation; one that is not about seeds comes after their numbers."""
    note = separation.note
    if note not in ("", THESE_EXAMPLES):
        return note
    numbers = f"{separation.seeds[0]} and {separation.seeds[1]} seeds"
    return "; ".join(filter(None, [numbers, note]))


def _estimate(record: RunRecord, name: str, level: float) -> Estimate:
    """The value of a metric with its interval at a level."""
    metric: Metric = metrics_by_name(record)[name]
    if metric.low is None or metric.high is None or metric.level is None:
        return Estimate(metric.value, math.nan, math.nan)
    scale = 1.0
    if 0 < metric.level < 1 and metric.level != level:
        scale = normal_quantile(0.5 + level / 2) / normal_quantile(0.5 + metric.level / 2)
    low = metric.value - scale * max(0.0, metric.value - metric.low)
    return Estimate(metric.value, low, metric.value + scale * max(0.0, metric.high - metric.value))


def read_examples(record: RunRecord, name: str) -> Optional[np.ndarray]:
    """The value of a metric for each example of the test split, bool or float [N].

    None if the run does not have them, or if their mean is not the one that the result records; of
    a run that records none, the metric.
    """
    place = (record.test or {}).get("reports")
    if not isinstance(place, str) or os.path.isabs(place) or ".." in place.split("/"):
        return None
    parts = [*place.split("/"), EXAMPLES]
    path = os.path.join(record.path, *parts)
    entry = f"{name}.npy"
    try:
        if os.path.realpath(path) != os.path.join(os.path.realpath(record.path), *parts):
            return None  # a symbolic link, to what may be no part of the run
        with open_regular_file(path) as file, zipfile.ZipFile(file) as archive:
            if archive.getinfo(entry).file_size > _MAX_BYTES:
                return None
            with archive.open(entry) as array:
                values = np.lib.format.read_array(array, allow_pickle=False)
    except Exception:  # a damaged archive raises errors of many kinds
        return None
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "bf":
        return None
    return values if _is_of_metric(record, name, values) else None


def _is_of_metric(record: RunRecord, name: str, values: np.ndarray) -> bool:
    """Whether the values of examples are those that the test of the run wrote for a metric."""
    means = (record.test or {}).get(EXAMPLE_MEANS)
    if isinstance(means, dict):
        mean = exact_mean(values)
        return mean is not None and mean == means.get(name)
    return is_mean(record.metrics.get(name, math.nan), values)


# ------------------------------------------------------------------------------------------- words


def _describe(
    a: Group, b: Group, name: str, separation: Separation, direction: Optional[str], count: int
) -> Tuple[str, str]:
    """The verdict, and a sentence with the numbers, which are adjusted for `count` comparisons."""
    names = f"{a.name} and {b.name}"
    if math.isnan(separation.p):
        reason = separation.note or "there is no interval"
        return NOT_COMPARABLE, f"{name}: {names} are not comparable: {reason}"
    low, high = separation.low, separation.high
    if separation.difference < 0:
        low, high = -high, -low
    numbers = (
        f"{format_number(abs(separation.difference))} [{format_number(low)}, {format_number(high)}]"
    )
    facts = [f"p = {separation.p:.2g}", separation.method]
    facts += [f"p and interval adjusted for {count} comparisons"] if count > 1 else []
    facts += [_describe_seeds(a, b, separation)]
    remark = "; ".join(facts)
    if separation.difference == 0:
        return NOT_SEPARATED, f"{name}: {names} are not separated: they do not differ ({remark})"
    is_first_higher = separation.difference > 0
    if direction is None:
        word, is_first = "higher", is_first_higher
    else:
        word, is_first = "better", is_first_higher == (direction == "max")
    winner, loser = (a.name, b.name) if is_first else (b.name, a.name)
    if not separation.is_separated:
        text = f"{name}: {names} are not separated: they differ by {numbers}, {winner} is {word}"
        return NOT_SEPARATED, f"{text} here ({remark})"
    return SEPARATED, f"{name}: {winner} is {word} than {loser} by {numbers} ({remark})"


def _describe_seeds(a: Group, b: Group, separation: Separation) -> str:
    """What the seeds of two groups allow to say."""
    note = _note_of(separation)
    for side, group in (("the first", a), ("the second", b)):
        words = f"{side} has 1 seed; its seeds are taken to vary like the other's"
        advice = f"{group.name} has 1 seed, taken to vary like the other's: train it with more"
        note = note.replace(words, advice)
    return note


def make_groups(records: Sequence[RunRecord], places: Sequence[Sequence[int]]) -> List[Group]:
    """The groups of runs at these positions, named after their first runs."""
    groups = []
    for positions in places:
        members = distinct_seeds([records[place] for place in positions])
        name = members[0].name
        groups.append(
            Group(f"{name} ({len(members)} seeds)" if len(members) > 1 else name, members)
        )
    return groups
