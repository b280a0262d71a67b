"""Whether data is the data that a run was trained on, or other data that fits its model.

A run has the SHA-256 of each file of its data: one hash for many files, and a list of them in a
file. The list has the format of the command `sha256sum`, which can check it in the folder of the
data where no name has a line end or a backslash, which that command escapes.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Dict, Mapping, Sequence

import numpy as np

from ..errors import DataError, join_names
from ..files import atomic_write
from .column import VOID, Component, describe_shape
from .examples import Dataset, with_classes
from .spec import DataSpec
from .structure import FEATURES, LABELS, describe_key

LIST_FILE = "data.sha256"  # in the folder of a run
ALL_FILES = "all files"  # the name of the one hash
_MAX_NAMES = 20
_NUMERAL = re.compile(r"[+-]?\d+(\.\d*)?$")
RESUME_HINT = (
    "Put the same files back (--data says where), allow it with --allow data (toolkit resume), or "
    "start a new run."
)


def check_same_classes(record: Mapping[str, Any], dataset: Dataset) -> None:
    """Raise a DataError if the data has other classes than its record in the manifest of a run."""
    before, now = tuple(record["stored"].get("class_names", ())), tuple(dataset.spec.class_names)
    if before != now:
        past, present = (join_names(names, 20) or "none" for names in (before, now))
        raise DataError(
            f"The data has the classes {present}; the run was trained on {past}.",
            hint="Start a new run.",
        )
    scales = record["stored"].get("label_scale", 0), dataset.spec.label_scale
    if all(scales) and scales[0] != scales[1]:
        past, present = ("the class 1" if scale == VOID else "no class" for scale in scales)
        raise DataError(
            f"255 is {present} in the data's label images; in those of the run it was {past}.",
            hint="Start a new run.",
        )


def check_same_data(
    record: Mapping[str, Any], dataset: Dataset, hash_list: str, hint: str = RESUME_HINT
) -> None:
    """Raise a DataError that names the file, or the split, that is not the run's.

    The record is that of the data in the manifest of the run, whose list of hashes may be missing.
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
    """Raise a DataError that names the first component, by flat key, that a model of the spec
    cannot be fed. It begins with the subject: "The split". Others than the model's are not used.
    """
    if spec.labels is not None and not any(key.startswith(LABELS) for key in components):
        raise DataError(
            "The data to evaluate has no labels, but the model was trained with labels.",
            hint="Give --data with labels.",
        )
    for key, expected in spec.flat.items():
        actual, noun = components.get(key), describe_key(key)
        if actual is None:
            found, wanted = (", ".join(sorted(each)) for each in (components, spec.flat))
            hint = f"Choose other data: with {noun}."
        elif (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
            noun = "examples" if key == FEATURES else noun
            found, wanted = (f"{describe_shape(c.shape)} {c.dtype}" for c in (actual, expected))
            found = f"{noun} {found}"
            hint = "Choose other data, or resize images with --image-size when training."
        elif actual.num_classes > expected.num_classes > 0:
            found, wanted = f"{noun} of {actual.num_classes} classes", str(expected.num_classes)
            hint = "Choose other data: with the classes of the model."
        else:
            continue
        message = f"{subject} has {found}, the model was trained on {wanted}."
        raise DataError(message, hint=hint)


def match_classes(dataset: Dataset, spec: DataSpec) -> Dataset:
    """The data set with the class numbers of the model that was trained on data of this spec: the
    same one if it has them, otherwise one with other labels, and a note on classes that it lacks.

    Classes are matched by name. They are matched by number, with a note, only where one side has
    the numbers from 0 on for names, and the other one real names. Classes without examples need no
    match. Raises DataError if the data has a class that the model does not know.
    """
    names, expected = dataset.spec.class_names, spec.class_names
    if not names or not expected:
        return dataset
    unknown = [name for name in names if name not in expected]
    all_labels = [split.class_labels for split in dataset.splits.values()]
    if unknown and not any(labels is None for labels in all_labels):
        present = set(np.concatenate(all_labels).tolist())  # type: ignore[arg-type]
        unknown = [name for name in unknown if names.index(name) in present]
    matches_numbers = _number_names(names, expected) or _number_names(expected, names)
    if unknown and matches_numbers and len(names) <= len(expected):
        pairs = ", ".join(f"{one!r} is {other!r}" for one, other in zip(names[:20], expected))
        dataset.notes.append(f"Its classes are matched by number with those of the model: {pairs}.")
        return dataset
    if unknown:
        raise DataError(
            f"The model does not know the class {join_names([*map(repr, unknown)])} of the data.",
            hint=f"It was trained on {join_names([*map(repr, expected)], 20)}.",
        )
    if names == expected:
        return dataset
    number_of = {name: number for number, name in enumerate(expected)}
    numbers = np.array([number_of.get(name, -1) for name in names], np.int32)
    splits = {  # of other labels, which are no longer those of the label file
        name: split
        if split.class_labels is None
        else split.with_classes(numbers[split.class_labels])
        for name, split in dataset.splits.items()
    }
    new_spec = with_classes(dataset.spec, expected)
    absent = [name for name in expected if name not in names]
    notes = [f"It has no examples of {join_names([*map(repr, absent)], 20)}."] if absent else []
    return Dataset(dataset.name, new_spec, splits, dataset.files, [*dataset.notes, *notes])


def _number_names(numbers: Sequence[str], names: Sequence[str]) -> bool:
    """Whether one side has 0, 1, 2 and so forth for names, and the other real names."""
    is_numbered = list(numbers) == [str(number) for number in range(len(numbers))]
    return is_numbered and not any(map(_NUMERAL.match, names))


# ------------------------------------------------------------------------------------------ hashes


def summarize(hashes: Mapping[str, str]) -> Dict[str, str]:
    """The hashes by the names of the files, or one hash of them all if there are many.

    A summary is its own summary.
    """
    if len(hashes) <= _MAX_NAMES:
        return dict(hashes)
    return {ALL_FILES: hashlib.sha256(_format(hashes)).hexdigest()}


def write_list(path: str, hashes: Mapping[str, str]) -> None:
    """Write a line for each file."""
    with atomic_write(path) as file:
        file.write(_format(hashes))


def read_list(path: str) -> Dict[str, str]:
    """The inverse of `write_list`; {} if the file is missing or damaged."""
    try:
        with open(path, "rb") as file:
            lines = file.read().decode("utf-8", "surrogateescape").split("\n")[:-1]
    except (OSError, ValueError):
        return {}
    pairs = [line.partition("  ")[::2] for line in lines]
    return {name: digest for digest, name in pairs} if all(map(all, pairs)) else {}


def _format(hashes: Mapping[str, str]) -> bytes:
    text = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))
    return text.encode("utf-8", "surrogateescape")
