"""The labels of a table: classes, or values.

Legend: N rows, n rows with examples, K classes, L columns of labels.
"""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..column import MAX_CLASSES
from .columns import TableColumn, parse_number, shorten
from .roles import TableFault

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
        column.refuse_stray_text()
        return False
    if any(number != int(number) for number in numbers if number == number):
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
        row = int(rows[np.argmax(is_wrong)])
        hint = "Correct it, or set --label-kind class for classes."
        raise column.error(row, "a number", f"'{shorten(column.text_of(row))}'", hint)
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
    return str(int(number)) if number == int(number) else text
