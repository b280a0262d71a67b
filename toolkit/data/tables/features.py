"""The features and the labels of a table: which columns are features, and the arrays that they and
the columns of labels become.

Legend: N rows, n rows with examples, F columns of numbers, K classes, L columns of labels.
"""

from __future__ import annotations

import collections
import os
import re
import shlex
from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...errors import DataError, join_names
from ..column import MAX_CLASSES, Column, Sequences
from ..decoded import Decoded
from ..images.image_file import file_endings
from ..images.image_files import ImageFiles
from ..reading_options import ColumnOptions, Settings
from ..spec import NUMBERS, TableSchema
from .columns import TableColumn, parse_number, shorten
from .roles import Columns, TableFault

MAX_INTEGER_CLASSES = 100  # more different whole numbers are classes only on request
MISSING = "(missing)"  # the text of an empty field that is a category of its own
_ID_NAME = re.compile(r"(?i:(^|[_ .-])(id|idx|index|uuid|guid))$|[a-z](Id|ID)$")
_DATE = re.compile(
    r"\d{4}[-/]\d\d?[-/]\d\d?([T ]\d\d?:\d\d.*)?$|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( \d\d?:\d\d.*)?$"
)
_WORDS = re.compile(r"\S\s+\S")

Labels = Tuple[Optional[np.ndarray], Tuple[str, ...]]
Kinds = Dict[str, List[TableColumn]]


def find_schema(
    columns: Sequence[TableColumn], labels: Sequence[str], options: ColumnOptions
) -> TableSchema:
    """What each column of features becomes, by its fields. Raises a DataError if some look like no
    features, and the user did not name them.
    """
    by_kind: Kinds = collections.defaultdict(list)
    for column in columns:
        is_image = column.name == options.image_column
        by_kind["images" if is_image else _kind_of(column)].append(column)
    if not options.feature_columns:
        _refuse_doubtful(columns, by_kind)
    names: Dict[str, Any] = {kind: tuple(c.name for c in by_kind[kind]) for kind in by_kind}
    names["categories"] = {
        column.name: sorted(t for t in column.values if t or options.missing == "fill")
        for column in by_kind["categories"]
    }
    return TableSchema(**names, labels=tuple(labels), is_one_hot=options.categories == "one-hot")


def _kind_of(column: TableColumn) -> str:
    """The field of `TableSchema` for a column, by its fields."""
    if column.is_list:
        return "lists"
    if column.numbers is not None:
        return "numbers"
    column.refuse_stray_text()
    texts = list(filter(None, column.values))
    if all(text.lower().endswith(file_endings()) for text in texts):
        return "images"
    num_filled = column.map(bool, bool).sum()
    return "categories" if 2 * len(texts) <= num_filled else "texts"  # each occurs twice, or not


def _refuse_doubtful(columns: Sequence[TableColumn], by_kind: Kinds) -> None:
    """Raise a DataError that names all columns that look like no features."""
    reasons = {}
    if len(columns) - len(by_kind["images"]) > 1:
        reasons = {column.name: _doubt_numbers(column) for column in by_kind["numbers"]}
    for column in (*by_kind["categories"], *by_kind["texts"]):
        texts = list(filter(None, column.values))
        num_words = sum(bool(_WORDS.search(text)) for text in texts)
        if all(map(_DATE.match, texts)):
            reasons[column.name] = "has dates"
        elif column in by_kind["texts"] and 2 * num_words < len(texts):
            reasons[column.name] = "has a different word in almost every row"
    doubtful = {each.name: reasons[each.name] for each in columns if reasons.get(each.name)}
    if doubtful:
        listing = ", ".join(f"'{shorten(name)}' {reason}" for name, reason in doubtful.items())
        raise TableFault(
            f"{columns[0].path}: {listing}: such columns are no features.",
            hint=f"Leave them out with --ignore-columns {shlex.quote(','.join(doubtful))}, or name "
            "all columns to use with --feature-columns.",
            ignore_columns=tuple(doubtful),
        )


def _doubt_numbers(column: TableColumn) -> str:
    """Why numbers look like no feature; "" if they look like one."""
    numbers = column.floats()
    if np.isnan(numbers).all():
        return "is empty"
    if len(numbers) > 2 and (np.diff(numbers) == 1).all():
        return "numbers the rows"
    are_different = _ID_NAME.search(column.name) and len(np.unique(numbers)) == len(numbers) > 1
    return "identifies the rows" if are_different and (numbers == np.rint(numbers)).all() else ""


