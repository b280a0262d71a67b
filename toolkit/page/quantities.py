"""How good a run is: the plugin's headline, or the metrics of its test or last validation."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence

from ..comparison.metrics import DIRECTIONS, direction_of
from ..comparison.record import RunRecord, finite
from .curves import Curve
from .tables import place_on
from .values import clean_text, count, fields, format_alike, in_words, items

_FIRST = ("accuracy", "loss")  # after the metric that chooses the best checkpoint
_FEW = 4  # quantities that no plugin chose
_WORDS = {"max": "higher is better", "min": "lower is better"}


def parse_quantity(value: Any) -> Optional[Dict[str, Any]]:
    """A number with its interval and its scale for the templates, from the values that
    docs/plugins/pages.md describes; None if they are not valid.
    """
    values = fields(value)
    name, number = clean_text(values.get("name"), 80), finite(values.get("value"))
    if not name or number is None:
        return None
    low, high, level, floor, chance = (
        finite(values.get(key)) for key in ("low", "high", "level", "floor", "chance")
    )
    interval = (low, high) if low is not None and high is not None and low <= high else ()
    texts = format_alike([number, *(interval or (None, None)), floor, chance])
    pairs = ((f"floor {texts[3]}", floor), (f"chance {texts[4]}", chance))
    marks = {text: mark for text, mark in pairs if mark is not None}
    direction = values.get("direction") if values.get("direction") in DIRECTIONS else ""
    ends = [end for end in map(finite, items(values.get("ends"))) if end is not None]
    if len(ends) != 2:  # a share is between 0 and 1; what has a floor is above 0
        largest = max([number, *interval, *marks.values()])
        is_share = direction == "max" and 0 <= number <= 1
        ends = [0.0, 1.0] if is_share else [0.0, 1.1 * largest if marks else 0.0]
    scale = {
        "point": place_on(number, ends[0], ends[1]),
        "range": [place_on(end, ends[0], ends[1]) for end in interval],
        "ticks": [place_on(mark, ends[0], ends[1]) for mark in marks.values()],
        "ends": format_alike(ends),
        "better": {"max": "right", "min": "left"}.get(direction or ""),
    }
    has_scale = ends[0] < ends[1] and ends[0] <= number
    sentence = clean_text(values.get("text"))
    if chance is not None and direction == "max" and min(number, *interval, number) <= chance:
        sentence += " It may be no better than chance."
    return {
        "name": in_words(name),
        "text": f"{texts[0]} {clean_text(values.get('unit'), 20)}".strip(),
        "interval": f"{texts[1]} to {texts[2]}" if interval else "",
        "method": f"{100 * (level or 0.95):.3g} % interval {clean_text(values.get('method'), 80)}",
        "marks": list(marks),
        "scale": scale if has_scale else None,
        "sentence": sentence or ("" if has_scale else _WORDS.get(direction or "", "")),
        "note": clean_text(values.get("note")),
    }


def list_quantities(
    record: RunRecord, headline: Sequence[Dict[str, Any]], curves: Sequence[Curve]
) -> List[Dict[str, Any]]:
    """The numbers of the first screen: the plugin's headline, or else the metrics of the test, of
    the last validation, or of the end of the training.
    """
    if headline and record.test is not None:
        return list(headline)
    intervals = fields(fields(record.test).get("intervals"))
    values = {name: (value, "") for name, value in record.metrics.items()}
    for split in ("validation", "train"):
        if record.test is None and not values:
            last = {c.name: c.series.points()[-1:] for c in curves if c.split == split}
            values = {n: (p[0][1], f"{split}, step {p[0][0]:,}") for n, p in last.items() if p}
    quantities = [
        parse_quantity(
            {
                **fields(intervals.get(name)),
                **{"name": name, "value": values[name][0], "note": values[name][1]},
                "direction": direction_of(record, name) or ("min" if name == "loss" else None),
            }
        )
        for name in order_metrics(record, values)
    ]
    return [each for each in quantities if each is not None][:_FEW]


def order_metrics(record: RunRecord, names: Iterable[str]) -> List[str]:
    """Names of metrics, the most telling one first; without those that are the noise of others."""
    names = [name for name in names if not name.endswith("_noise")]
    first = [name for name in (fields(record.best).get("metric"), *_FIRST) if name in names]
    return list(dict.fromkeys([*first, *names]))


def describe_test(record: RunRecord) -> str:
    """`On 500 examples of the test split, best checkpoint, step 300.`; "" without a test."""
    test = fields(record.test)
    examples, step = count(test.get("examples")), count(test.get("step"))
    parts = ["On" if examples is None else f"On {examples:,} examples of", "the test split"]
    checkpoint = clean_text(test.get("checkpoint"), 20)
    more = [f"{checkpoint} checkpoint"] if checkpoint else []
    more += [f"step {step:,}"] if step is not None else []
    return f"{', '.join([' '.join(parts), *more])}." if test else ""
