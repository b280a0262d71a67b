"""Whether data is the data that a run was trained on."""

from __future__ import annotations

from typing import Any, Mapping

from ..errors import DataError
from .column import VOID, Component, describe_shape
from .examples import Dataset
from .files.hash_list import ALL_FILES, read_list, summarize
from .spec import DataSpec
from .structure import FEATURES, LABELS, describe_key

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
    scales = record["stored"].get("label_scale", 0), dataset.spec.label_scale
    if all(scales) and scales[0] != scales[1]:
        past, present = ("the class 1" if scale == VOID else "no class" for scale in scales)
        raise DataError(
            f"255 is {present} in the data's label images; in those of the run it was {past}.",
            hint="Start a new run.",
        )


def _join(names: Any) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") or "none"


def check_same_data(
    record: Mapping[str, Any], dataset: Dataset, hash_list: str, hint: str = RESUME_HINT
) -> None:
    """Raise a DataError that names the file, or the split, that is not the run's.

    Args:
        record: of the data, in the manifest of the run.
        dataset: the data now.
        hash_list: the path of the run's list of hashes, which may be missing.
        hint: what to do.
    """
    if record["sha256"] and summarize(record["sha256"]) != summarize(dataset.sha256):
        expected, actual, names = record["sha256"], dataset.sha256, read_list(hash_list)
        if ALL_FILES in expected and summarize(names) == expected:
            expected = names
        elif ALL_FILES in expected:  # the names are lost
            actual = summarize(actual)
        name = min(n for n in set(expected) | set(actual) if expected.get(n) != actual.get(n))
        difference = f"{name} has SHA-256 {actual.get(name)}, expected {expected.get(name)}"
        if name not in expected or name not in actual:
            difference = f"{name} is {'missing' if name in expected else 'new'}"
        raise DataError(f"The data is not the run's: {difference}.", hint=hint)
    is_held_out = any(split.index is not None for split in dataset.splits.values())
    is_known = "partition" in record or bool(dataset.files)  # else a plugin chose the examples
    if is_held_out and is_known and record.get("partition") != dataset.partition():
        raise DataError(
            "The examples that are held out for validation and test are not those of the run: "
            "the options that choose them, or the version of the toolkit, differ.",
            hint=hint,
        )


def check_fit(components: Mapping[str, Component], spec: DataSpec, subject: str) -> None:
    """Raise a DataError that names the first component that a model cannot be fed.

    Args:
        components: of the data, by flat key; others than the model's are not used.
        spec: of the data that the model was trained on.
        subject: what the data is, as it begins the message: "The split".
    """
    if spec.labels is not None and not any(key.startswith(LABELS) for key in components):
        raise DataError(
            "The data to evaluate has no labels, but the model was trained with labels.",
            hint="Give --data with labels.",
        )
    for key, expected in spec.flat.items():
        actual = components.get(key)
        if actual is None:
            raise DataError(
                f"{subject} has {', '.join(sorted(components))}, the model was trained on "
                f"{', '.join(sorted(spec.flat))}.",
                hint=f"Choose other data: with {describe_key(key)}.",
            )
        if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
            noun = "examples" if key == FEATURES else describe_key(key)
            raise DataError(
                f"{subject} has {noun} {_describe(actual)}, the model was trained on "
                f"{_describe(expected)}.",
                hint="Choose other data, or resize images with --image-size when training.",
            )
        if actual.num_classes > expected.num_classes > 0:
            raise DataError(
                f"{subject} has {describe_key(key)} of {actual.num_classes} classes, the model was "
                f"trained on {expected.num_classes}.",
                hint="Choose other data: with the classes of the model.",
            )


def _describe(component: Component) -> str:
    return f"{describe_shape(component.shape)} {component.dtype}"
