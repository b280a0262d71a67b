"""The metrics of an evaluation in one line, with their intervals."""

from __future__ import annotations

from typing import Any, Dict, List


def join_metrics(result: Dict[str, Any]) -> str:
    """`accuracy 0.9600 [0.9391, 0.9739]  loss 0.1234`; a metric may have no interval.

    Args:
        result: of an evaluation, as JSON values.
    """
    texts = []
    for name, value in sorted(result["metrics"].items()):
        interval = result.get("intervals", {}).get(name)
        ends = f" [{interval['low']:.4f}, {interval['high']:.4f}]" if interval else ""
        texts.append(f"{name} {value:.4f}{ends}")
    return "  ".join(texts)


def describe_level(result: Dict[str, Any]) -> str:
    """What the brackets are, as the end of a list: `; 95 % intervals in brackets`; or ""."""
    intervals = result.get("intervals", {}).values()
    levels = sorted({f"{100 * interval['level']:g} %" for interval in intervals})
    return f"; {' and '.join(levels)} intervals in brackets" if levels else ""


def describe_omissions(result: Dict[str, Any]) -> List[str]:
    """A line for each metric whose examples have values but give no interval."""
    omissions = sorted(result.get("intervals_omitted", {}).items())
    return [f"{name} has no interval: {reason}" for name, reason in omissions]
