"""What the page of several runs says, and that of a search: one table, the best first, and curves.

A row is a group of runs that differ in the seed alone; of a search, a configuration.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..comparison.differences import is_default, show_value
from ..comparison.record import RunRecord, finite
from ..comparison.verdict import NOT_SEPARATED, SEPARATED
from .chart import Line, make_chart
from .curves import Curve
from .tables import Span, make_table
from .values import format_alike, format_count, in_words

_MAX_OPTIONS, _MAX_METRICS, _MAX_CHARTS = 10, 4, 9
_POINTS = 800  # of all lines of a chart


def describe_comparison(records: Sequence[RunRecord], comparison: Dict[str, Any]) -> Dict[str, Any]:
    """The table of a comparison with its words, from the values of `compare`."""
    names = shorten(comparison["names"])
    metrics = [each for each in comparison["metrics"] if sum(map(bool, each["values"])) > 1]
    main: Dict[str, Any] = {"name": "", "direction": "", "values": [None] * len(names)}
    main.update(metrics[0] if metrics else {})
    spans = [_as_span(value) for value in main["values"]]
    sign = 1.0 if main["direction"] == "min" else -1.0
    merits = [float("inf") if span is None else sign * span.value for span in spans]
    order = sorted(range(len(names)), key=merits.__getitem__)
    verdicts, against = _judge(comparison, main["name"], order)
    options, others = _list_options(records, comparison), metrics[1 : _MAX_METRICS + 1]
    columns = ["run", in_words(main["name"]) or "metric", against]
    columns += [each["name"] for each in options] + [in_words(each["name"]) for each in others]
    rows = []
    for group in order:
        places = comparison["groups"][group]
        values = [[option["values"][place] for place in places] for option in options]
        texts = [", ".join(dict.fromkeys(map(show_value, each))) for each in values]
        numbers = [(metric["values"][group] or {}).get("value") for metric in others]
        first = records[places[0]]
        last = [first.step, first.seconds and round(first.seconds), first.status]
        rows.append([names[group], spans[group], verdicts[group][0], *texts, *numbers, *last])
    table = make_table("The runs, the best first", [*columns, "step", "seconds", "status"], rows)
    for group, row in zip(order, table["rows"]):
        row.update(look=group)
        row["cells"][2].update(title=verdicts[group][1], is_word=True)
    best, words = spans[order[0]], [word for word, _ in verdicts.values()]
    lead = "There is no metric to compare the runs by."
    if best is not None:
        value = format_alike([best.value])[0]
        lead = f"{names[order[0]]} is first, with {in_words(main['name'])} {value}."
    if {"best", "leads"} & set(words):
        count = format_count(len(words) - 1, "other")
        lead += f" Of {count}, {words.count('cannot tell')} cannot be told from it."
    sentences = {f"Other {name}": comparison[name] for name in ("code", "data", "software")}
    for title, key in (("All verdicts", "verdicts"), ("Where the runs parted", "parting")):
        sentences[title] = [each["text"] for each in comparison[key]]
    return {
        "table": table,
        "lead": lead,
        "direction": {"max": "Higher is better.", "min": "Lower is better."}.get(main["direction"]),
        "sentences": {title: texts for title, texts in sentences.items() if texts},
    }


def shorten(names: Sequence[str]) -> List[str]:
    """Names of runs without the folders that all of them are in."""
    parts = [name.split(os.sep) for name in names]
    length = len(os.path.commonprefix([each[:-1] for each in parts])) if len(names) > 1 else 0
    return [os.sep.join(each[length:]) for each in parts]


def _judge(
    comparison: Dict[str, Any], metric: str, order: Sequence[int]
) -> Tuple[Dict[int, Tuple[str, str]], str]:
    """A word and a sentence for each group, and what it is compared with: the best one if each was
    compared with it, else the first that was named.
    """
    known = [each for each in comparison["verdicts"] if each["metric"] in (metric, "")]
    pairs = {frozenset(each["groups"]): each for each in known}
    is_all = all(frozenset((order[0], group)) in pairs for group in order[1:])
    reference = order[0] if is_all else 0
    words = {reference: ("–", "")}
    for group in set(order) - {reference}:
        verdict = pairs.get(frozenset((reference, group)), {})
        is_better = order.index(group) < order.index(reference)
        by_verdict = {SEPARATED: "better" if is_better else "worse", NOT_SEPARATED: "cannot tell"}
        word = by_verdict.get(verdict.get("verdict", ""), "cannot compare")
        words[group] = word, verdict.get("text", "")
    if is_all and len(order) > 1:
        is_alone = all(words[group][0] == "worse" for group in order[1:])
        words[reference] = "best" if is_alone else "leads", ""
    return words, "verdict" if is_all else f"against {shorten(comparison['names'])[0]}"


def _as_span(value: Optional[Dict[str, Any]]) -> Optional[Span]:
    number, low, high = (finite((value or {}).get(key)) for key in ("value", "low", "high"))
    return None if number is None else Span(number, low, high)


def _list_options(records: Sequence[RunRecord], comparison: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The options that differ, without those that presets set: the preset is one of them."""
    return [
        option
        for option in comparison["options"]
        if not any((origin or "").startswith("preset ") for origin in option["origins"])
        or not all(is_default(record, option["name"]) for record in records)
    ][:_MAX_OPTIONS]


def draw_shared_curves(
    names: Sequence[str], curves: Sequence[Sequence[Curve]], groups: Sequence[Sequence[int]]
) -> List[Dict[str, Any]]:
    """A chart for each metric and split with a line for each run, those of validations first; the
    runs of each of `groups`, which has their positions, share a colour.
    """
    by_chart: Dict[Tuple[bool, str, str], List[Tuple[int, Curve]]] = {}
    for place, members in enumerate(curves):
        for curve in members:
            key = (curve.split != "validation", curve.name, curve.split)
            by_chart.setdefault(key, []).append((place, curve))
    group_of = {place: number for number, places in enumerate(groups) for place in places}
    charts = []
    for key in sorted([key for key in by_chart if len(by_chart[key]) > 1], key=lambda key: key[0]):
        limit = max(20, _POINTS // len(by_chart[key]))
        lines = [
            Line(names[place], curve.thin(limit), (group_of[place], group_of[place] // 8))
            for place, curve in by_chart[key]
        ]
        charts.append(make_chart(f"{in_words(key[1])}, {key[2]}", lines))
    return charts[:_MAX_CHARTS]


def describe_search(search: Dict[str, Any]) -> Dict[str, Any]:
    """The table of a search with its words, from what its table.json has."""
    metric, options = search["study"]["metric"], list(search["space"])
    names = ("seeds", "status", "reason", "step", "cpu_secs")
    facts = [name for name in names if any(row[name] for row in search["rows"])]
    rows = [
        [
            row["number"],
            _as_span(row),
            *(show_value(row["values"][name]) for name in options),
            *(row[name] for name in facts),
        ]
        for row in search["rows"]
    ]
    columns = ["configuration", f"validation {metric}", *options, *facts]
    columns = ["CPU seconds" if name == "cpu_secs" else in_words(name) for name in columns]
    band = search["test"].get(metric, {})
    numbers = [finite(band.get(name)) for name in ("value", "low", "high")]
    value, *ends = format_alike(numbers)
    interval = "" if None in numbers else " to ".join(ends)
    test = {"name": metric, "value": value, "interval": interval}
    return {
        **{name: search[name] for name in ("budget", "intervals", "again", "space")},
        "test": None if numbers[0] is None else test,
        "lead": search["verdict"].partition(" (p = ")[0],
        "table": make_table("The configurations, the best first", columns, rows),
    }
