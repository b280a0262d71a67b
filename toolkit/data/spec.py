"""What the examples of a data set are: shapes, dtypes, kinds and classes; and what the columns of a
table are, so that another table is read the same way.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import CheckpointError, DataError
from .column import Component, describe_shape
from .structure import FEATURES, LABELS, pack_role

NUMBERS = "numbers"  # the name of the columns of numbers of a table, where there are other features


class _SpecFields(NamedTuple):
    shape: Tuple[int, ...]
    dtype: str
    num_classes: int = 0
    class_names: Tuple[str, ...] = ()
    class_counts: Tuple[int, ...] = ()
    value_range: Tuple[float, ...] = ()
    mean: Tuple[float, ...] = ()
    deviation: Tuple[float, ...] = ()
    components: Tuple[Tuple[str, Component], ...] = ()
    table: Optional[Mapping[str, Any]] = None
    records: Optional[Mapping[str, Any]] = None
    label_scale: int = 0


class DataSpec(_SpecFields):
    """What the examples of a data set are.

    Attributes:
        shape: of the features of one example; (H, W, C) for images.
        dtype: of the features as stored: "uint8", which reaches the graph as x / 255, or "float32".
        num_classes: K if the label of an example is one class; else 0.
        class_names: in the order of the labels.
        class_counts: training examples of each class; empty if they were not counted.
        value_range: lowest and highest training value of float images, with names or without.
        mean: of the training split, per channel of images or per value of other features, as the
            model is fed them; empty unless it was measured.
        deviation: the standard deviation, like `mean`.
        components: flat key -> `Component`, as pairs; empty for one array of features with one
            class as label, or with no label.
        table: what the columns of a table are, as JSON values: see `TableSchema`; None for other
            data.
        records: the keys of records, by "features" and "labels"; None for other data.
        label_scale: of label images: 255 if they have 255 for the class 1, 1 if 255 is no class, 0
            if they do not show it or for other data.

    Raises:
        DataError: `shape` or `dtype` is read, and the features have names.
    """

    __slots__ = ()

    @property
    def shape(self) -> Tuple[int, ...]:
        self._refuse_names()
        return self[0]

    @property
    def dtype(self) -> str:
        self._refuse_names()
        return self[1]

    @property
    def flat(self) -> Dict[str, Component]:
        """Flat key -> component, of all features and labels."""
        if self.components:
            return dict(self.components)
        kind = "image" if self[1] == "uint8" else "value"
        flat = {FEATURES: Component(self[0], self[1], kind)}
        if self.num_classes:
            flat[LABELS] = Component((), "int32", "class", self.num_classes, self.class_names)
        return flat

    @property
    def features(self) -> Any:
        """The `Component` of the features, or a dict of them by name."""
        return pack_role(self.flat, FEATURES)

    @property
    def labels(self) -> Any:
        """The `Component` of the labels, a dict of them by name, or None."""
        return pack_role(self.flat, LABELS)

    @property
    def feature_names(self) -> List[str]:
        """The names of the features; [] for a single array."""
        return sorted(self.features) if isinstance(self.features, dict) else []

    @property
    def record_keys(self) -> Optional[Mapping[str, Any]]:
        """The "features" and "labels" of other records: `records`, or the columns of a table."""
        if self.records is not None or self.table is None:
            return self.records
        table = TableSchema.from_json(self.table)
        return {"features": table.features, "labels": table.labels}

    def describe_features(self) -> str:
        """`examples [28, 28, 1] uint8`, `examples of photo [8, 8, 1] uint8, weight [] float32`."""
        only = self.features
        named = only if isinstance(only, dict) else {"": only}
        texts = (f"{name} {describe_shape(c.shape)} {c.dtype}" for name, c in named.items())
        return f"examples {'of ' if self.feature_names else ''}{', '.join(map(str.strip, texts))}"

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> DataSpec:
        """The spec from its fields, after JSON, which has no tuples. Raises a CheckpointError if
        they are of another version.
        """
        try:
            fields: Dict[str, Any] = {name: _as_tuple(value) for name, value in values.items()}
            components = [(key, Component(*parts)) for key, parts in fields.get("components", ())]
            return cls(**dict(fields, components=tuple(components)))
        except (TypeError, ValueError, KeyError) as error:
            raise CheckpointError(
                f"The description of the data is not in the format of this version: {error}."
            ) from error

    def _refuse_names(self) -> None:
        if self.feature_names:
            raise DataError(
                f"The data has the features {', '.join(self.feature_names)}, and the model expects "
                "one array of features.",
                hint="Use a plugin for such data, or data with one array.",
            )


def _as_tuple(value: Any) -> Any:
    """A JSON value with tuples in the place of its lists."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


# ------------------------------------------------------------------------------------------ tables


class TableSchema(NamedTuple):
    """The columns of a table, by what a model gets of each."""

    numbers: Tuple[str, ...] = ()  # in the order of the last axis of the features
    categories: Mapping[str, Sequence[str]] = {}  # of texts that are classes, in their order
    texts: Tuple[str, ...] = ()  # other texts
    lists: Tuple[str, ...] = ()
    images: Tuple[str, ...] = ()  # paths of images
    labels: Tuple[str, ...] = ()  # () for none
    label_kind: str = ""  # "class" or "value"; "" for no labels
    fills: Tuple[float, ...] = ()  # of a missing number in each of `numbers`; () if none may be
    is_one_hot: bool = False  # whether categories are columns of 0 and 1 after the numbers

    @property
    def features(self) -> Tuple[str, ...]:
        """All columns of features."""
        return (*self.numbers, *self.categories, *self.texts, *self.lists, *self.images)

    @property
    def component_names(self) -> Dict[str, str]:
        """The name of the component that each column becomes which is not one of numbers."""
        categories = () if self.is_one_hot else self.categories
        return component_names([*categories, *self.texts, *self.lists, *self.images])

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TableSchema:
        """The schema from its fields, after JSON, which has no tuples."""
        return cls(**{n: _as_tuple(value) for n, value in values.items() if n in cls._fields})


def sequences_of(model: Optional[DataSpec]) -> AbstractSet[str]:
    """The names of the components of a model's examples that are sequences; none without one."""
    flat = {} if model is None else model.flat
    return {key.partition("/")[2] for key, each in flat.items() if each.is_sequence}


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
