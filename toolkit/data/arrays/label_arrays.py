"""Labels that are stored as arrays: which are classes, and which are values.

    integers [N] or [N, 1], texts, bool [N]    one class for each example
    integers of higher rank                    classes, such as label images
    integers [N, L] of 0 and 1 alone           values: a vector for each example
    floats, bool of higher rank                values

Legend: N examples of a split, L labels of each.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

import numpy as np

from ...errors import DataError
from ..column import MAX_CLASSES, VOID, Column

CLASS, VALUE = "class", "value"
_TOO_LARGE = 2.0**62  # for a class that is stored as a float: near the end of int64


def read_label_arrays(
    path: str, arrays: Dict[str, np.ndarray], kind: str = "auto"
) -> Tuple[Dict[str, Column], List[str]]:
    """The labels of some splits as columns, and sentences on what they are, if that is not clear.

    Args:
        path: of the file, for error messages.
        arrays: by name of the split.
        kind: "class", "value", or "auto" for what their types say.

    Raises:
        DataError: they are no labels of the kind.
    """
    arrays = {  # without a last axis of size 1: a column, or the channel of label images
        split: array[..., 0] if array.ndim in (2, 4) and array.shape[-1] == 1 else array
        for split, array in arrays.items()
    }
    first = next(iter(arrays.values()))
    nouns = {"S": "texts", "U": "texts", "b": "truth values"}
    types = {split: nouns.get(array.dtype.kind, "numbers") for split, array in arrays.items()}
    if len(set(types.values())) > 1:
        found = " and ".join(f"{text} in '{split}'" for split, text in types.items())
        raise DataError(
            f"{path}: expected labels of one type in all splits, found {found}.",
            hint="Save the labels of all splits as numbers, as texts or as truth values.",
        )
    names: Tuple[str, ...] = ()
    notes: List[str] = []
    if first.dtype.kind in "SU":
        arrays, names = _number_texts(path, arrays, kind)
        kind = CLASS
    elif first.dtype.kind == "b" and first.ndim == 1 and kind != VALUE:
        kind, names = CLASS, ("False", "True")
        arrays = {split: array.astype(np.int32) for split, array in arrays.items()}
    else:
        for split, array in arrays.items():
            if array.dtype.kind not in "fiub":
                raise DataError(
                    f"{path} ({split}): expected numbers or texts as labels, found {array.dtype}.",
                    hint="Save classes as integers or texts, and values as floats.",
                )
        kind = _default_kind(arrays) if kind == "auto" else kind
        if kind == VALUE:
            notes = _describe_values(arrays)
            with np.errstate(over="ignore"):  # too large for float32: infinity, refused later
                arrays = {split: array.astype(np.float32) for split, array in arrays.items()}
        else:
            arrays = {split: _as_classes(path, split, array) for split, array in arrays.items()}
    count = len(names)
    if kind == CLASS and not names:
        has_void = first.dtype == np.uint8 and first.ndim > 1
        numbers = [array[array != VOID] if has_void else array for array in arrays.values()]
        count = min(MAX_CLASSES, 1 + max(int(array.max(initial=0)) for array in numbers))
    return {split: Column(array, kind, count, names) for split, array in arrays.items()}, notes


def _describe_values(arrays: Dict[str, np.ndarray]) -> List[str]:
    """A sentence if labels are values that could be classes."""
    are_whole = all((array == np.rint(array)).all() for array in arrays.values())
    first = next(iter(arrays.values()))
    if first.dtype.kind != "f" or first.ndim > 1 or not are_whole:
        return []
    return ["The labels are floats and so values; --label-kind class makes whole numbers classes."]


def _default_kind(arrays: Dict[str, np.ndarray]) -> str:
    if any(array.dtype.kind not in "iu" for array in arrays.values()):
        return VALUE
    are_vectors = all(array.ndim == 2 and array.shape[1] > 1 for array in arrays.values())
    are_binary = all(np.isin(array, (0, 1)).all() for array in arrays.values())
    return VALUE if are_vectors and are_binary else CLASS


def _number_texts(
    path: str, arrays: Dict[str, np.ndarray], kind: str
) -> Tuple[Dict[str, np.ndarray], Tuple[str, ...]]:
    """Texts as class numbers, in the order of the texts, and the texts without spaces around."""
    if kind == VALUE:
        raise DataError(
            f"{path}: expected labels that are values, found texts.", hint="Save them as floats."
        )
    texts = {  # of no texts, older versions of numpy decode floats
        split: np.char.strip(
            np.char.decode(array, "utf-8", "replace").astype(str)
            if array.dtype.kind == "S"
            else array
        )
        for split, array in arrays.items()
    }
    names = np.unique(np.concatenate([array.reshape(-1) for array in texts.values()]))
    numbers = {split: np.searchsorted(names, array) for split, array in texts.items()}
    return numbers, tuple(names.tolist())


def _as_classes(path: str, split: str, array: np.ndarray) -> np.ndarray:
    """Whole numbers from 0 as integers."""
    place = f"{path} ({split})"
    if array.dtype.kind == "f":
        is_wrong = (array != np.rint(array)) | ~(np.abs(array) < _TOO_LARGE)
        if is_wrong.any():
            raise DataError(
                f"{place}: expected classes, found the label {array[is_wrong][0]:g}.",
                hint="Save integers from 0, or set --label-kind value.",
            )
    return array.astype(np.int64) if array.dtype.kind in "fb" else array
