"""Whether two groups of runs differ in a metric by more than chance, in words."""

from __future__ import annotations

import math
import zipfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..display.numbers import format_number
from ..statistics.intervals import LEVEL, is_mean, normal_quantile, sample_variance
from ..statistics.separation import Estimate, Separation, adjust, separate
from ..storage.report_folder import EXAMPLES
from .metrics import direction_of, main_metric, metrics_by_name
from .record import RunRecord, open_inside

SEPARATED, NOT_SEPARATED, NOT_COMPARABLE = "separated", "not separated", "not comparable"
MAX_ALL_PAIRS = 6  # of more groups, each is compared with the first alone
_MAX_BYTES = 64 << 20  # of the values of one metric: the file may be a stranger's
_MAX_HASH = 12  # digits of a hash in a sentence


class Group(NamedTuple):
    """Runs that differ in the seed alone."""

    name: str  # of the group
    records: List[RunRecord]  # of its runs, one of each seed


class Band(NamedTuple):
    """A metric of a group."""

    value: float  # the mean over the seeds
    low: Optional[float]  # of the interval of the only run; of several seeds, the lowest value
    high: Optional[float]  # likewise
    deviation: Optional[float]  # the standard deviation over the seeds; None for one
    seeds: int  # how many there are

    def __str__(self) -> str:
        """`0.8380 [0.8032, 0.8675]`, or `0.8380 (sd 0.0050, 0.8320 to 0.8440, 3 seeds)`."""
        text = format_number(self.value)
        if self.low is None or self.high is None:
            return text
        low, high = format_number(self.low), format_number(self.high)
        if self.deviation is None:
            return f"{text} [{low}, {high}]"
        return f"{text} (sd {format_number(self.deviation)}, {low} to {high}, {self.seeds} seeds)"


class Verdict(NamedTuple):
    """The comparison of two groups by a metric."""

    metric: str  # its name; "" if the two are not comparable by any
    groups: Tuple[int, int]  # the positions of the two groups
    verdict: str  # "separated", "not separated" or "not comparable"
    text: str  # the verdict with its reason or its numbers
    separation: Optional[Separation] = None  # the numbers; None if they are not comparable


def measure_band(group: Group, name: str) -> Optional[Band]:
    """A metric of a group; None if a run does not have it."""
    metrics = [metrics_by_name(record).get(name) for record in group.records]
    known = [metric for metric in metrics if metric is not None]
    if not known or len(known) < len(metrics):
        return None
    if len(known) == 1:
        return Band(known[0].value, known[0].low, known[0].high, None, 1)
    values = [metric.value for metric in known]
    deviation = math.sqrt(sample_variance(values))
    return Band(float(np.mean(values)), min(values), max(values), deviation, len(values))


def choose_metrics(groups: Sequence[Group]) -> List[str]:
    """The metrics to compare: those of any group with a direction, the main one first."""
    records = [record for group in groups for record in group.records if record.test is not None]
    mains = [main_metric(record) for record in records]
    declared = [
        name
        for record in records
        for name, metric in metrics_by_name(record).items()
        if metric.direction and not name.endswith("_noise")
    ]
    return list(dict.fromkeys([*(main.name for main in mains if main), *declared]))


def list_pairs(count: int, max_all_pairs: int = MAX_ALL_PAIRS) -> List[Tuple[int, int]]:
    """The pairs of groups to compare: all, or of many groups each with the first alone."""
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    return [pair for pair in pairs if pair[0] == 0 or count <= max_all_pairs]


