"""`table:FILE`: a table with a row for each example, as CSV or as JSON lines.

What a column of features becomes follows from its fields:

    numbers, True and False          float32 [N, F]: all such columns together, in their order
    paths of images                  an image
    few different texts              a class: at most half as many texts as rows
    other texts of several words     text
    lists of numbers (JSON)          an array, or a sequence where the lengths differ
    dates, other single words        refused, as is a column that numbers or identifies the rows,
                                     unless --feature-columns names it

Legend: N rows, n rows with examples, F columns of numbers.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

import numpy as np

from ...errors import DataError, UsageError
from ..column import describe_rounding
from ..examples import Dataset, Split, describe
from ..files.file_index import FileIndex
from ..held_out import content_keys, hold_out
from ..images.folder import SPLIT_FOLDERS
from ..images.image_paths import ImagePaths
from ..reading_options import ColumnOptions, ImageOptions, Settings, refuse_idle_images
from .columns import Table, read_table, shorten
from .features import build_features, find_missing, find_schema
from .labels import Labels, missing_labels, read_labels
from .repair import TableFault, read_with_all_faults
from .roles import LABEL_NAMES, Roles, choose_roles, follow_schema, unused_columns
from .schema import NUMBERS, TableSchema
from .table_file import read_table_file
from .table_images import read_image_column

SPLITS = dict(SPLIT_FOLDERS, dev="validation")  # how a split may be named in its column


class TableRows(NamedTuple):
    """The examples of a table, before they are divided into splits.

    Attributes:
        features: of N rows, as for `Split`.
        labels: of N rows.
        schema: what the columns are.
        splits: rows by name of a split, int64 [n]; all of them are "train" if no column says it.
        has_splits: whether a column says it.
        images: the image files and the fields of N rows, by name of a column of paths.
        notes: sentences on what was decided or left out.
    """

    features: Any
    labels: Labels
    schema: TableSchema
    splits: Dict[str, np.ndarray]
    has_splits: bool
    images: Dict[str, Tuple[ImagePaths, List[str]]]
    notes: List[str]


def open_table(settings: Settings) -> Dataset:
    """Open a table as a data set.

    Raises:
        UsageError: an option names no column, or one column twice.
        DataError: the table cannot be used.
    """
    path, columns, files_index = settings.path, settings.columns, settings.files
    schema = TableSchema.from_json(settings.table) if settings.table else None
    rows = read_with_all_faults(
        lambda options: read_rows(path, options, settings.images, files_index, schema), columns
    )
    splits = {
        name: Split(rows.features, rows.labels.values, positions)
        for name, positions in rows.splits.items()
    }
    numbers = _numbers_of(rows.features, rows.schema)
    is_missing = np.isnan(numbers)
    is_filled = columns.missing == "fill" and schema is None and bool(numbers.size)
    if is_filled:  # with the means of all: which ones train is not known yet
        _fill(numbers, is_missing, splits["train"], rows.schema)
    digests = _digests(rows, splits["train"], is_filled and bool(is_missing.any()))
    splits = hold_out(splits, settings.shares, digests)
    if is_filled:
        fills = _fill(numbers, is_missing, splits["train"], rows.schema)
        rows = rows._replace(schema=rows.schema._replace(fills=fills))
    spec = describe(splits["train"], rows.labels.class_names)
    spec = spec._replace(table=rows.schema.to_json())
    files = {os.path.basename(path): path}
    hashes = dict(zip(files, files_index.digests(list(files.values()))))
    for column, fields in rows.images.values():
        files.update(zip(fields, column.paths))
        hashes.update(zip(fields, column.digests))
    return Dataset("table:" + path, spec, splits, files, rows.notes, hashes)


def read_rows(
    path: str,
    options: ColumnOptions,
    image_options: ImageOptions,
    index: FileIndex,
    schema: Optional[TableSchema] = None,
) -> TableRows:
    """Read a table.

    Args:
        path: the file.
        options: what the columns are.
        image_options: the form of the images that a column of paths names.
        index: what is known of the files.
        schema: the columns that a model was trained on; None to find them.
    """
    file = read_table_file(path)
    roles = choose_roles(file, options) if schema is None else follow_schema(file, schema, options)
    table = read_table(file, roles.kinds(file, schema))
    notes = _check_index(table, roles)
    kind, is_other = options.label_kind, schema is not None
    if schema is None:
        has_missing = options.missing == "fill"
        schema = find_schema(table, roles, has_missing)
        schema = schema._replace(labels=roles.labels, is_one_hot=options.categories == "one-hot")
        _refuse_idle_options(path, schema, options, image_options)
    else:
        kind = schema.label_kind or kind
        unused = unused_columns(file, roles)
        if unused:
            listing = ", ".join(unused[:10]) + (", ..." if len(unused) > 10 else "")
            notes.append(f"Columns that the model does not use: {listing}.")
    is_filled = options.missing == "fill" and (not is_other or bool(schema.fills))
    rows = _rows_with_values(table, roles, schema, options.missing, is_filled)
    if len(rows) < table.num_rows and schema is not None:
        notes.append(f"{table.num_rows - len(rows):,} rows with empty fields are left out.")
    labels = read_labels(table, roles.labels, kind, rows, is_other)
    if roles.labels:
        schema = schema._replace(label_kind=labels.kind)
        notes.append(_describe_labels(roles.labels, labels))
    sizes = {name: np.abs(table.numbers[name]) for name in schema.numbers}
    notes += describe_rounding({name: np.fmax.reduce(each) for name, each in sizes.items()})
    splits = _divide(table, roles.split, rows, is_other)
    images = {
        name: read_image_column(
            table, name, rows, image_options, index, schema.component_names[name]
        )
        for name in schema.images
    }
    notes += [note for column, _ in images.values() for note in column.notes]
    arrays = {name: column.select(column.paths) for name, (column, _) in images.items()}
    features = build_features(table, schema, rows, arrays)
    if schema.fills:
        numbers = _numbers_of(features, schema)
        np.copyto(numbers, np.array(schema.fills, np.float32), where=np.isnan(numbers))
    return TableRows(features, labels, schema, splits, roles.split is not None, images, notes)


def _refuse_idle_options(
    path: str, schema: TableSchema, options: ColumnOptions, images: ImageOptions
) -> None:
    """Raise a UsageError if an option has no effect on the columns that a table has."""
    if not schema.images:
        refuse_idle_images(path, images)
    if options.categories != ColumnOptions().categories and not schema.categories:
        raise UsageError(
            f"--categories {options.categories} has no effect on {path}, which has no column of "
            "few different texts.",
            hint="Omit --categories.",
        )
    effective = (*LABEL_NAMES, options.split_column.lower())  # else labels, or the split
    idle = [name for name in options.ignore_columns if name.lower() not in effective]
    if options.feature_columns and idle:
        raise UsageError(
            f"--ignore-columns {','.join(idle)} has no effect beside --feature-columns, which "
            "names all features.",
            hint="Omit one of them.",
        )


def _check_index(table: Table, roles: Roles) -> List[str]:
    """A note on the column without a name; raises a DataError if it does not number the rows."""
    if roles.row_numbers is None:
        return []
    texts = table.texts[roles.row_numbers].take()
    first = texts[0] if texts[0] in ("0", "1") else "0"
    is_number = [text == str(row) for row, text in enumerate(texts, int(first))]
    if not all(is_number):
        raise DataError(
            f"{table.file.path}: the first column has no name, and does not number the rows.",
            hint="Name it in the first line.",
        )
    return ["The first column, which has no name and numbers the rows, is left out."]


def _describe_labels(names: Sequence[str], labels: Labels) -> str:
    """A sentence on what the labels are."""
    subject = f"The labels are '{names[0]}'"
    if len(names) > 1:
        return f"The labels are vectors of the columns {', '.join(names[:10])}."
    if labels.kind == "value":
        return f"{subject}, values."
    listing = ", ".join(map(shorten, labels.class_names[:10]))
    more = ", ..." if len(labels.class_names) > 10 else ""
    count = len(labels.class_names)
    return f"{subject}, {count:,} class{'es' if count != 1 else ''} ({listing}{more})."


# ------------------------------------------------------------------------------- rows and splits


def _rows_with_values(
    table: Table, roles: Roles, schema: TableSchema, missing: str, is_filled: bool
) -> np.ndarray:
    """The rows with examples, int64 [n].

    Args:
        table: the table.
        roles: of its columns.
        schema: what its columns are.
        missing: what to do with missing fields.
        is_filled: whether missing numbers get values: a model may have been trained without any.

    Raises:
        DataError: fields are missing that may not be.
    """
    masks = find_missing(table, schema)
    for name in roles.labels:
        is_missing = missing_labels(table, [name])
        if is_missing.any():
            masks[name] = is_missing
    if missing == "drop":
        is_complete = (
            ~np.any(list(masks.values()), axis=0) if masks else np.ones(table.num_rows, bool)
        )
        if not is_complete.any():
            _refuse_missing(table, masks, "Leave out the emptiest columns with --ignore-columns.")
        return np.flatnonzero(is_complete)
    if missing == "fill":
        others = () if is_filled else schema.numbers
        columns = {*roles.labels, *schema.images, *others}
        masks = {name: mask for name, mask in masks.items() if name in columns}
    if masks:
        names = ",".join(masks)
        _refuse_missing(
            table,
            masks,
            f"Leave out these rows with --missing drop, or the columns with --ignore-columns "
            f"{names}"
            + (", or fill in means with --missing fill." if missing == "refuse" else "."),
            missing == "refuse",
        )
    return np.arange(table.num_rows)


def _refuse_missing(
    table: Table, masks: Dict[str, np.ndarray], hint: str, is_new: bool = False
) -> NoReturn:
    row = min(int(np.argmax(mask)) for mask in masks.values())
    first = next(name for name, mask in masks.items() if mask[row])
    counts = ", ".join(f"{int(mask.sum()):,} in '{name}'" for name, mask in masks.items())
    message = (
        f"{table.file.place(row)}: expected a value in '{first}', found none; of "
        f"{table.num_rows:,} rows such fields have {counts}."
    )
    raise TableFault(message, hint, missing="drop") if is_new else DataError(message, hint)


def _divide(
    table: Table, name: Optional[str], rows: np.ndarray, is_other: bool
) -> Dict[str, np.ndarray]:
    """The rows of each split; all are "train" if there is no column of splits.

    Args:
        table: the table.
        name: of the column of splits.
        rows: that have examples, int64 [n].
        is_other: whether it is a table to evaluate, which may have no row to train on.
    """
    if name is None:
        return {"train": rows}
    column = table.texts[name]
    splits = [SPLITS.get(text.lower(), "") for text in column.values]
    codes = column.codes[rows]
    unknown = [value for value, split in zip(column.values, splits) if not split]
    if unknown:
        raise DataError(
            f"{table.file.place(column.row_of(unknown[0]))}: expected train, validation or test in "
            f"'{name}', found '{shorten(unknown[0])}'.",
            hint="Correct it, or use the column as a feature with --split-column none.",
        )
    names = np.array(splits)[codes]
    result = {split: rows[names == split] for split in ("train", "validation", "test")}
    if not len(result["train"]) and is_other:
        return {"train": rows}
    if not len(result["train"]):
        raise DataError(
            f"{table.file.path}: expected rows of 'train' in '{name}', found none.",
            hint="Ignore the column with --split-column none.",
        )
    return {split: part for split, part in result.items() if len(part)}


def _digests(rows: TableRows, train: Split, is_filled: bool) -> Union[None, List[str], np.ndarray]:
    """A hash of the content of each training example, without decoding its images; None if there
    are no images, and no missing numbers that were filled in.
    """
    if not rows.images:
        return content_keys(Split(rows.features, index=train.index)) if is_filled else None
    texts = [column.digests for column, _ in rows.images.values()]
    if isinstance(rows.features, dict) and len(rows.features) > len(rows.images):
        names = rows.schema.component_names
        images = [names[column] for column in rows.images]
        others = {n: value for n, value in rows.features.items() if n not in images}
        texts.append([f"{key:x}" for key in content_keys(Split(others))])
    positions = range(len(texts[0])) if train.index is None else train.index
    return [" ".join(column[position] for column in texts) for position in positions]


def _numbers_of(features: Any, schema: TableSchema) -> np.ndarray:
    """The columns of numbers, float32 [N, F], a view of the features."""
    if not schema.numbers:
        return np.zeros((0, 0), np.float32)
    numbers = features[NUMBERS] if isinstance(features, dict) else features
    return numbers[:, : len(schema.numbers)]


def _fill(
    numbers: np.ndarray, is_missing: np.ndarray, train: Split, schema: TableSchema
) -> Tuple[float, ...]:
    """Replace missing numbers [N, F], in place, by the means of the training examples.

    Returns:
        The means.
    """
    rows = slice(None) if train.index is None else train.index
    counts = (~is_missing[rows]).sum(axis=0)
    if not counts.all():
        name = schema.numbers[int(np.argmin(counts))]
        raise DataError(
            f"The column '{name}' is empty in all training examples, so it has no mean.",
            hint=f"Leave it out with --ignore-columns {name}.",
        )
    totals = np.where(is_missing[rows], 0, numbers[rows]).sum(axis=0, dtype=np.float64)
    means = (totals / counts).astype(np.float32)
    np.copyto(numbers, means, where=is_missing)
    return tuple(means.tolist())
