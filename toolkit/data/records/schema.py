"""The keys of records that a model was trained on, so that other records are read the same way."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ..spec import DataSpec
from ..tables.schema import TableSchema


def model_keys(spec: DataSpec) -> Optional[Mapping[str, Any]]:
    """The keys that records need for a model, which are the columns if it was trained on a table.

    Args:
        spec: of the data that the model was trained on, as stored.

    Returns:
        "features", in the order of the values of a vector, and "labels", as in `DataSpec.records`;
        None if the model was trained on data without keys and columns.
    """
    if spec.records is not None or spec.table is None:
        return spec.records
    table = TableSchema.from_json(spec.table)
    return {"features": table.features, "labels": table.labels}