def judge(groups: Sequence[Group], metrics: Sequence[str], level: float = LEVEL) -> List[Verdict]:
    """Compare groups in pairs by each metric. With the probability `level`, no pair without a
    difference is called separated, and all intervals contain the true differences.

    A pair that no metric compares, for one reason, has one verdict; it has none by a metric that
    neither group has.
    """
    of_pair = {}
    for a, b in list_pairs(len(groups)):
        known = {name for i in (a, b) for record in groups[i].records for name in record.metrics}
        of_pair[a, b] = [name for name in metrics if name in known] or list(metrics[:1])
    reasons = {
        (name, a, b): find_obstacle(groups[a], groups[b], name)
        for name in metrics
        for (a, b), names in of_pair.items()
        if name in names
    }
    trials = [trial for trial, reason in reasons.items() if not reason]
    separators = [_separator(groups[a], groups[b], name) for name, a, b in trials]
    separations = dict(zip(trials, adjust(separators, level)))
    count = sum(not math.isnan(each.p) for each in separations.values())
    verdicts = []
    for (name, a, b), reason in reasons.items():
        pair, names = (groups[a], groups[b]), f"{groups[a].name} and {groups[b].name}"
        of_all = {reasons[each, a, b] for each in of_pair[a, b]}
        plugins = [group.records[0].plugin for group in pair]
        if len(metrics) > 1 and "" not in of_all and (len(of_all) == 1 or len(set(plugins)) > 1):
            if len(of_all) > 1:
                reason = f"other plugins ({plugins[0]} and {plugins[1]})"
            text = f"{names} are not comparable: {reason}"
            if name == of_pair[a, b][0]:
                verdicts.append(Verdict("", (a, b), NOT_COMPARABLE, text))
        elif reason:
            text = f"{name}: {names} are not comparable: {reason}"
            verdicts.append(Verdict(name, (a, b), NOT_COMPARABLE, text))
        else:
            separation = separations[name, a, b]
            word, text = _describe(groups[a], groups[b], name, separation, count)
            verdicts.append(Verdict(name, (a, b), word, text, separation))
    return verdicts


# ---------------------------------------------------------------------------------- comparability


def find_obstacle(a: Group, b: Group, name: str) -> str:
    """Why two groups cannot be compared by a metric, as a clause; "" if they can."""
    records = [*a.records, *b.records]
    for record in records:
        if record.test is None:
            return f"{record.name} has no result of the test split ({record.status})"
        if name not in record.metrics:
            return f"{record.name} has no {name}"
        if not math.isfinite(record.metrics[name]):
            return f"{name} of {record.name} is not finite"
    before = _dependencies(records[0], name)
    for other in records[1:]:
        after = _dependencies(other, name)
        changes = [
            f"other {key}: {_shorten(before.get(key))} and {_shorten(after.get(key))}"
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key)
        ]
        reason = _compare_splits(records[0], other, bool(before)) or "; ".join(changes)
        if reason:
            return reason
    return ""


def _compare_splits(a: RunRecord, b: RunRecord, by_form: bool) -> str:
    """How two test splits differ, as a clause; "" if they have the same examples in one order. With
    `by_form`, the same examples in another form, such as another size, are others.
    """
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
        names = " and ".join(dict.fromkeys([a.data_name, b.data_name]))
        return f"other test split: the data differs ({names})"
    if a.partition != b.partition:
        return "other test split: other examples of the data are held out"
    labels = [_label_columns(each) for each in (a, b)]
    if None not in labels and labels[0] != labels[1]:
        return f"other labels: {' and '.join(','.join(map(str, each or ())) for each in labels)}"
    is_other_form = by_form and None not in hashes
    return "other test split: the same examples, in another form" if is_other_form else ""


def _label_columns(record: RunRecord) -> Optional[List[Any]]:
    """The columns of a table, or the keys of records, that are the labels; None without them."""
    place: Any = record.manifest
    for name in ("data", "stored"):
        place = place.get(name) if isinstance(place, dict) else None
    source = (place.get("table") or place.get("records")) if isinstance(place, dict) else None
    labels = source.get("labels") if isinstance(source, dict) else None
    return labels if isinstance(labels, list) else None


def _dependencies(record: RunRecord, name: str) -> Dict[str, Any]:
    """What the values of a metric depend on beside the examples, as far as its scorer said."""
    values = record.of_test("depends_on", name)
    return values if isinstance(values, dict) else {}


def _shorten(value: Any) -> str:
    text = "unknown" if value is None else str(value)
    return text[:_MAX_HASH] if len(text) == 64 else text


# -------------------------------------------------------------------------------------- separation


