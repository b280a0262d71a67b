"""The features of a table: which columns are features, and the arrays that they become.

Legend: N rows, n rows with examples, F columns of numbers, K texts of a category.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Sequence

import numpy as np

from ...errors import DataError
from ..column import Column
from ..images.image_file import file_endings
from .columns import Table, TextColumn, shorten
from .repair import TableFault
from .roles import Roles
from .schema import NUMBERS, TableSchema, component_names

MISSING = "(missing)"  # the text of an empty field that is a category of its own
_ID_NAME = re.compile(r"(?i:(^|[_ .-])(id|idx|index|uuid|guid))$|[a-z](Id|ID)$")
_DATE = re.compile(
    r"\d{4}[-/]\d\d?[-/]\d\d?([T ]\d\d?:\d\d.*)?$|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( \d\d?:\d\d.*)?$"
)
_WORDS = re.compile(r"\S\s+\S")


def find_schema(table: Table, roles: Roles, has_missing: bool) -> TableSchema:
    """What each column of features becomes, by its fields.

    Args:
        table: the table.
        roles: of its columns.
        has_missing: whether empty fields of texts are a category of their own.

    Raises:
        DataError: columns look like no features, and the user did not name them.
    """
    names = roles.features
    kinds = {name: _kind_of_texts(table.texts[name]) for name in names if name in table.texts}
    if roles.image is not None:
        kinds[roles.image] = "image"
    if not roles.is_explicit:
        _refuse_doubtful(table, [name for name in names if kinds.get(name) != "image"])
    for name in kinds:
        if kinds[name] != "image":
            table.refuse_header(name)
    categories = {
        name: tuple(sorted(text for text in table.texts[name].values if text or has_missing))
        for name in names
        if kinds.get(name) == "category"
    }
    return TableSchema(
        numbers=tuple(name for name in names if name in table.numbers),
        categories=categories,
        texts=tuple(name for name in names if kinds.get(name) == "text"),
        lists=tuple(name for name in names if name in table.lists),
        images=tuple(name for name in names if kinds.get(name) == "image"),
    )


def _kind_of_texts(column: TextColumn) -> str:
    """ "image", "category" or "text", by the texts of a column."""
    texts = [text for text in column.values if text]
    if texts and all(text.lower().endswith(file_endings()) for text in texts):
        return "image"
    is_text = np.array([bool(text) for text in column.values])
    occurs_twice = 2 * len(texts) <= int(column.counts[is_text].sum())  # on average
    return "category" if occurs_twice else "text"


# ------------------------------------------------------------------------------- doubtful columns


def _refuse_doubtful(table: Table, names: Sequence[str]) -> None:
    """Raise a DataError that names all columns that look like no features."""
    doubtful = {}
    for name in names:
        reason = ""
        if name in table.texts:
            reason = _doubt_texts(table.texts[name])
        elif name in table.numbers and len(names) > 1:
            reason = _doubt_numbers(name, table.numbers[name])
        if reason:
            doubtful[name] = reason
    if doubtful:
        listing = ", ".join(f"'{shorten(name)}' {reason}" for name, reason in doubtful.items())
        raise TableFault(
            f"{table.file.path}: {listing}: such columns are no features.",
            hint=f"Leave it out with --ignore-columns {','.join(doubtful)}, or name all columns to "
            "use with --feature-columns.",
            ignore_columns=tuple(doubtful),
        )


def _doubt_numbers(name: str, numbers: np.ndarray) -> str:
    """Why numbers look like no feature; "" if they look like one."""
    if numbers[0] != numbers[0] and np.isnan(numbers).all():
        return "is empty"
    if len(numbers) > 2 and numbers[1] - numbers[0] == 1 and (np.diff(numbers) == 1).all():
        return "numbers the rows"
    are_different = _ID_NAME.search(name) and len(np.unique(numbers)) == len(numbers) > 1
    if are_different and (numbers == np.rint(numbers)).all():
        return "identifies the rows"
    return ""


def _doubt_texts(column: TextColumn) -> str:
    """Why texts look like no feature; "" if they look like one."""
    texts = [text for text in column.values if text]
    if all(map(_DATE.match, texts)):
        return "has dates"
    have_words = 2 * sum(bool(_WORDS.search(text)) for text in texts) >= len(texts)
    is_text = _kind_of_texts(column) == "text"
    return "has a different word in almost every row" if is_text and not have_words else ""


# ------------------------------------------------------------------------------------ the features


def find_missing(table: Table, schema: TableSchema) -> Dict[str, np.ndarray]:
    """Where each column of features lacks a value, bool [N], of the columns that lack some."""
    missing = {name: np.isnan(table.numbers[name]) for name in schema.numbers}
    for name in (*schema.categories, *schema.texts, *schema.images):
        column = table.texts[name]
        missing[name] = np.array([not text for text in column.values])[column.codes]
    return {name: mask for name, mask in missing.items() if mask.any()}


def build_features(
    table: Table, schema: TableSchema, rows: np.ndarray, images: Dict[str, Any]
) -> Any:
    """The features of N rows: one array if all are numbers or one image or list, else a dict.

    Args:
        table: the table.
        schema: what the columns become.
        rows: that have examples, int64 [n]; only their texts have to be known.
        images: the images in each column of paths.
    """
    features: Dict[str, Any] = {}
    numbers = [table.numbers[name] for name in schema.numbers]
    if schema.is_one_hot:
        for name, texts in schema.categories.items():
            codes = _category_codes(table, schema, name, rows)
            numbers += [(codes == code).astype(np.float32) for code in range(len(texts))]
    if numbers:
        features[NUMBERS] = np.stack(numbers, axis=1)
    for name in schema.categories if not schema.is_one_hot else ():
        codes = _category_codes(table, schema, name, rows)
        names_of = [text or MISSING for text in schema.categories[name]]
        features[name] = Column(codes, "class", class_names=names_of)
    features.update((name, table.texts[name].take()) for name in schema.texts)
    features.update((name, _join_lists(table.lists[name])) for name in schema.lists)
    features.update(images)
    is_plain = (
        NUMBERS in features or images or isinstance(next(iter(features.values())), np.ndarray)
    )
    if len(features) == 1 and is_plain and not schema.texts:
        return next(iter(features.values()))
    names = component_names([name for name in features if name != NUMBERS])
    return {names.get(name, name): value for name, value in features.items()}


def _category_codes(table: Table, schema: TableSchema, name: str, rows: np.ndarray) -> np.ndarray:
    """The class number of each row's text, int32 [N]; -1 for an unknown one in no row of `rows`."""
    column, texts = table.texts[name], schema.categories[name]
    number_of = {text: number for number, text in enumerate(texts)}
    numbers = np.array([number_of.get(text, -1) for text in column.values], np.int32)
    codes = numbers[column.codes]
    is_unknown = codes[rows] < 0
    if is_unknown.any():
        row = int(rows[np.argmax(is_unknown)])
        raise DataError(
            f"{table.file.place(row)}: the model does not know the text "
            f"'{shorten(column.values[column.codes[row]])}' in '{name}'.",
            hint=f"It was trained on {', '.join(map(repr, texts[:20]))}.",
        )
    return codes


def _join_lists(arrays: Sequence[np.ndarray]) -> Any:
    """N lists as one array, or as a list of arrays where their lengths differ."""
    is_whole = all(array.dtype.kind in "iu" for array in arrays)
    is_small = is_whole and all(abs(array).max() < 2**31 for array in arrays)
    dtype = np.float32 if not is_whole else np.int32 if is_small else np.int64
    arrays = [array.astype(dtype) for array in arrays]
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    return arrays
