"""Classes of two data sets, matched by name."""

from __future__ import annotations

import re
from typing import List, Sequence, Set

import numpy as np

from ..errors import DataError
from .examples import Dataset, with_classes
from .spec import DataSpec

_NUMERAL = re.compile(r"[+-]?\d+(\.\d*)?$")


def match_classes(dataset: Dataset, spec: DataSpec) -> Dataset:
    """The data set with the class numbers of a model.

    Classes are matched by name. They are matched by number only where one side has the numbers from
    0 on for names, and the other one real names. Classes without examples need no match.

    Args:
        dataset: the data.
        spec: of the data that the model was trained on.

    Returns:
        The same data set if its classes have the model's numbers. Otherwise a data set with other
        labels, and a note on classes that it lacks, or on those that are matched by number.

    Raises:
        DataError: the data has a class that the model does not know.
    """
    names, expected = dataset.spec.class_names, spec.class_names
    if not names or not expected:
        return dataset
    unknown = [name for name in names if name not in expected]
    if unknown:
        with_examples = _names_with_examples(dataset)
        unknown = [name for name in unknown if name in with_examples]
    matches_numbers = _number_names(names, expected) or _number_names(expected, names)
    if unknown and matches_numbers and len(names) <= len(expected):
        pairs = ", ".join(f"{one!r} is {other!r}" for one, other in zip(names[:20], expected))
        dataset.notes.append(f"Its classes are matched by number with those of the model: {pairs}.")
        return dataset
    if unknown:
        raise DataError(
            f"The model does not know the class {', '.join(map(repr, unknown[:5]))} of the data.",
            hint=f"It was trained on {', '.join(map(repr, expected[:20]))}.",
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
    notes = [f"It has no examples of {', '.join(map(repr, absent[:20]))}."] if absent else []
    return Dataset(dataset.name, new_spec, splits, dataset.files, [*dataset.notes, *notes])


def _names_with_examples(dataset: Dataset) -> Set[str]:
    """The classes that occur as labels; all of them where an example has more than one label."""
    names = dataset.spec.class_names
    numbers: List[np.ndarray] = []
    for split in dataset.splits.values():
        if split.class_labels is None:
            return set(names)
        numbers.append(np.unique(split.class_labels))
    return {names[number] for number in np.concatenate(numbers)}


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether the names are those of classes without names: 0, 1, 2 and so forth."""
    return list(names) == [str(number) for number in range(len(names))]


def _number_names(numbers: Sequence[str], names: Sequence[str]) -> bool:
    """Whether one side has numbers for names, and the other real names."""
    return _are_numbers(numbers) and not any(map(_NUMERAL.match, names))
