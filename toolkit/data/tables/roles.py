"""What the columns of a table are used for: labels, split, features, or nothing."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...errors import DataError, UsageError, suggest
from ..reading_options import ColumnOptions
from .columns import shorten
from .repair import TableFault
from .schema import TableSchema
from .table_file import TableFile

LABEL_NAMES = ("label", "labels", "class", "target", "y")
NONE = "none"  # as the name of a column: there is no such column
_ROLE_OPTIONS = ("label_column", "split_column", "feature_columns", "ignore_columns")
_INDEX_NAMES = ("", "Unnamed: 0")  # of the numbers of rows, as pandas saves them


class Roles(NamedTuple):
    """The columns of a table by their use.

    Attributes:
        labels: of labels; () for none.
        split: the column that says the split of a row; None for none.
        features: that may become features, in the order of the file.
        row_numbers: a column without a name, which numbers the rows; None for none.
        is_explicit: whether the features were named, so that none of them is doubted.
        image: the feature that has paths of images whatever their endings; None for none.
    """

    labels: Tuple[str, ...]
    split: Optional[str]
    features: Tuple[str, ...]
    row_numbers: Optional[str] = None
    is_explicit: bool = False
    image: Optional[str] = None

    def kinds(self, file: TableFile, schema: Optional[TableSchema]) -> Dict[str, str]:
        """The kinds of columns for `read_table`."""
        kinds = dict.fromkeys(file.columns, "none")
        kinds.update(dict.fromkeys(self.features, ""))
        if schema is not None:
            kinds.update(dict.fromkeys(schema.numbers, "number"))
            texts = (*schema.categories, *schema.texts, *schema.images)
            kinds.update(dict.fromkeys(texts, "text"))
        others = [name for name in (self.split, self.row_numbers, self.image) if name is not None]
        kinds.update(dict.fromkeys((*self.labels, *others), "text"))
        return kinds


def choose_roles(file: TableFile, options: ColumnOptions) -> Roles:
    """The roles of the columns by the options and by usual names.

    Raises:
        UsageError: an option names no column, or two options name the same one.
        DataError: no column, or more than one, has the usual name of labels.
    """
    _check_options(file, options)
    split = _find_split(file, options)
    labels = _find_labels(file, options)
    image = () if options.image_column is None else (options.image_column,)
    features = options.feature_columns
    if features and options.image_column not in (None, *features):
        features = (*features, *image)
    others = {*labels, *options.ignore_columns, split}
    index = next((name for name in file.columns[:1] if name in _INDEX_NAMES), None)
    if features or index in others:
        index = None
    candidates = set(features) or {*file.columns} - {*others, index}
    if not candidates:
        raise DataError(
            f"{file.path}: expected a column of features beside {_list(labels) or 'these'}, "
            "found none.",
            hint=f"The columns are {_list(file.columns)}.",
        )
    ordered = tuple(name for name in file.columns if name in candidates)
    is_explicit = bool(options.feature_columns)
    return Roles(labels, split, ordered, index, is_explicit, options.image_column)


def follow_schema(file: TableFile, schema: TableSchema, options: ColumnOptions) -> Roles:
    """The roles of the columns that a model was trained on, in another table.

    Raises:
        DataError: the table lacks a column of features, or some of several labels.
    """
    columns = set(file.columns)
    labels = [name for name in schema.labels if name in columns]
    missing = [name for name in schema.features if name not in columns]
    if labels:
        missing += [name for name in schema.labels if name not in labels]
    if missing:
        raise DataError(
            f"{file.path}: expected the columns that the model was trained on, found no "
            f"{_list(missing)}.",
            hint=f"The columns are {_list(file.columns)}.",
        )
    return Roles(tuple(labels), _find_split(file, options), schema.features, None, True)


def unused_columns(file: TableFile, roles: Roles) -> List[str]:
    """The columns that have no role."""
    used = {*roles.labels, *roles.features, roles.split, roles.row_numbers}
    return [name for name in file.columns if name not in used]


def _check_options(file: TableFile, options: ColumnOptions) -> None:
    """Refuse names of no column, and options that contradict each other."""
    columns = set(file.columns)
    for option in (*_ROLE_OPTIONS, "image_column"):
        for name in _names(option, options):
            if name not in columns:
                raise UsageError(
                    f"{file.path} has no column '{name}' ({_flag(option)}).",
                    hint=suggest(name, file.columns),
                )
    refuse_conflicts(options)


def refuse_conflicts(options: ColumnOptions) -> None:
    """Refuse a column with two roles, and a kind of labels for data without labels.

    Raises:
        UsageError: options contradict each other.
    """
    roles: Dict[str, str] = {}
    for option in (*_ROLE_OPTIONS, "image_column"):
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
    if option == "split_column" and value == ColumnOptions().split_column:
        return ()  # which need not be there
    return () if tuple(names) == (NONE,) else names


def _find_split(file: TableFile, options: ColumnOptions) -> Optional[str]:
    name = options.split_column
    if name in file.columns:
        return name
    matches = [each for each in file.columns if each.lower() == name.lower()]
    is_free = matches and name != NONE and matches[0] not in options.feature_columns
    return matches[0] if is_free and matches[0] not in options.ignore_columns else None


def _find_labels(file: TableFile, options: ColumnOptions) -> Tuple[str, ...]:
    if options.label_column == (NONE,) and NONE not in file.columns:
        return ()
    if options.label_column:
        return options.label_column
    others = {*options.ignore_columns, *options.feature_columns, options.image_column}
    names = [name for name in file.columns if name not in others]
    matches = tuple(name for name in names if name.strip().lower() in LABEL_NAMES)
    if len(matches) == 1:
        return matches
    problem = f"found {_list(matches)}" if matches else f"found {_list(file.columns)}"
    raise TableFault(
        f"{file.path}: expected one column named {', '.join(LABEL_NAMES[:-1])} or y, {problem}.",
        hint="Name the column of the labels with --label-column, or --label-column none for data "
        "without labels.",
        label_column=(matches or tuple(names) or (NONE,))[-1:],  # a guess
    )


def _list(names: Sequence[str], most: int = 20) -> str:
    """`'a', 'b', ...`."""
    texts = [f"'{shorten(name)}'" for name in names[:most]]
    return ", ".join(texts + ["..."] * (len(names) > most))
