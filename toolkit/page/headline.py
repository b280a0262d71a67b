"""How good a run is: the plugin's headline, or the metrics of its test or last validation."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ..comparison.record import RunRecord
from .curves import Curve
from .sections import MAX_HEADLINE, parse_quantity
from .values import clean_text, count, fields

_COMMON = ("accuracy", "loss")  # which come after the metric that chooses the best checkpoint
_FEW = 4  # quantities


def list_quantities(
    record: RunRecord, headline: Sequence[Dict[str, Any]], curves: Sequence[Curve]
) -> List[Dict[str, Any]]:
    """The numbers of the first screen.

    Args:
        record: of the run.
        headline: the valid quantities of the plugin; may be empty.
        curves: of the run.
    """
    test = record.test
    if test is not None:
        place = _describe_test(test)
        quantities = list(headline) or _test_quantities(record, test)
        return [dict(each, note=each["note"] or place) for each in quantities[:MAX_HEADLINE]]
    return _validation_quantities(record, curves)


def _describe_test(test: Dict[str, Any]) -> str:
    """`test split, 500 examples, step 300`."""
    examples, step = count(test.get("examples")), count(test.get("step"))
    parts = [f"{clean_text(test.get('split'), 40) or 'test'} split"]
    if examples is not None:
        parts.append(f"{examples:,} examples")
    if step is not None:
        checkpoint = clean_text(test.get("checkpoint"), 20)
        parts.append(f"{checkpoint} checkpoint, step {step:,}" if checkpoint else f"step {step:,}")
    return ", ".join(parts)


def _test_quantities(record: RunRecord, test: Dict[str, Any]) -> List[Dict[str, Any]]:
    metrics, intervals = fields(test.get("metrics")), fields(test.get("intervals"))
    quantities = [
        parse_quantity(dict(fields(intervals.get(name)), name=name, value=metrics[name]))
        for name in order_metrics(record, metrics)
    ]
    return [each for each in quantities if each is not None][:_FEW]


def order_metrics(record: RunRecord, names: Any) -> List[str]:
    """Names of metrics, the most telling one first; without those that are the noise of others."""
    names = [name for name in names if not name.endswith("_noise")]
    best = fields(record.best).get("metric")
    first = [name for name in (best, *_COMMON) if name in names]
    return list(dict.fromkeys([*first, *names]))


def _validation_quantities(record: RunRecord, curves: Sequence[Curve]) -> List[Dict[str, Any]]:
    """The last values of the validation, or else of the training."""
    for split in ("validation", "train"):
        series = {curve.name: curve.series for curve in curves if curve.split == split}
        quantities = [_last(name, series[name], split) for name in order_metrics(record, series)]
        valid = [each for each in quantities if each is not None]
        if valid:
            return valid[:_FEW]
    return []


def _last(name: str, series: Any, split: str) -> Optional[Dict[str, Any]]:
    last = series.last()
    if last is None:
        return None
    step, value = last
    return parse_quantity({"name": name, "value": value, "note": f"{split}, step {step:,}"})
