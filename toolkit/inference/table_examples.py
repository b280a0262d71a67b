"""Read the rows of tables to predict on, in the way of the table that a model was trained on.

Legend: N rows.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from ..data.examples import LENGTH, Split
from ..data.files.file_index import FileIndex
from ..data.prepare import Convert, ExampleHooks, prepare
from ..data.reading_options import ColumnOptions, ImageOptions
from ..data.spec import DataSpec
from ..data.structure import FEATURES, pack_role
from ..data.tables.schema import TableSchema
from ..data.tables.table import read_rows
from ..data.tables.table_file import TABLE_ENDINGS
from ..errors import DataError
from .predict import Examples, example_names


def are_tables(paths: Sequence[str], spec: DataSpec) -> bool:
    """Whether files are tables for a model that was trained on a table.

    Raises:
        DataError: only some of them are, or the model was trained on other data.
    """
    tables = [path for path in paths if path.lower().endswith(TABLE_ENDINGS)]
    if not tables:
        return False
    if spec.table is None:
        raise DataError(
            f"{tables[0]}: the model was trained on {spec.describe_features()}, not on a table.",
            hint="Give an .npz file, or image files for a model of images.",
        )
    if len(tables) < len(paths):
        raise DataError(f"{tables[0]} is a table, and other files are none.", hint="Give one kind.")
    return True


def read_table_examples(
    paths: Sequence[str],
    spec: DataSpec,
    images: ImageOptions,
    missing: str,
    convert: Optional[Convert] = None,
) -> Examples:
    """Read the rows of tables; labels are not read.

    Args:
        paths: of the tables.
        spec: of the data that the model was trained on, as stored, with its columns.
        images: the form of images in a column of paths.
        missing: what becomes of empty fields, as in `ColumnOptions`; rows are never left out.
        convert: the hook of that name as a function of one example, or None.

    Raises:
        DataError: a table lacks a column, or a field does not fit.
    """
    schema = TableSchema.from_json(spec.table or {})._replace(labels=(), label_kind="")
    options = ColumnOptions(split_column="none", missing="fill" if missing == "fill" else "refuse")
    flats: List[Dict[str, Any]] = []
    names: List[str] = []
    for path in paths:
        split = Split(read_rows(path, options, images, FileIndex(), schema).features)
        flats.append(read_features(split))
        names += example_names(path, len(split))
    features = pack_role(
        {key: join_parts([flat[key] for flat in flats]) for key in flats[0]}, FEATURES
    )
    if convert is not None:
        features = prepare(Split(features), ExampleHooks(convert=convert)).features
    return Examples(features, names)


def read_features(split: Split) -> Dict[str, Any]:
    """Flat key -> the values of all rows, of a sequence as a list of arrays without padding."""
    flat: Dict[str, Any] = split.read(slice(None))
    for key, component in split.components.items():
        if component.is_sequence:
            lengths = flat.pop(key + LENGTH)
            flat[key] = [row[:length] for row, length in zip(flat[key], lengths)]
    return flat


def join_parts(parts: List[Any]) -> Any:
    """The values of several files, arrays [n, ...] or lists of sequences, as those of one."""
    if isinstance(parts[0], list):
        return [row for part in parts for row in part]
    return np.concatenate(parts)
