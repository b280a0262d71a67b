"""The labels of a table: classes, or values.

Legend: N rows, n rows with examples, K classes, L columns of labels.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..column import MAX_CLASSES
from .columns import TableColumn, parse_number, shorten
from .repair import TableFault
from .roles import LABEL_NAMES

MAX_INTEGER_CLASSES = 100  # more different whole numbers are classes only on request

Labels = Tuple[Optional[np.ndarray], Tuple[str, ...]]


def read_labels(
    columns: Sequence[TableColumn], kind: str, rows: np.ndarray, is_other: bool = False
) -> Labels:
    """The labels in some columns.

    Args:
        columns: the values of a vector if they are several; [] for no labels.
        kind: "class", "value", or "auto" to let the fields decide.
        rows: that have examples, int64 [n]; the labels of others are not looked at.
        is_other: whether a model was trained on such labels, so that any number of classes is
            plausible.

    Returns:
        labels: int32 [N] of classes, float32 [N] or [N, L] of values; None for no labels.
        class_names: [K], in the order of the class numbers; () if they are no classes.

    Raises:
        DataError: a field is no label of the kind, or the kind is not clear.
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
        if len(columns) == 1:
            return _stack_vectors(column), ()
        return np.stack([_read_values(each, rows) for each in columns], axis=1), ()
    if kind == "auto":
        kind = _choose_kind(column, rows)
    if kind == "value":
        return _read_values(column, rows), ()
    return _read_classes(column, rows, is_other)


def missing_labels(column: TableColumn) -> np.ndarray:
    """Whether each row lacks a label, bool [N].

    Only an empty text is missing, unless all other labels are numbers: then so is NA, for instance.
    """
    if column.is_list:
        return np.zeros(1, bool)  # none
    is_nan = None if column.numbers is None else np.isnan(column.numbers)
    return column.texts.map("".__eq__, bool) if is_nan is None or is_nan.all() else is_nan


def _stack_vectors(column: TableColumn) -> np.ndarray:
    vectors = column.arrays()
    for row, vector in enumerate(vectors):
        if vector.shape != vectors[0].shape:
            hint = "Give each record as many labels."
            expected, why = f"{vectors[0].shape[0]} values", " as in the first row"
            raise column.error(row, expected, str(vector.shape[0]), hint, why)
    return np.stack(vectors).astype(np.float32)


def _occurs(column: TableColumn, rows: np.ndarray) -> np.ndarray:
    """Whether each of the different texts occurs in some rows, bool [len(values)]."""
    codes, values, _ = column.texts
    return np.bincount(codes[rows], minlength=len(values)) > 0


def _choose_kind(column: TableColumn, rows: np.ndarray) -> str:
    """ "class" or "value", by the texts that occur in some rows."""
    texts = [text for text, occurs in zip(column.texts.values, _occurs(column, rows)) if occurs]
    numbers = [number for number in map(parse_number, texts) if number is not None]
    if len(numbers) < len(texts):
        column.refuse_stray_text()
        return "class"
    if any(number != int(number) for number in numbers if number == number):
        return "value"
    if len(texts) <= MAX_INTEGER_CLASSES:
        return "class"
    raise TableFault(
        f"{column.path}: the labels '{column.name}' are {len(texts):,} different whole numbers: "
        "classes or values?",
        hint="Set --label-kind value or --label-kind class.",
        label_kind="value",
    )


def _read_values(column: TableColumn, rows: np.ndarray) -> np.ndarray:
    """A column of numbers as float32 [N]."""
    texts = column.texts
    with np.errstate(over="ignore"):
        numbers = texts.map(parse_number, object).astype(np.float32)  # None becomes NaN
    is_wrong = ~np.isfinite(numbers[rows])
    if is_wrong.any():
        row = int(rows[np.argmax(is_wrong)])
        found = f"'{shorten(texts.values[texts.codes[row]])}'"
        hint = "Correct it, or set --label-kind class for classes."
        raise column.error(row, "a number", found, hint)
    return numbers


def _read_classes(column: TableColumn, rows: np.ndarray, is_other: bool) -> Labels:
    pairs = zip(column.texts.values, _occurs(column, rows))
    names_of = {text: _class_name(text) for text, occurs in pairs if occurs}
    names = _sort_classes(list(names_of.values()))
    if column.name.lower() not in LABEL_NAMES:
        column.refuse_header()
    if len(names) > (MAX_CLASSES if is_other else min(MAX_CLASSES, max(20, len(rows) // 2))):
        raise DataError(
            f"{column.path}: expected labels of classes, found {len(names):,} different texts "
            f"in {len(rows):,} rows of '{column.name}'.",
            hint="Name the column of the labels with --label-column.",
        )
    numbers: Dict[str, int] = {name: number for number, name in enumerate(names)}
    number_of = {text: numbers[name] for text, name in names_of.items()}
    return column.texts.map(lambda text: number_of.get(text, -1), np.int32), tuple(names)


def _class_name(text: str) -> str:
    """The name of a class: 1, 01 and 1.0 are the same."""
    number = parse_number(text)
    if number is None or not np.isfinite(number) or text[:1].isalpha():  # a text, or True
        return text
    return str(int(number)) if number == int(number) else text


def _sort_classes(names: List[str]) -> List[str]:
    """The different names in the order of their numbers, if all are numbers, or of their texts."""
    different = sorted(set(names))
    numbers = [number for number in map(parse_number, different) if number is not None]
    if len(numbers) < len(different) or np.isnan(numbers).any():
        return different
    return [different[i] for i in np.argsort(numbers, kind="mergesort")]  # stable
