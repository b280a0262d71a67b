"""What the columns of a table are used for: labels, split, features, or nothing."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...errors import DataError, UsageError, suggest
from ..reading_options import ColumnOptions
from .columns import TableColumn, shorten
from .repair import TableFault
from .schema import TableSchema
from .table_file import Table

LABEL_NAMES = ("label", "labels", "class", "target", "y")
NONE = "none"  # as the name of a column: there is no such column
_ROLE_OPTIONS = (
    "label_column",
    "split_column",
    "feature_columns",
    "ignore_columns",
    "image_column",
)
_INDEX_NAMES = ("", "Unnamed: 0")  # of the numbers of rows, as pandas saves them


class Roles(NamedTuple):
    """The columns of a table by their use.

    Attributes:
        labels: the columns of labels; () for none.
        split: the column that says the split of a row; None for none.
        features: that may become features, in the order of the file.
        notes: sentences on columns that are left out.
    """

    labels: Tuple[str, ...]
    split: Optional[str]
    features: Tuple[str, ...]
    notes: List[str]


def choose_roles(table: Table, options: ColumnOptions) -> Roles:
    """The roles of the columns by the options and by usual names.

    Raises:
        UsageError: an option names no column, or two options name the same one.
        DataError: no column, or more than one, has the usual name of labels; there is none of
            features; or one without a name does not number the rows.
    """
    for option in _ROLE_OPTIONS:
        for name in _names(option, options):
            if name not in table.columns:
                raise UsageError(
                    f"{table.path} has no column '{name}' ({_flag(option)}).",
                    hint=suggest(name, list(table.columns)),
                )
    refuse_conflicts(options)
    split = _find_split(table, options)
    labels = _find_labels(table, options)
    named = {*options.feature_columns, options.image_column}
    others = {*labels, *options.ignore_columns, split}
    notes = []
    first = next(iter(table.columns))
    if first in _INDEX_NAMES and not options.feature_columns and first not in others:
        _check_index(table.columns[first])
        others.add(first)
        notes.append("The first column, which has no name and numbers the rows, is left out.")
    features = tuple(
        name
        for name in table.columns
        if (name in named if options.feature_columns else name not in others)
    )
    if not features:
        raise DataError(
            f"{table.path}: expected a column of features beside {_list(labels) or 'these'}, "
            "found none.",
            hint=f"The columns are {_list(list(table.columns))}.",
        )
    return Roles(labels, split, features, notes)


def follow_schema(table: Table, schema: TableSchema, options: ColumnOptions) -> Roles:
    """The roles of the columns that a model was trained on, in another table.

    Raises:
        DataError: the table lacks a column of features, or some of several labels.
    """
    missing = [name for name in schema.features if name not in table.columns]
    absent = [name for name in schema.labels if name not in table.columns]
    has_labels = len(absent) < len(schema.labels)
    missing += absent if has_labels else []
    if missing:
        raise DataError(
            f"{table.path}: expected the columns that the model was trained on, found no "
            f"{_list(missing)}.",
            hint=f"The columns are {_list(list(table.columns))}.",
        )
    labels, split = schema.labels if has_labels else (), _find_split(table, options)
    unused = [name for name in table.columns if name not in {*labels, *schema.features, split}]
    listing = ", ".join(unused[:10]) + (", ..." if len(unused) > 10 else "")
    notes = [f"Columns that the model does not use: {listing}."] if unused else []
    return Roles(labels, split, schema.features, notes)


def refuse_conflicts(options: ColumnOptions) -> None:
    """Refuse a column with two roles, and a kind of labels for data without labels.

    Raises:
        UsageError: options contradict each other.
    """
    roles: Dict[str, str] = {}
    for option in _ROLE_OPTIONS:
        for name in _names(option, options):
            other = roles.get(name)
            if other and (other, option) != ("feature_columns", "image_column"):
                raise UsageError(
                    f"Both {_flag(other)} and {_flag(option)} name the column '{name}'.",
                    hint="Name it in one of them.",
                )
            roles[name] = option
    if options.label_kind != "auto" and options.label_column == (NONE,):
        raise UsageError(
            f"--label-kind {options.label_kind} has no effect with --label-column none.",
            hint="Omit one of them.",
        )


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _names(option: str, options: ColumnOptions) -> Sequence[str]:
    """The columns that an option of the user names."""
    value = getattr(options, option)
    names = (value,) if isinstance(value, str) else value or ()
    is_default = option == "split_column" and value == ColumnOptions().split_column
    return () if is_default or tuple(names) == (NONE,) else names  # the default may be absent


def _check_index(column: TableColumn) -> None:
    """Refuse a column without a name that does not number the rows from 0 or 1."""
    texts = column.texts.values
    first = int(texts[0] == "1")
    if texts != [str(row) for row in range(first, first + len(column.texts.codes))]:
        raise DataError(
            f"{column.path}: the first column has no name, and does not number the rows.",
            hint="Name it in the first line.",
        )


def _find_split(table: Table, options: ColumnOptions) -> Optional[str]:
    name = options.split_column
    if name in table.columns:
        return name
    match = next((each for each in table.columns if each.lower() == name.lower()), None)
    is_taken = match in (*options.feature_columns, *options.ignore_columns)
    return None if name == NONE or is_taken else match


def _find_labels(table: Table, options: ColumnOptions) -> Tuple[str, ...]:
    if options.label_column == (NONE,) and NONE not in table.columns:
        return ()
    if options.label_column:
        return options.label_column
    others = {*options.ignore_columns, *options.feature_columns, options.image_column}
    names = [name for name in table.columns if name not in others]
    matches = tuple(name for name in names if name.strip().lower() in LABEL_NAMES)
    if len(matches) == 1:
        return matches
    raise TableFault(
        f"{table.path}: expected one column named {', '.join(LABEL_NAMES[:-1])} or y, found "
        f"{_list(matches or list(table.columns))}.",
        hint="Name the column of the labels with --label-column, or --label-column none for data "
        "without labels.",
        label_column=(matches or tuple(names) or (NONE,))[-1:],  # a guess
    )


def _list(names: Sequence[str], most: int = 20) -> str:
    """`'a', 'b', ...`."""
    texts = [f"'{shorten(name)}'" for name in names[:most]]
    return ", ".join(texts + ["..."] * (len(names) > most))
