"""What the columns of a table are to a model, so that another table is read the same way."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, NamedTuple, Sequence, Tuple

NUMBERS = "numbers"  # the name of the columns of numbers, where there are other features


class TableSchema(NamedTuple):
    """The columns of a table, and what a model gets of each.

    Attributes:
        numbers: the columns of numbers, in the order of the last axis of the features.
        categories: the columns of texts that are classes, each with its texts in the order of their
            numbers.
        texts: the columns of other texts.
        lists: the columns of lists.
        images: the columns of paths of images.
        labels: the columns of labels; () for none.
        label_kind: "class" or "value"; "" for no labels.
        fills: the value of a missing number in each column of `numbers`; () if none may be missing.
        is_one_hot: whether categories are columns of 0 and 1 after the numbers.
    """

    numbers: Tuple[str, ...] = ()
    categories: Mapping[str, Sequence[str]] = {}
    texts: Tuple[str, ...] = ()
    lists: Tuple[str, ...] = ()
    images: Tuple[str, ...] = ()
    labels: Tuple[str, ...] = ()
    label_kind: str = ""
    fills: Tuple[float, ...] = ()
    is_one_hot: bool = False

    @property
    def features(self) -> Tuple[str, ...]:
        """All columns of features."""
        return (*self.numbers, *self.categories, *self.texts, *self.lists, *self.images)

    @property
    def component_names(self) -> Dict[str, str]:
        """The name of the component that each column becomes which is not one of numbers."""
        categories = () if self.is_one_hot else self.categories
        return component_names([*categories, *self.texts, *self.lists, *self.images])

    def to_json(self) -> Dict[str, Any]:
        return dict(self._asdict(), categories={n: list(v) for n, v in self.categories.items()})

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TableSchema:
        """The inverse of `to_json` after JSON, which has no tuples."""
        fields: Dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
            if name in cls._fields
        }
        return cls(**fields)


def component_names(columns: Sequence[str]) -> Dict[str, str]:
    """A name of letters, digits and underscores for each column, all different."""
    names: Dict[str, str] = {}
    for column in columns:
        name = re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_")
        name = name if name[:1].isalpha() else f"column_{name}".rstrip("_")
        number = 1
        while name in (*names.values(), NUMBERS):
            number += 1
            name = f"{name.rstrip('0123456789')}{number}"
        names[column] = name
    return names