# ------------------------------------------------------------------------------------ the features


def build_features(
    columns: Columns,
    schema: TableSchema,
    rows: np.ndarray,
    numbers: np.ndarray,
    images: Mapping[str, TableImages],
    sequences: AbstractSet[str] = frozenset(),
) -> Any:
    """The features of N rows: one array if all are numbers or one image or list, else a dict.

    Lists are sequences where their lengths differ, or where the component is among `sequences`.

    Only the texts of `rows`, int64 [n], have to be known. The columns of numbers are float32
    [N, F]; images have the names of the components that they become.
    """
    features: Dict[str, Any] = {}
    names = schema.component_names
    for name, texts in schema.categories.items():
        column, numbers_of = columns[name], {text: number for number, text in enumerate(texts)}
        known = np.array([numbers_of.get(text, -1) for text in column.values], np.int32)
        codes = known[column.codes]
        is_unknown = codes[rows] < 0  # other rows may have any text
        if is_unknown.any():
            row = int(rows[np.argmax(is_unknown)])
            raise DataError(
                f"{column.path}: row {row + 1:,}: the model does not know the text "
                f"'{shorten(column.values[column.codes[row]])}' in '{name}'.",
                hint=f"It was trained on {join_names([*map(repr, texts)], 20)}.",
            )
        if schema.is_one_hot:
            one_hot = np.equal.outer(codes, np.arange(len(texts)))
            numbers = np.concatenate([numbers, one_hot.astype(np.float32)], axis=1)
        else:
            class_names = [text or MISSING for text in texts]
            features[names[name]] = Column(codes, "class", class_names=class_names)
    for name in schema.texts:
        features[names[name]] = columns[name].map(str, object)
    for name in schema.lists:
        arrays = columns[name].arrays()
        dtype: Any = np.float32
        if all(array.dtype.kind == "i" for array in arrays):
            is_small = all(array.min() > -(2**31) and array.max() < 2**31 for array in arrays)
            dtype = np.int32 if is_small else np.int64
        arrays = [array.astype(dtype) for array in arrays]
        if names[name] in sequences:
            features[names[name]] = Sequences.join(arrays)
        else:
            is_even = len({array.shape for array in arrays}) == 1
            features[names[name]] = np.stack(arrays) if is_even else arrays
    for component, each in images.items():
        features[component] = each.files.select(each.paths)
    if numbers.shape[1]:
        features[NUMBERS] = numbers
    only = next(iter(features.values()))
    is_plain = len(features) == 1 and not schema.texts
    return only if is_plain and isinstance(only, (np.ndarray, Decoded)) else features


class TableImages(NamedTuple):
    """The image files that a column names: the different ones, and path and field of N rows."""

    files: ImageFiles
    paths: List[str]
    fields: List[str]


def open_images(
    column: TableColumn, rows: np.ndarray, settings: Settings, component: str
) -> TableImages:
    """The image files that a column names by paths from the folder of the table. A row that is not
    among `rows`, int64 [n], gets the image of the first of them.

    Raises a DataError if a field is no path of a file, or a file is no image.
    """
    used = np.full(len(column), column.codes[rows[0]])
    used[rows] = column.codes[rows]
    path_of = {code: _find_file(column, column.values[code]) for code in np.unique(used).tolist()}
    paths = list(path_of.values())
    files = ImageFiles(column.path, paths, settings.files, settings.images, component)
    codes = used.tolist()
    return TableImages(files, [path_of[c] for c in codes], [column.values[c] for c in codes])


def _find_file(column: TableColumn, field: str) -> str:
    """The path of the file that a field names, from the folder of the table."""
    found, hint = "a null character", "Write paths from the folder of the table."
    if "\0" not in field:  # which Python 3.7 refuses in a path
        for text in (field, field.replace("\\", "/")):
            path = os.path.join(os.path.dirname(column.path), os.path.expanduser(text))
            if os.path.isfile(path):
                return path
        found = f"{shorten(field, 80)}, and there is no file {shorten(path, 200)}"
    if "://" in field:
        found = f"the address {shorten(field, 80)}"
        hint = "Download the images, and write their paths from the folder of the table."
    raise column.error(column.row_of(field), "the path of an image", found, hint)


# ------------------------------------------------------------------------------------------ labels


