"""Classes of two data sets, matched by name."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from ..errors import DataError
from .examples import Dataset, Split, with_classes
from .spec import DataSpec


def match_classes(dataset: Dataset, spec: DataSpec) -> Dataset:
    """The data set with the class numbers of a model.

    Classes are matched by name. Where the names differ because the data or the model has numbers
    for names, they are matched by number.

    Args:
        dataset: the data.
        spec: of the data that the model was trained on.

    Returns:
        The same data set if its classes have the model's numbers. Otherwise a data set with other
        labels, and a note on classes that it lacks.

    Raises:
        DataError: the data has a class that the model does not know.
    """
    names, expected = dataset.spec.class_names, spec.class_names
    if not names or not expected:
        return dataset
    unknown = [name for name in names if name not in expected]
    if unknown and (_are_numbers(names) or _are_numbers(expected)):
        if len(names) > len(expected):
            raise DataError(
                f"The data has {len(names)} classes, the model was trained on {len(expected)}."
            )
        return dataset
    if unknown:
        raise DataError(
            f"The model does not know the class {', '.join(map(repr, unknown[:5]))} of the data.",
            hint=f"It was trained on {', '.join(map(repr, expected[:20]))}.",
        )
    if names == expected:
        return dataset
    number_of = {name: number for number, name in enumerate(expected)}
    numbers = np.array([number_of[name] for name in names], np.int32)
    splits = {name: _relabel(split, numbers) for name, split in dataset.splits.items()}
    new_spec = with_classes(dataset.spec, expected)
    absent = [name for name in expected if name not in names]
    notes = [f"It has no examples of {', '.join(map(repr, absent[:20]))}."] if absent else []
    return Dataset(dataset.name, new_spec, splits, dataset.files, [*dataset.notes, *notes])


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether the names are those of classes without names: 0, 1, 2 and so forth."""
    return list(names) == [str(number) for number in range(len(names))]


def _relabel(split: Split, numbers: np.ndarray) -> Split:
    """The split with the label numbers[i] for i; it is no longer that of the label file."""
    return split if split.class_labels is None else split.with_classes(numbers[split.class_labels])
