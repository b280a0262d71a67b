"""The labels of a table: classes, or values.

Legend: N rows, K classes, L columns of labels.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..column import MAX_CLASSES
from .columns import Table, TextColumn, parse_number, refuse_stray_text, shorten
from .repair import TableFault
from .roles import LABEL_NAMES

MAX_INTEGER_CLASSES = 100  # more different whole numbers are classes only on request


class Labels(NamedTuple):
    """The labels of N rows.

    Attributes:
        values: int32 [N] of the kind "class", float32 [N] or [N, L] of the kind "value"; None for
            no labels.
        kind: "class", "value", or "" for no labels.
        class_names: in the order of the class numbers.
    """

    values: Optional[np.ndarray]
    kind: str
    class_names: Tuple[str, ...] = ()


def read_labels(
    table: Table, names: Sequence[str], kind: str, rows: np.ndarray, is_other: bool = False
) -> Labels:
    """The labels in some columns.

    Args:
        table: the table.
        names: of the columns; several are the values of a vector.
        kind: "class", "value", or "auto" to let the fields decide.
        rows: that have examples, int64 [n]; the labels of others are not looked at.
        is_other: whether a model was trained on such labels, so that any number of classes is
            plausible.

    Raises:
        DataError: a field is no label of the kind, or the kind is not clear.
    """
    if not names:
        return Labels(None, "")
    if len(names) == 1 and names[0] in table.lists:
        return Labels(_stack_vectors(table, names[0], kind), "value")
    if len(names) > 1:
        if kind == "class":
            raise DataError(
                f"{table.file.path}: expected one column of classes, found {len(names)}.",
                hint="Name one column, or set --label-kind value for a vector.",
            )
        vectors = [_read_values(table, name, rows) for name in names]
        return Labels(np.stack(vectors, axis=1), "value")
    column = table.texts[names[0]]
    if kind == "auto":
        kind = _choose_kind(table, names[0], column, rows)
    if kind == "value":
        return Labels(_read_values(table, names[0], rows), "value")
    return _read_classes(table, names[0], column, rows, is_other)


def missing_labels(table: Table, names: Sequence[str]) -> np.ndarray:
    """Whether each row lacks a label, bool [N].

    Only an empty text is missing, unless all other labels are numbers: then so is NA, for instance.
    """
    is_missing = np.zeros(table.num_rows, bool)
    for name in names:
        if name in table.texts:
            column = table.texts[name]
            is_missing |= _are_missing(column.values)[column.codes]
    return is_missing


def _are_missing(texts: Sequence[str]) -> np.ndarray:
    """Which of the different texts of a column stand for no label, bool [len(texts)]."""
    numbers = [parse_number(text) for text in texts]
    is_nan = np.array([number is not None and np.isnan(number) for number in numbers], bool)
    if None not in numbers and not is_nan.all():
        return is_nan
    return np.array([text == "" for text in texts], bool)


def _stack_vectors(table: Table, name: str, kind: str) -> np.ndarray:
    vectors = table.lists[name]
    for row, vector in enumerate(vectors):
        if vector.shape != vectors[0].shape:
            raise DataError(
                f"{table.file.place(row)}: expected {vectors[0].shape[0]} values in '{name}' as in "
                f"the first row, found {vector.shape[0]}.",
                hint="Give each record as many labels.",
            )
    if kind == "class":
        raise DataError(
            f"{table.file.path}: expected one class in '{name}', found lists.",
            hint="Set --label-kind value for vectors.",
        )
    return np.stack(vectors).astype(np.float32)


def _choose_kind(table: Table, name: str, column: TextColumn, rows: np.ndarray) -> str:
    """ "class" or "value", by the texts that occur in some rows."""
    counts = np.bincount(column.codes[rows], minlength=len(column.values))
    texts = [text for text, count in zip(column.values, counts) if count]
    numbers = [number for number in map(parse_number, texts) if number is not None]
    if len(numbers) < len(texts):
        refuse_stray_text(table.file, name, column)
        return "class"
    if any(number != int(number) for number in numbers if number == number):
        return "value"
    if len(texts) <= MAX_INTEGER_CLASSES:
        return "class"
    raise TableFault(
        f"{table.file.path}: the labels '{name}' are {len(texts):,} different whole numbers: "
        "classes or values?",
        hint="Set --label-kind value or --label-kind class.",
        label_kind="value",
    )


def _read_values(table: Table, name: str, rows: np.ndarray) -> np.ndarray:
    """A column of numbers as float32 [N]."""
    if name not in table.texts:
        raise DataError(
            f"{table.file.path}: expected a number in '{name}', found lists.",
            hint="Name a column of lists alone, without others.",
        )
    column = table.texts[name]
    numbers = [parse_number(text) for text in column.values]
    with np.errstate(over="ignore"):
        values = np.array([np.nan if n is None else n for n in numbers]).astype(np.float32)
    is_wrong = ~np.isfinite(values)[column.codes[rows]]
    if is_wrong.any():
        row = int(rows[np.argmax(is_wrong)])
        raise DataError(
            f"{table.file.place(row)}: expected a number in '{name}', found "
            f"'{shorten(column.values[column.codes[row]])}'.",
            hint="Correct it, or set --label-kind class for classes.",
        )
    return values[column.codes]


def _read_classes(
    table: Table, name: str, column: TextColumn, rows: np.ndarray, is_other: bool
) -> Labels:
    counts = np.bincount(column.codes[rows], minlength=len(column.values))
    names_of = [_class_name(text) if count else None for text, count in zip(column.values, counts)]
    names = _sort_classes([each for each in names_of if each is not None])
    if name.lower() not in LABEL_NAMES:
        table.refuse_header(name)
    if len(names) > (MAX_CLASSES if is_other else min(MAX_CLASSES, max(20, len(rows) // 2))):
        raise DataError(
            f"{table.file.path}: expected labels of classes, found {len(names):,} different texts "
            f"in {len(rows):,} rows of '{name}'.",
            hint="Name the column of the labels with --label-column.",
        )
    number_of: Dict[Any, int] = {each: number for number, each in enumerate(names)}
    numbers = np.array([number_of.get(each, -1) for each in names_of], np.int32)
    return Labels(numbers[column.codes], "class", tuple(names))


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
