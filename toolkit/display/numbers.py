"""Numbers, durations, sizes and the metrics of an evaluation as a person reads them."""

from __future__ import annotations

from typing import Any, Dict, List


def format_number(value: float) -> str:
    """Four significant digits: 0.1234, 12.35, 1.20e-05."""
    value += 0.0  # -0.0 has no sign
    if value == 0 or 1e-3 <= abs(value) < 9999.5:
        return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"
    return "10000" if 9999.5 <= value < 10000.5 else f"{value:.2e}"


def format_rate(value: float, mark: str = "") -> str:
    """`12345`, with a mark `12,345`; `2.5` and `0.031` of what is slow."""
    return f"{value:{mark}.0f}" if value >= 10 else f"{value:.2g}"


def format_count(number: int, noun: str, plural: str = "", mark: str = "") -> str:
    """`1 step`, `2000 steps`, with a mark `2,000 steps`."""
    return f"{number:{mark}} {noun if number == 1 else plural or noun + 's'}"


def format_duration(seconds: float) -> str:
    """`2.5 s`, `26 s`, `3 min 20 s`, `5 h 12 min`, `2 d 3 h`."""
    total = int(round(seconds))
    if total < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{total} s"
    if total < 7200:
        return f"{total // 60} min {total % 60} s"
    hours, minutes = total // 3600, total % 3600 // 60
    return f"{hours // 24} d {hours % 24} h" if hours >= 48 else f"{hours} h {minutes} min"


def format_bytes(count: int) -> str:
    """`512 bytes`, `2.5 kB`, `1.2 GB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def join_metrics(result: Dict[str, Any]) -> str:
    """`accuracy 0.9600 [0.9391, 0.9739]  loss 0.1234` of an evaluation; some have no interval."""
    texts = []
    for name, value in sorted(result["metrics"].items()):
        interval = result.get("intervals", {}).get(name)
        ends = [format_number(interval[end]) for end in ("low", "high")] if interval else []
        texts.append(f"{name} {format_number(value)}" + (f" [{', '.join(ends)}]" if ends else ""))
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
