"""What the columns of a table are used for: labels, split, features, or nothing."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ...errors import DataError, UsageError, join_names, suggest
from ..reading_options import ColumnOptions
from ..spec import TableSchema
from .columns import TableColumn, shorten

LABEL_NAMES = ("label", "labels", "class", "target", "y")
NONE = "none"  # as the name of a column: there is no such column
_ROLE_OPTIONS = (
    *("label_column", "split_column", "feature_columns", "ignore_columns", "image_column"),
)
_INDEX_NAMES = ("", "Unnamed: 0")  # of the numbers of rows, as pandas saves them

Columns = Dict[str, TableColumn]
# The columns of labels, that of splits, those that may become features, and sentences on others.
Roles = Tuple[Tuple[str, ...], Optional[str], Tuple[str, ...], List[str]]


class TableFault(DataError):
    """A fault that options repair: fields of `ColumnOptions`; names of columns come to those
    before.
    """

    def __init__(self, message: str, hint: str, **repair: Any):
        super().__init__(message, hint)
        self.repair = repair


def join_commas(options: ColumnOptions, columns: Columns) -> ColumnOptions:
    """The options with the names of columns that have commas, at which the text of a flag was
    divided.
    """
    name_of = {re.sub(r"\s*,\s*", ",", name): name for name in columns}

    def join(parts: Sequence[str]) -> Tuple[str, ...]:
        joined: List[str] = []
        while parts:
            counts = range(1, len(parts) + 1)
            count = next((n for n in counts if ",".join(parts[:n]) in name_of), 1)
            joined.append(name_of.get(",".join(parts[:count]), parts[0]))
            parts = parts[count:]
        return tuple(joined)

    return options._replace(
        label_column=join(options.label_column),
        feature_columns=join(options.feature_columns),
        ignore_columns=join(options.ignore_columns),
    )


def choose_roles(path: str, columns: Columns, options: ColumnOptions) -> Roles:
    """The roles of the columns by the options and by usual names.

    Raises a UsageError if an option names no column, or two options name the same one; a DataError
    if not one column has the usual name of labels, there is none of features, or one without a name
    does not number the rows.
    """
    for flag, name in _name_columns(options):
        if name not in columns:
            raise UsageError(
                f"{path} has no column '{name}' ({flag}).", hint=suggest(name, list(columns))
            )
    refuse_conflicts(options)
    split = _find_split(columns, options)
    labels = _find_labels(path, columns, options)
    others = {*labels, *options.ignore_columns, split}
    notes = []
    first = next(iter(columns))
    if first in _INDEX_NAMES and not options.feature_columns and first not in others:
        numbers = columns[first].numbers
        if numbers is None or numbers[0] not in (0, 1) or (np.diff(numbers) != 1).any():
            raise DataError(
                f"{path}: the first column has no name, and does not number the rows.",
                hint="Name it in the first line.",
            )
        others.add(first)
        notes.append("The first column, which has no name and numbers the rows, is left out.")
    named = {*options.feature_columns, options.image_column} if options.feature_columns else None
    features = tuple(n for n in columns if (n in named if named else n not in others))
    if not features:
        raise DataError(
            f"{path}: expected a column of features beside {_quote(labels) or 'these'}, found "
            "none.",
            hint=f"The columns are {_quote(list(columns))}.",
        )
    return labels, split, features, notes


def follow_schema(
    path: str, columns: Columns, schema: TableSchema, options: ColumnOptions
) -> Roles:
    """The roles of the columns that a model was trained on, in another table. Raises a DataError
    if it lacks a column of features, or some of several labels.
    """
    labels = schema.labels if set(schema.labels) & set(columns) else ()
    missing = [name for name in (*schema.features, *labels) if name not in columns]
    if missing:
        raise DataError(
            f"{path}: expected the columns that the model was trained on, found no "
            f"{_quote(missing)}.",
            hint=f"The columns are {_quote(list(columns))}.",
        )
    split = _find_split(columns, options)
    unused = [name for name in columns if name not in {*labels, *schema.features, split}]
    notes = [f"Columns that the model does not use: {join_names(unused, 10)}."] if unused else []
    return labels, split, schema.features, notes


def refuse_conflicts(options: ColumnOptions) -> None:
    """Raise a UsageError for a column with two roles, or that an option names twice, or a kind of
    labels and no labels.
    """
    flag_of: Dict[str, str] = {}
    for flag, name in _name_columns(options):
        other = flag_of.get(name)
        if other and (other, flag) != ("--feature-columns", "--image-column"):
            both = f"Both {other} and {flag} name" if other != flag else f"Twice {flag} names"
            raise UsageError(f"{both} the column '{name}'.", hint="Name it once.")
        flag_of[name] = flag
    if options.label_kind != "auto" and options.label_column == (NONE,):
        raise UsageError(
            f"--label-kind {options.label_kind} has no effect with --label-column none.",
            hint="Omit one of them.",
        )


def _name_columns(options: ColumnOptions) -> Iterator[Tuple[str, str]]:
    """Each flag of the user that names a column, and the name."""
    for option in _ROLE_OPTIONS:
        value = getattr(options, option)
        names = (value,) if isinstance(value, str) else value or ()
        is_default = (option, value) == ("split_column", ColumnOptions().split_column)
        for name in () if is_default or names == (NONE,) else names:  # the default may be absent
            yield "--" + option.replace("_", "-"), name


def _find_split(columns: Columns, options: ColumnOptions) -> Optional[str]:
    name = options.split_column
    if name in columns:
        return name
    match = next((each for each in columns if each.lower() == name.lower()), None)
    is_taken = match in (*options.feature_columns, *options.ignore_columns)
    return None if name == NONE or is_taken else match


def _find_labels(path: str, columns: Columns, options: ColumnOptions) -> Tuple[str, ...]:
    if options.label_column == (NONE,) and NONE not in columns:
        return ()
    if options.label_column:
        return options.label_column
    others = {*options.ignore_columns, *options.feature_columns, options.image_column}
    names = [name for name in columns if name not in others]
    matches = tuple(name for name in names if name.strip().lower() in LABEL_NAMES)
    if len(matches) == 1:
        return matches
    raise TableFault(
        f"{path}: expected one column named {', '.join(LABEL_NAMES[:-1])} or y, found "
        f"{_quote(matches or list(columns))}.",
        hint="Name the column of the labels with --label-column, or --label-column none for data "
        "without labels.",
        label_column=(matches or tuple(names) or (NONE,))[-1:],  # a guess
    )


def _quote(names: Sequence[str]) -> str:
    """`'a', 'b', ...`."""
    return join_names([f"'{shorten(name)}'" for name in names], 20)
