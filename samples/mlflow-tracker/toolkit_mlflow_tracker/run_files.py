"""What MLflow gets of a run, read from its folder (docs/runs.md says what is in it)."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional

ARTIFACTS = ("config.json", "manifest.json", "report.html", "reports", "samples")
# The lengths that MLflow 1.30 accepts.
MAX_VALUE, MAX_KEY = 500, 200


class Value(NamedTuple):
    """A metric of a step."""

    key: str
    value: float
    step: int


def read_config(folder: str) -> Dict[str, Any]:
    """Return plugin, extensions and options of a run by name."""
    config = _read_json(folder, "config.json")
    config.pop("origins", None)
    return config


def read_params(folder: str) -> Dict[str, str]:
    """Return the options as the texts of MLflow's parameters."""
    return {clean(name): _text(value) for name, value in read_config(folder).items()}


def read_tags(folder: str) -> Dict[str, str]:
    """Return what identifies a run and what it was trained with."""
    manifest = _read_json(folder, "manifest.json")
    tags = {f"version.{name}": text for name, text in manifest.get("versions", {}).items()}
    tags.update({"toolkit.run": folder, "mlflow.runName": os.path.basename(folder)})
    return {clean(name): _text(value) for name, value in tags.items()}


def read_records(folder: str, step: Optional[int]) -> List[Dict[str, Any]]:
    """Return the records of metrics.jsonl.

    Args:
        folder: of the run.
        step: the step of the last commit; a kill may take back what is later. None for all.
    """
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        lines = file.read().split("\n")[:-1]  # the last line may be written just now
    records = [json.loads(line) for line in lines]
    return [record for record in records if step is None or record["step"] <= step]


def values_of(record: Dict[str, Any]) -> List[Value]:
    """Return the metrics of a record: train/loss, validation/accuracy."""
    if record.get("kind") not in ("train", "eval"):
        return []
    split = record.get("split", record["kind"])
    return [
        Value(f"{split}/{clean(name)}", float(value), record["step"])
        for name, value in record.items()
        if name != "step" and _is_number(value)
    ]


def read_test(folder: str) -> List[Value]:
    """Return the metrics of the test, with the ends of their intervals."""
    test = (_read_json(folder, "manifest.json").get("summary") or {}).get("test") or {}
    step, values = test.get("step", 0), dict(test.get("metrics", {}))
    for name, interval in (test.get("intervals") or {}).items():
        values.update({f"{name}_{end}": interval.get(end) for end in ("low", "high")})
    return [
        Value(f"test/{clean(name)}", float(value), step)
        for name, value in values.items()
        if _is_number(value)
    ]


def clean(name: str) -> str:
    """Return a name in the characters that MLflow accepts.

    A `/` becomes a `.`: in a local folder, `loss` is a file and could not be a folder, too.
    """
    return re.sub(r"[^\w\-. ]", "_", name.replace("/", "."), flags=re.ASCII)[:MAX_KEY]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 3] + "..."


def _read_json(folder: str, name: str) -> Dict[str, Any]:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)
