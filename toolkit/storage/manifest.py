"""The manifest of a run, `manifest.json`: reading and validation."""

from __future__ import annotations

import json
import numbers
import sys
from typing import Any, Dict

from ..errors import CheckpointError
from ..files import MAX_DEPTH, is_deep, open_regular_file
from .parent import BRANCH, WEIGHTS

FORMAT = 3
FINISHED = "finished"  # the status of a run with nothing left to do
TRAINED = "trained"  # its status before its test


class _Row(tuple):
    """A schema of a list of a known length: one schema for each part."""

    __slots__ = ()


# The schema of manifest.json, as far as the code relies on it: names, where ? marks an optional
# one, with a type, [type] for a list, a tuple of alternatives, a _Row, or a nested schema.
_DTYPES = ("uint8", "float32", "int32", "int64", "bool", "string")
_COMPONENT = _Row(  # the fields of `Component`
    (
        [(None, int)],
        _DTYPES,
        ("image", "class", "value", "text"),
        int,
        [str],
        (str, numbers.Real),  # the padding, which may be infinite
        [int],
    )
)
_SPEC = {
    "shape": [int],
    "dtype": (*_DTYPES, ""),
    "num_classes?": int,
    "class_names?": [str],
    "class_counts?": [int],
    "value_range?": [float],
    "mean?": [float],
    "deviation?": [float],
    "components?": [_Row((str, _COMPONENT))],  # flat key, component
    "table?": (
        None,
        {
            "numbers": [str],
            "categories": dict,
            "texts": [str],
            "lists": [str],
            "images": [str],
            "labels": [str],
            "label_kind": ("", "class", "value"),
            "fills": [float],
            "is_one_hot": bool,
        },
    ),
    "records?": (None, {"features": [str], "labels": [str]}),
    "label_scale?": int,
}
_EVALUATION = {
    "step": int,
    "examples": int,
    "metrics": dict,
    "intervals?": dict,
    "intervals_omitted?": dict,
}
_MANIFEST = {
    "status": str,
    "step?": int,
    "total_steps?": int,
    "reason?": str,
    "seconds?": float,  # of training, in all sessions that ended
    "session_start?": float,  # of the last session, in seconds since the epoch
    "exit_code?": (None, int),  # of the process that trained; None until it has ended
    "xla?": bool,
    "reader?": str,
    "best?": (None, {"step": int, "metric?": str, "direction?": ("min", "max")}),
    "validation?": (None, {"last": _EVALUATION, "best": (None, _EVALUATION)}),
    "committed?": int,
    "parent?": (
        None,
        {
            "kind": (WEIGHTS, BRANCH),
            "name": str,
            "step": (None, int),
            "tensors": str,
            "head": str,
        },
    ),
    "metrics?": (None, dict),
    "presets?": [{"option": str, "name": str, "reason": str}],  # that the data chose
    "model?": {"parameters": int, "trainable": int, "variables": int},
    "git?": dict,
    "keeps_sources?": bool,
    "summary?": (None, dict),
    "data": {
        "sha256": dict,
        "partition?": str,
        "stored": _SPEC,
        "spec": _SPEC,
        "ink": (None, {"border": float, "mean": float}),
    },
}


class FormatError(CheckpointError):
    """A manifest of another version of the toolkit."""


def read(path: str) -> Dict[str, Any]:
    """The contents of a manifest. Raises CheckpointError if it is missing or damaged."""
    manifest = read_json(path)
    format = manifest.get("format") if isinstance(manifest, dict) else None
    if format != FORMAT:
        text = f"{path}: expected a manifest of format {FORMAT}"
        if not isinstance(format, int) or isinstance(format, bool):
            raise CheckpointError(f"{text}.", path=path)
        versions = manifest.get("versions")
        writer = versions.get("toolkit") if isinstance(versions, dict) else None
        raise FormatError(
            f"{text}, found {format}, written by version {str(writer or 'unknown'):.20}.",
            hint="Read it with the version of the toolkit that wrote it.",
            path=path,
        )
    fault = _find_mismatch(manifest, _MANIFEST)
    if fault:
        raise CheckpointError(f"{path}: {fault}.", path=path)
    return manifest


def read_json(path: str) -> Any:
    """The value in a JSON file. Raises CheckpointError if it cannot be read."""
    try:
        with open_regular_file(path) as file:
            text = file.read().decode("utf-8")
        value = json.loads(text)
        is_flat = text.count("[") + text.count("{") <= MAX_DEPTH  # most are, and it takes no walk
        if is_flat or not is_deep(value):
            return value
        fault = "is not valid: its values are nested too deeply"
    except FileNotFoundError:
        fault = "is missing"
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        fault = f"is not valid JSON: {error}"
    raise CheckpointError(f"{path} {fault}.", path=path)


def _find_mismatch(value: Any, schema: Any, place: str = "") -> str:
    """Where a value does not match a schema (see _MANIFEST), as a clause; '' if it matches."""
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return "" if _matches(value, schema) else f"'{place}' is {ascii(value):.80}"
    if schema is _SPEC:
        unknown = sorted(set(value) - {key.rstrip("?") for key in schema})
        if unknown:
            return f"'{place}' has {ascii(unknown[0]):.80}"
    for key, part in schema.items():
        name = key.rstrip("?")
        if name not in value:
            if key == name:
                return f"'{_join_place(place, name)}' is missing"
        elif not _matches(value[name], part):
            return _find_mismatch(value[name], part, _join_place(place, name))
    return ""


def _join_place(place: str, name: str) -> str:
    return f"{place}.{name}".lstrip(".")


def _matches(value: Any, schema: Any) -> bool:
    """Whether a value matches a schema. Integers have to be counts, and numbers finite."""
    if isinstance(schema, type) and schema not in (int, float):
        return isinstance(value, schema)  # most are
    if isinstance(schema, _Row):
        is_row = isinstance(value, list) and len(value) == len(schema)
        return is_row and all(map(_matches, value, schema))
    if isinstance(schema, tuple):
        return any(_matches(value, alternative) for alternative in schema)
    if isinstance(schema, list):
        return isinstance(value, list) and all(_matches(part, schema[0]) for part in value)
    if isinstance(schema, dict):
        return isinstance(value, dict) and not _find_mismatch(value, schema)
    if schema in (int, float):
        is_number = isinstance(value, (int, schema)) and not isinstance(value, bool)
        return is_number and (0 if schema is int else -sys.maxsize) <= value <= sys.maxsize
    return bool(value == schema)
