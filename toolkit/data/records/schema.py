"""The keys of records that a model was trained on, so that other records are read the same way."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from ..spec import DataSpec
from ..tables.schema import TableSchema


class RecordSchema(NamedTuple):
    """The keys of records.

    Attributes:
        features: the keys of features, in the order of the values of a vector.
        labels: the keys of labels; () for none.
    """

    features: Tuple[str, ...]
    labels: Tuple[str, ...] = ()

    def to_json(self) -> Dict[str, Any]:
        return dict(self._asdict())

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RecordSchema:
        """The inverse of `to_json` after JSON, which has no tuples."""
        return cls(tuple(values["features"]), tuple(values["labels"]))


def model_keys(spec: DataSpec) -> Optional[Mapping[str, Any]]:
    """The keys that records need for a model, which are the columns if it was trained on a table.

    Args:
        spec: of the data that the model was trained on, as stored.

    Returns:
        A `RecordSchema` as JSON values; None if it was trained on data without keys and columns.
    """
    if spec.records is not None:
        return spec.records
    if spec.table is None:
        return None
    table = TableSchema.from_json(spec.table)
    return RecordSchema(table.features, table.labels).to_json()
