"""The manifest of a run, `manifest.json`: read, and held against what the rest relies on."""

from __future__ import annotations

import json
import sys
from typing import Any, Dict

from ..errors import CheckpointError

FORMAT = 2
FINISHED = "finished"  # the status of a run with nothing left to do

# What the rest relies on in manifest.json: names, of which those with a ? may be missing, and what
# they hold: a type, [int] for a list of it, one of several in parentheses, or again names.
_SPEC = {
    "shape": [int],
    "dtype": ("uint8", "float32"),
    "num_classes?": int,
    "class_names?": [str],
    "class_counts?": [int],
}
_MANIFEST = {
    "status": str,
    "step?": int,
    "total_steps?": int,
    "reason?": str,
    "xla?": bool,
    "best?": (None, {"step": int}),
    "committed?": int,
    "metrics?": (None, dict),
    "summary?": (None, dict),
    "data": {
        "sha256": dict,
        "stored": _SPEC,
        "spec": _SPEC,
        "ink": (None, {"border": float, "mean": float}),
    },
}


def read(path: str) -> Dict[str, Any]:
    """What stands in the file. Raises CheckpointError where it is missing or damaged."""
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: expected a manifest of format {FORMAT}.",
            hint="Read it with the version of the toolkit that wrote it.",
        )
    fault = _misfit(manifest, _MANIFEST)
    if fault:
        raise CheckpointError(f"{path}: {fault}.")
    return manifest


def read_json(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing.") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}.") from None


def _misfit(value: Any, kind: Any, place: str = "") -> str:
    """In words, where a value is not what `kind` (as in _MANIFEST) says, or ''."""
    if not isinstance(kind, dict) or not isinstance(value, dict):
        return "" if _is(value, kind) else f"'{place}' is {ascii(value):.80}"
    known = {name.rstrip("?"): name for name in kind}
    odd = sorted(set(value) - set(known)) if kind is _SPEC else []
    if odd:
        return f"'{place}' has {ascii(odd[0]):.80}"
    for name, given in known.items():
        at = f"{place}.{name}".lstrip(".")
        if name not in value and given == name:
            return f"'{at}' is missing"
        fault = _misfit(value[name], kind[given], at) if name in value else ""
        if fault:
            return fault
    return ""


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind. Whole numbers are counts, and numbers are finite."""
    if isinstance(kind, tuple):
        return any(_is(value, each) for each in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is(part, kind[0]) for part in value)
    if isinstance(kind, dict):
        return isinstance(value, dict) and not _misfit(value, kind)
    if kind in (int, float):
        is_number = isinstance(value, (int, kind)) and not isinstance(value, bool)
        return is_number and (0 if kind is int else -sys.maxsize) <= value <= sys.maxsize
    return isinstance(value, kind) if isinstance(kind, type) else value == kind
