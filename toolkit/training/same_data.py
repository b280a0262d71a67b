"""Whether the data of a resume is the data that a run began with."""

from __future__ import annotations

from typing import Any, Mapping

from ..data.examples import Dataset
from ..errors import DataError


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


def check_same_data(record: Mapping[str, Any], dataset: Dataset) -> None:
    """Raise a DataError that names the file, or the split, that is not the run's.

    Args:
        record: of the data, in the manifest of the run.
        dataset: the data now.
    """
    expected, actual = record["sha256"], dataset.sha256
    for name in sorted(set(expected) | set(actual)) if expected else ():
        if expected.get(name) != actual.get(name):
            raise DataError(
                f"The data is not the run's: {name} has SHA-256 {actual.get(name)}, "
                f"expected {expected.get(name)}.",
                hint="Put the same files back (--data says where), allow it with --allow data, "
                "or start a new run.",
            )
    is_held_out = any(split.index is not None for split in dataset.splits.values())
    if is_held_out and record.get("partition") != dataset.partition():
        raise DataError(
            "The examples that are held out for validation and test are not those of the run.",
            hint="An earlier version chose them otherwise: continue with that version, allow it "
            "with --allow data, or start a new run.",
        )
