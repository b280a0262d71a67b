"""Whether data is the data that a run was trained on."""

from __future__ import annotations

from typing import Any, Mapping

from ..errors import DataError
from .examples import Dataset

RESUME_HINT = (
    "Put the same files back (--data says where), allow it with --allow data, or start a new run."
)


def check_same_classes(record: Mapping[str, Any], dataset: Dataset) -> None:
    """Raise a DataError if the data has other classes, which no model of the run can learn.

    Args:
        record: of the data, in the manifest of the run.
        dataset: the data now.
    """
    before, now = tuple(record["stored"].get("class_names", ())), tuple(dataset.spec.class_names)
    if before != now:
        raise DataError(
            f"The data has the classes {_join(now)}; the run was trained on {_join(before)}.",
            hint="Start a new run.",
        )


def _join(names: Any) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") or "none"


def check_same_data(record: Mapping[str, Any], dataset: Dataset, hint: str = RESUME_HINT) -> None:
    """Raise a DataError that names the file, or the split, that is not the run's.

    Args:
        record: of the data, in the manifest of the run.
        dataset: the data now.
        hint: what to do.
    """
    expected, actual = record["sha256"], dataset.sha256
    for name in sorted(set(expected) | set(actual)) if expected else ():
        if expected.get(name) != actual.get(name):
            raise DataError(
                f"The data is not the run's: {name} {_describe(expected, actual, name)}.", hint=hint
            )
    is_held_out = any(split.index is not None for split in dataset.splits.values())
    is_known = "partition" in record or bool(dataset.files)  # else a plugin chose the examples
    if is_held_out and is_known and record.get("partition") != dataset.partition():
        raise DataError(
            "The examples that are held out for validation and test are not those of the run: "
            "the options that choose them, or the version of the toolkit, differ.",
            hint=hint,
        )


def _describe(expected: Mapping[str, str], actual: Mapping[str, str], name: str) -> str:
    if name not in expected:
        return "is new"
    if name not in actual:
        return "is missing"
    return f"has SHA-256 {actual[name]}, expected {expected[name]}"
