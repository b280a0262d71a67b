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
import shlex
from typing import AbstractSet, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ...display.numbers import format_count
from ...errors import DataError, ToolkitError, UsageError, join_names
from ..examples import Dataset, Split, describe
from ..held_out import content_keys, hold_out
from ..images.folder import SPLIT_FOLDERS
from ..reading_options import ColumnOptions, Settings, refuse_idle_images
from ..spec import NUMBERS, TableSchema, sequences_of
from .columns import shorten
from .features import (
    TableImages,
    build_features,
    find_schema,
    missing_labels,
    open_images,
    read_labels,
)
from .roles import Columns, TableFault, choose_roles, follow_schema, join_commas
from .table_file import read_table

SPLITS = dict(SPLIT_FOLDERS, dev="validation")  # how a split may be named in its column


def open_table(settings: Settings) -> Dataset:
    """Open a table as a data set. Raises a UsageError if an option names no column, or one column
    twice, and a DataError if the table cannot be used: with all its faults, and the options with
    which there would be none.
    """
    columns = read_table(settings.path)
    repair = join_commas(settings.columns, columns)
    settings = settings._replace(columns=repair)
    faults: List[ToolkitError] = []
    hint: Optional[str] = None
    while hint is None:
        try:
            dataset = _read_dataset(columns, settings._replace(columns=repair))
            if not faults:
                return dataset
            hint = _describe_repair(dataset, faults, settings, repair)
        except TableFault as fault:
            if settings.model is not None:  # an evaluation has no options of columns
                fault.hint = "Give a table without empty fields, of the columns that the model "
                fault.hint += "takes and 'label'."
                raise
            faults.append(fault)
            for name, value in fault.repair.items():
                if isinstance(value, tuple):
                    value = (*getattr(repair, name), *value)
                repair = repair._replace(**{name: value})
        except ToolkitError as error:  # which no option repairs
            if not faults:
                raise
            faults.append(error)
            hint = " ".join(str(fault.hint) for fault in faults)
    message = "; ".join(fault.message.rstrip(".") for fault in faults)
    raise DataError(message + "." * (not message.endswith("?")), hint=hint)


def _describe_repair(
    dataset: Dataset, faults: Sequence[ToolkitError], settings: Settings, repair: ColumnOptions
) -> str:
    """The hint for faults without which the data set was read with other options."""
    schema = TableSchema.from_json(dataset.spec.table or {})
    is_mixed = bool(schema.categories) and not (schema.texts or schema.lists or schema.images)
    wants_array = is_mixed and settings.model is None and not schema.is_one_hot  # as most models do
    if len(faults) == 1:
        more = " --categories one-hot makes one array of categories and numbers."
        return faults[0].hint + more * wants_array
    if wants_array:
        repair = repair._replace(categories="one-hot")
    flags = []
    for name, value in repair._asdict().items():
        if value != getattr(settings.columns, name):
            text = ",".join(value) if isinstance(value, tuple) else value
            flags.append(f"--{name.replace('_', '-')} {shlex.quote(text)}")
    return f"These options would do: {' '.join(flags)}"


