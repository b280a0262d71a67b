"""What the autopsy of a divergence says, as sentences for a page."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from ..comparison.record import RunRecord, finite
from ..files import open_regular_file
from ..storage.jsonl import parse_object
from ..storage.report_folder import REPORTS
from .values import clean_text, count, fields, format_number, items

DIVERGED = "diverged"
_MAX_BYTES = 1 << 20
_TENSOR = 120  # characters of a name


def autopsy_place(record: RunRecord) -> str:
    """The path of the autopsy's report in the folder of a run that diverged; else ""."""
    return f"{REPORTS}/autopsy-{record.step}" if record.status == DIVERGED else ""


def read_autopsy(record: RunRecord) -> Dict[str, Any]:
    """The finding in autopsy.json; {} if there is none or it cannot be read."""
    place = autopsy_place(record)
    if not place:
        return {}
    try:
        with open_regular_file(os.path.join(record.path, place, "autopsy.json")) as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    return parse_object(text) or {}


def describe_autopsy(finding: Dict[str, Any]) -> List[str]:
    """The first tensor that was not finite, where it was created, its inputs, and what to do."""
    tensor = fields(finding.get("tensor"))
    name = clean_text(tensor.get("name"), _TENSOR)
    if not name:
        return []
    kind = clean_text(finding.get("op_type"), _TENSOR)
    texts = [f"The first tensor that is not finite is {name}{f' (op {kind})' if kind else ''}"]
    texts[0] += f": {_describe_tensor(tensor)}."
    frame = fields(items(finding.get("stack"))[-1]) if items(finding.get("stack")) else {}
    line = count(frame.get("line"))
    place = f"{os.path.basename(clean_text(frame.get('file'), 400))}:{line}"
    if line is not None:
        source = clean_text(frame.get("source"), 200)
        texts.append(f"It was created at {place}{f': {source}' if source else ''}")
    for each in [fields(part) for part in items(finding.get("inputs"))[:4]]:
        if clean_text(each.get("name")):
            name = clean_text(each.get("name"), _TENSOR)
            texts.append(f"Its input {name}: {_describe_tensor(each)}.")
    first = f"Mend {place} where its values can be wrong; else try" if line is not None else "Try"
    return texts + [f"{first} a lower --learning-rate, or --on-nonfinite skip."]


def _describe_tensor(tensor: Dict[str, Any]) -> str:
    """`float32 [64, 10], 640 inf`, or with its range."""
    sides = ", ".join(str(count(side)) for side in items(tensor.get("shape"))[:8])
    text = f"{clean_text(tensor.get('dtype'), 20)} [{sides}]"
    low, high = finite(tensor.get("low")), finite(tensor.get("high"))
    if low is not None and high is not None:
        text += f", {format_number(low)} to {format_number(high)}"
    counts = [(count(tensor.get(kind)), kind) for kind in ("nan", "inf")]
    return ", ".join([text, *(f"{number:,} {kind}" for number, kind in counts if number)])
