"""How good a run is: the plugin's headline, or the metrics of its test or last validation."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence

from ..comparison.metrics import DIRECTIONS, direction_of
from ..comparison.record import RunRecord, finite
from .curves import Curve
from .tables import place_on
from .values import (
    clean_text,
    count,
    fields,
    format_alike,
    format_count,
    format_number,
    in_words,
    items,
)

_FIRST = ("accuracy", "loss")  # after the metric that chooses the best checkpoint
_FEW = 4  # quantities that no plugin chose
_WORDS = {"max": "higher is better", "min": "lower is better"}
_NO_WORD = "Of a loss of two networks, neither higher nor lower values are better by themselves."


def parse_quantity(value: Any) -> Optional[Dict[str, Any]]:
    """A number with its interval and its scale for the templates, from the values that
    docs/plugins/pages.md describes; None if they are not valid.
    """
    values = fields(value)
    name, number = clean_text(values.get("name"), 80), finite(values.get("value"))
    if not name or number is None:
        return None
    low, high, level = (finite(values.get(key)) for key in ("low", "high", "level"))
    interval = [low, high] if low is not None and high is not None and low <= high else []
    found = [(key, finite(values.get(key))) for key in ("floor", "chance")]
    marks = {key: mark for key, mark in found if mark is not None}
    drawn = [values["value"], *interval, *marks.values()]
    text, *texts = format_alike(drawn)
    direction = next((each for each in DIRECTIONS if each == values.get("direction")), "")
    ends = [end for end in map(finite, items(values.get("ends"))) if end is not None]
    if len(ends) != 2:  # a share is between 0 and 1; what has a floor is above 0
        is_share = direction == "max" and 0 <= number <= 1
        ends = [0.0, 1.0] if is_share else [0.0, 1.1 * max(drawn) if marks else 0.0]
    has_scale = ends[0] < ends[1] and ends[0] <= number
    places = [place_on(each, ends[0], ends[1]) for each in drawn]
    scale = {
        "point": places[0],
        "range": places[1 : 1 + len(interval)],
        "ticks": places[1 + len(interval) :],
        "ends": list(map(format_number, ends)),
        "better": {"max": "right", "min": "left"}.get(direction),
    }
    sentence = clean_text(values.get("text")) or ("" if has_scale else _WORDS.get(direction, ""))
    if direction == "max" and min([number, *interval]) <= marks.get("chance", -math.inf):
        sentence += " It may be no better than chance."
    return {
        "name": in_words(name),
        "text": f"{text} {clean_text(values.get('unit'), 20)}".strip(),
        "interval": " to ".join(texts[: len(interval)]),
        "method": f"{100 * (level or 0.95):.3g} % interval {clean_text(values.get('method'), 80)}",
        "marks": [" ".join(pair) for pair in zip(marks, texts[len(interval) :])],
        "scale": scale if has_scale else None,
        "sentence": sentence,
        "note": clean_text(values.get("note")),
    }


def list_quantities(
    record: RunRecord, headline: Sequence[Dict[str, Any]], curves: Sequence[Curve]
) -> List[Dict[str, Any]]:
    """The numbers of the first screen: the plugin's headline, or else the metrics of the test, of
    the last validation, or of the end of the training, the most telling one first.
    """
    if headline and record.test is not None:
        return list(headline)
    intervals = fields(fields(record.test).get("intervals"))
    values = {name: (value, "") for name, value in record.metrics.items()}
    for split in ("validation", "train"):
        if record.test is None and not values:
            last = {c.name: c.points()[-1:] for c in curves if c.split == split}
            values = {n: (p[0][1], f"{split}, step {p[0][0]:,}") for n, p in last.items() if p}
    names = [name for name in values if not name.endswith("_noise")]
    first = [name for name in (fields(record.best).get("metric"), *_FIRST) if name in names]
    quantities = []
    for name in dict.fromkeys([*first, *names]):
        direction = direction_of(record, name) or ("min" if name == "loss" else None)
        text = _NO_WORD if name in ("d_loss", "g_loss") and not direction else ""
        declared = dict(zip(("name", "value", "note"), (name, *values[name])), text=text)
        interval = fields(intervals.get(name))
        quantities.append(parse_quantity({**interval, **declared, "direction": direction}))
    return [each for each in quantities if each is not None][:_FEW]


def describe_test(record: RunRecord) -> str:
    """`On the test split, 500 examples, best checkpoint, step 300.`; "" without a test."""
    test = fields(record.test)
    examples, step = count(test.get("examples")), count(test.get("step"))
    checkpoint = clean_text(test.get("checkpoint"), 20)
    texts = [
        "On the test split",
        "" if examples is None else format_count(examples, "example"),
        checkpoint and f"{checkpoint} checkpoint",
        "" if step is None else f"step {step:,}",
    ]
    return f"{', '.join(filter(None, texts))}." if test else ""