def _read_dataset(columns: Columns, settings: Settings) -> Dataset:
    path, options = settings.path, settings.columns
    trained = None if settings.model is None else settings.model.table
    is_other = trained is not None
    if trained is not None:
        schema = TableSchema.from_json(trained)
        labels, split, _, notes = follow_schema(path, columns, schema, options)
    else:
        labels, split, features, notes = choose_roles(path, columns, options)
        schema = find_schema([columns[name] for name in features], labels, options)
        if not schema.images:
            refuse_idle_images(path, settings.images)
        if options.categories != ColumnOptions().categories and not schema.categories:
            raise UsageError(
                f"--categories {options.categories} has no effect on {path}, which has no column "
                "of few different texts.",
                hint="Omit --categories.",
            )
    num_rows = len(next(iter(columns.values())))
    numbers = np.zeros((num_rows, len(schema.numbers)), np.float32)
    for position, name in enumerate(schema.numbers):
        numbers[:, position] = columns[name].floats()
    is_missing = np.isnan(numbers)
    has_fills = options.missing == "fill" and (not is_other or bool(schema.fills))
    needed = {*labels, *schema.images, *(() if has_fills else schema.numbers)}
    masks = dict(zip(schema.numbers, is_missing.T))
    for name in (*schema.categories, *schema.texts, *schema.images):
        masks[name] = columns[name].map("".__eq__, bool)
    masks.update((name, missing_labels(columns[name])) for name in labels)
    rows = _rows_with_values(columns, masks, options.missing, needed, labels, is_other)
    if len(rows) < num_rows:
        notes.append(f"{num_rows - len(rows):,} rows with empty fields are left out.")
    kind = schema.label_kind or options.label_kind
    targets, class_names = read_labels([columns[name] for name in labels], kind, rows, is_other)
    if labels:
        schema = schema._replace(label_kind="class" if class_names else "value")
        notes.append(_describe_labels(labels, class_names))
    for name in schema.numbers if class_names else (*schema.numbers, *labels):
        notes += filter(None, [columns[name].describe_rounding()])
    parts = _divide(columns, split, rows, is_other)
    images = {
        component: open_images(columns[name], rows, settings, component)
        for name, component in schema.component_names.items()
        if name in schema.images
    }
    notes += [note for column in images.values() for note in column.files.notes]
    sequences = sequences_of(settings.model)
    features = build_features(columns, schema, rows, numbers, images, sequences)
    if schema.numbers:  # as they are in the features
        whole = features[NUMBERS] if isinstance(features, dict) else features
        numbers = whole[:, : len(schema.numbers)]
    splits = {name: Split(features, targets, part) for name, part in parts.items()}
    if schema.fills:
        np.copyto(numbers, np.array(schema.fills, np.float32), where=is_missing)
    finds_fills = has_fills and not is_other and bool(schema.numbers)
    if finds_fills:  # the means of all, until it is known which ones train
        _fill(numbers, is_missing, splits["train"], schema)
    digests = _digests(features, images, splits["train"], finds_fills and bool(is_missing.any()))
    splits = hold_out(splits, settings.shares, digests)
    if finds_fills:
        schema = schema._replace(fills=_fill(numbers, is_missing, splits["train"], schema))
    spec = describe(splits["train"], class_names)._replace(table=dict(schema._asdict()))
    files = {os.path.basename(path): path}
    hashes = dict(zip(files, settings.files.digests([path])))
    for column in images.values():
        files.update(zip(column.fields, column.paths))
        hashes.update(zip(column.fields, column.files.select_digests(column.paths)))
    return Dataset("table:" + path, spec, splits, files, notes, hashes)


def _describe_labels(names: Sequence[str], class_names: Sequence[str]) -> str:
    """A sentence on what the labels are."""
    if len(names) > 1:
        return f"The labels are vectors of the columns {join_names(names, 10)}."
    if not class_names:
        return f"The labels are '{names[0]}', values."
    count = format_count(len(class_names), "class", "classes", mark=",")
    listing = join_names(list(map(shorten, class_names)), 10)
    return f"The labels are '{names[0]}', {count} ({listing})."


# ------------------------------------------------------------------------------- rows and splits