def read_labels(
    columns: Sequence[TableColumn], kind: str, rows: np.ndarray, is_other: bool = False
) -> Labels:
    """The labels in some columns, and the names of their classes in the order of their numbers.

    They are int32 [N] of classes, else float32 [N] of values, or [N, L] of several columns; None
    without a column. The kind is "class", "value", or "auto" to let the fields decide; only those
    of `rows`, int64 [n], are looked at. Any number of classes is plausible in data on which a model
    was not trained. Raises a DataError for what is no label of the kind.
    """
    if not columns:
        return None, ()
    column = columns[0]
    if len(columns) > 1 or column.is_list:
        if kind == "class":
            found = "lists" if len(columns) == 1 else len(columns)
            raise DataError(
                f"{column.path}: expected one column of classes, found {found}.",
                hint="Name one column of classes, or set --label-kind value for a vector.",
            )
        if len(columns) > 1:
            return np.stack([_read_values(each, rows) for each in columns], axis=1), ()
        vectors = column.arrays()
        for row, vector in enumerate(vectors):
            if vector.shape != vectors[0].shape:
                hint = "Give each record as many labels."
                expected, why = f"{vectors[0].shape[0]} values", " as in the first row"
                raise column.error(row, expected, str(vector.shape[0]), hint, why)
        return np.stack(vectors).astype(np.float32), ()
    texts = [column.values[code] for code in np.unique(column.codes[rows])]
    if kind == "value" or kind == "auto" and _are_values(column, texts):
        return _read_values(column, rows), ()
    return _read_classes(column, texts, MAX_CLASSES if is_other else max(20, len(rows) // 2), rows)


def missing_labels(column: TableColumn) -> np.ndarray:
    """Whether each row lacks a label, bool [N].

    Only an empty text is missing, unless all other labels are numbers: then so is NA, for instance.
    """
    if column.is_list:
        return np.zeros(1, bool)  # none
    is_nan = None if column.numbers is None else np.isnan(column.numbers)
    return column.map("".__eq__, bool) if is_nan is None or is_nan.all() else is_nan


def _are_values(column: TableColumn, texts: Sequence[str]) -> bool:
    """Whether labels with these texts are values, and not classes."""
    numbers = [number for number in map(parse_number, texts) if number is not None]
    if len(numbers) < len(texts):
        column.refuse_stray_text("set --label-kind class, if these are classes")
        return False
    if any(not number.is_integer() for number in numbers if number == number):
        return True
    if len(texts) <= MAX_INTEGER_CLASSES:
        return False
    raise TableFault(
        f"{column.path}: the labels '{column.name}' are {len(texts):,} different whole numbers: "
        "classes or values?",
        hint="Set --label-kind value or --label-kind class.",
        label_kind="value",
    )


def _read_values(column: TableColumn, rows: np.ndarray) -> np.ndarray:
    """A column of numbers as float32 [N]."""
    with np.errstate(over="ignore"):
        numbers = column.map(parse_number, object).astype(np.float32)  # None becomes NaN
    is_wrong = ~np.isfinite(numbers[rows])
    if is_wrong.any():
        text = column.values[column.codes[rows[np.argmax(is_wrong)]]]
        raise column.text_error(text, "set --label-kind class, if these are classes")
    return numbers


def _read_classes(column: TableColumn, texts: Sequence[str], most: int, rows: np.ndarray) -> Labels:
    """A column of these texts as classes, of which there are so many at most."""
    names = sorted(set(map(_class_name, texts)))
    values = [number for number in map(parse_number, names) if number is not None]
    if len(values) == len(names) and not np.isnan(values).any():  # in the order of their numbers
        names = [names[i] for i in np.argsort(values, kind="mergesort")]  # stable
    if len(names) > min(MAX_CLASSES, most):
        raise DataError(
            f"{column.path}: expected labels of classes, found {len(names):,} different texts "
            f"in {len(rows):,} rows of '{column.name}'.",
            hint="Name the column of the labels with --label-column.",
        )
    numbers = {name: number for number, name in enumerate(names)}
    number_of = {text: numbers[_class_name(text)] for text in texts}
    return column.map(lambda text: number_of.get(text, -1), np.int32), tuple(names)


def _class_name(text: str) -> str:
    """The name of a class: 1, 01 and 1.0 are the same."""
    number = parse_number(text)
    if number is None or not np.isfinite(number) or text[:1].isalpha():  # a text, or True
        return text
    is_exact = abs(number) < 2**53  # floats skip some whole numbers beyond
    return str(int(number)) if is_exact and number == int(number) else text