def _separator(a: Group, b: Group, name: str) -> Callable[[float], Separation]:
    """The separation of two groups that are comparable, as a function of the level."""
    records = [*a.records, *b.records]
    arrays = [read_examples(record, name) for record in records]
    known = [array for array in arrays if array is not None]
    missing = [record.name for record, array in zip(records, arrays) if array is None]
    if not missing and len(set(map(len, known))) == 1:
        sides = known[: len(a.records)], known[len(a.records) :]
        return lambda level: separate(*sides, level)

    def separate_values(level: float) -> Separation:
        of_a, of_b = ([_estimate(r, name, level) for r in group.records] for group in (a, b))
        separation = separate(of_a, of_b, level)
        if known and missing:
            loss = f"not paired: {missing[0]} has no values of its examples"
            note = "; ".join(filter(None, [separation.note, loss]))
            separation = separation._replace(note=note)
        return separation

    return separate_values


def _estimate(record: RunRecord, name: str, level: float) -> Estimate:
    """The value of a metric with its interval at a level."""
    metric = metrics_by_name(record)[name]
    if metric.low is None or metric.high is None or metric.level is None:
        return Estimate(metric.value, math.nan, math.nan)
    scale = 1.0
    if 0 < metric.level < 1 and metric.level != level:
        scale = normal_quantile(0.5 + level / 2) / normal_quantile(0.5 + metric.level / 2)
    low = metric.value - scale * max(0.0, metric.value - metric.low)
    return Estimate(metric.value, low, metric.value + scale * max(0.0, metric.high - metric.value))


def read_examples(record: RunRecord, name: str) -> Optional[np.ndarray]:
    """The value of a metric for each example of the test split, bool or float [N].

    None if the run does not have them, or if the metric is not their mean.
    """
    try:
        place = f"{record.of_test('reports')}/{EXAMPLES}"
        with open_inside(record.path, place) as file, zipfile.ZipFile(file) as archive:
            if archive.getinfo(f"{name}.npy").file_size > _MAX_BYTES:
                return None
            array = archive.open(f"{name}.npy")
            values = np.lib.format.read_array(array, allow_pickle=False)
    except Exception:  # a damaged archive raises errors of many kinds
        return None
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "bf":
        return None
    return values if is_mean(record.metrics.get(name, math.nan), values) else None


# ------------------------------------------------------------------------------------------- words


def _describe(a: Group, b: Group, name: str, separation: Separation, count: int) -> Tuple[str, str]:
    """The verdict, and a sentence with the numbers, which are adjusted for `count` comparisons."""
    names, note = f"{a.name} and {b.name}", separation.note
    if math.isnan(separation.p):
        reason = note or "there is no interval"
        return NOT_COMPARABLE, f"{name}: {names} are not comparable: {reason}"
    if not note.startswith(("1 seed", "the first has", "the second has")):
        note = "; ".join(filter(None, ["{} and {} seeds".format(*separation.seeds), note]))
    for side, group in (("the first", a), ("the second", b)):
        words = f"{side} has 1 seed; its seeds are taken to vary like the other's"
        advice = f"{group.name} has 1 seed, taken to vary like the other's: train it with more"
        note = note.replace(words, advice)
    p = f"p = {separation.p:.2g}" if separation.p >= 1e-99 else "p < 1e-99"
    facts = [p, separation.method]
    facts += [f"p and interval adjusted for {count} comparisons"] if count > 1 else []
    remark = "; ".join([*facts, note])
    difference, low, high = separation[:3]
    if difference == 0:
        return NOT_SEPARATED, f"{name}: {names} are not separated: they do not differ ({remark})"
    if difference < 0:
        low, high = -high, -low
    numbers = f"{format_number(abs(difference))} [{format_number(low)}, {format_number(high)}]"
    direction = direction_of(a.records[0], name) or direction_of(b.records[0], name)
    word = "better" if direction else "higher"
    is_first = (difference > 0) == (direction != "min")
    winner, loser = (a.name, b.name) if is_first else (b.name, a.name)
    if separation.is_separated:
        return SEPARATED, f"{name}: {winner} is {word} than {loser} by {numbers} ({remark})"
    text = f"{name}: {names} are not separated: they differ by {numbers}, {winner} is {word}"
    return NOT_SEPARATED, f"{text} here ({remark})"