def _rows_with_values(
    columns: Columns,
    masks: Mapping[str, np.ndarray],
    missing: str,
    needed: AbstractSet[str],
    labels: Sequence[str],
    is_other: bool,
) -> np.ndarray:
    """The rows with examples, int64 [n]; a DataError if fields are missing that may not be: where
    the masks say so, with "fill" those of the columns that are needed. The options of another
    table, `is_other`, are those of the model.
    """
    num_rows = len(next(iter(columns.values())))
    names = needed if missing == "fill" else masks.keys()
    masks = {name: mask for name, mask in masks.items() if name in names and mask.any()}
    is_complete = ~np.any([np.zeros(num_rows, bool), *masks.values()], axis=0)
    if is_complete.all() or (missing == "drop" and is_complete.any()):
        return np.flatnonzero(is_complete)
    are_labelled = not masks.keys() & set(labels)  # which no option can leave out or fill in
    if is_other:
        fill = "" if missing == "fill" else ", or train a model with --missing fill, which does"
        hint = f"Fill in these fields{fill}."
    else:
        ways = ["Leave out the emptiest columns with --ignore-columns"]
        if is_complete.any():
            ways = ["Leave out these rows with --missing drop"]
            if are_labelled:
                ways.append(f"the columns with --ignore-columns {shlex.quote(','.join(masks))}")
        if are_labelled and missing != "fill" and not any(map(np.all, masks.values())):
            ways.append("fill in means with --missing fill")
        hint = f"{', or '.join(ways)}."
    row = int(np.argmin(is_complete))
    first = next(name for name, mask in masks.items() if mask[row])
    counts = ", ".join(f"{int(mask.sum()):,} in '{name}'" for name, mask in masks.items())
    found = f"none; of {num_rows:,} values are missing {counts}"
    error = columns[first].error(row, "a value", found, hint)
    is_repaired = missing == "refuse" and not is_other and is_complete.any()
    raise TableFault(error.message, hint, missing="drop") if is_repaired else error


def _divide(
    columns: Columns, name: Optional[str], rows: np.ndarray, is_other: bool
) -> Dict[str, np.ndarray]:
    """The rows of each split, by the column of splits; a table to evaluate may lack "train"."""
    if name is None:
        return {"train": rows}
    column = columns[name]
    unknown = [value for value in column.values if value.lower() not in SPLITS]
    if unknown:
        raise column.error(
            column.row_of(unknown[0]),
            "train, validation or test",
            f"'{shorten(unknown[0])}'",
            "Correct it, or use the column as a feature with --split-column none.",
        )
    names = column.map(lambda value: SPLITS[value.lower()], object)[rows]
    parts = {split: rows[names == split] for split in ("train", "validation", "test")}
    if not len(parts["train"]):
        if is_other:
            return {"train": rows}
        raise DataError(
            f"{column.path}: expected rows of 'train' in '{name}', found none.",
            hint="Ignore the column with --split-column none.",
        )
    return {split: part for split, part in parts.items() if len(part)}


def _digests(
    features: Any, images: Mapping[str, TableImages], train: Split, is_filled: bool
) -> Union[None, List[str], np.ndarray]:
    """A hash of each training example, without decoding images; None to hash what it contains."""
    if not images:
        return content_keys(train) if is_filled else None
    texts = [column.files.select_digests(column.paths) for column in images.values()]
    if isinstance(features, dict) and len(features) > len(images):
        others = {name: value for name, value in features.items() if name not in images}
        texts.append([f"{key:x}" for key in content_keys(Split(others))])
    rows: Any = train.index
    return [" ".join(column[row] for column in texts) for row in rows]


def _fill(
    numbers: np.ndarray, is_missing: np.ndarray, train: Split, schema: TableSchema
) -> Tuple[float, ...]:
    """Replace missing numbers [N, F], in place, by the means of the training examples: [F]."""
    rows: Any = train.index
    counts = (~is_missing[rows]).sum(axis=0)
    if not counts.all():
        name = schema.numbers[int(np.argmin(counts))]
        raise DataError(
            f"The column '{name}' is empty in all training examples, so it has no mean.",
            hint=f"Leave it out with --ignore-columns {shlex.quote(name)}.",
        )
    totals = np.where(is_missing[rows], 0, numbers[rows]).sum(axis=0, dtype=np.float64)
    means = (totals / counts).astype(np.float32)
    np.copyto(numbers, means, where=is_missing)
    return tuple(means.tolist())
