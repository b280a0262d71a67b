"""Labels that are stored as arrays: which are classes, and which are values.

    integers [N] or [N, 1], texts, bool [N]    one class for each example
    integers of higher rank                    classes, such as label images
    integers [N, L] of 0 and 1 alone           values: a vector for each example
    floats, bool of higher rank                values

Legend: N examples of a split, L labels of each.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple

import numpy as np

from ...errors import DataError
from ..column import MAX_CLASSES, VOID, Column

CLASS, VALUE = "class", "value"


class LabelArrays(NamedTuple):
    """The labels of some splits.

    Attributes:
        arrays: by name of the split: integers of the kind "class", float32 of the kind "value".
        kind: "class" or "value".
        num_classes: K of the kind "class"; else 0.
        class_names: in the order of the class numbers; () for numbers as names.
        notes: sentences on what the labels are, where it could be something else.
    """

    arrays: Dict[str, np.ndarray]
    kind: str
    num_classes: int = 0
    class_names: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()

    def column(self, split: str) -> Column:
        """The labels of a split as a component."""
        return Column(self.arrays[split], self.kind, self.num_classes, self.class_names)


def read_label_arrays(path: str, arrays: Dict[str, np.ndarray], kind: str = "auto") -> LabelArrays:
    """What the labels of some splits are.

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
    names = {"S": "texts", "U": "texts", "b": "truth values"}
    types = {split: names.get(array.dtype.kind, "numbers") for split, array in arrays.items()}
    if len(set(types.values())) > 1:
        found = " and ".join(f"{text} in '{split}'" for split, text in types.items())
        raise DataError(
            f"{path}: expected labels of one type in all splits, found {found}.",
            hint="Save the labels of all splits as numbers, as texts or as truth values.",
        )
    if first.dtype.kind in "SU":
        return _number_texts(path, arrays, kind)
    if first.dtype.kind == "b" and first.ndim == 1 and kind != VALUE:
        return LabelArrays(_astype(arrays, np.int32), CLASS, 2, ("False", "True"))
    if kind == "auto":
        kind = _default_kind(arrays)
    if kind == VALUE:
        return LabelArrays(_as_values(path, arrays), VALUE, notes=_describe_values(arrays))
    classes = {split: _as_classes(path, split, array) for split, array in arrays.items()}
    has_void = first.dtype == np.uint8 and first.ndim > 1
    numbers = [array[array != VOID] if has_void else array for array in classes.values()]
    largest = max(int(array.max(initial=0)) for array in numbers)
    return LabelArrays(classes, CLASS, 1 + largest)


def _describe_values(arrays: Dict[str, np.ndarray]) -> Tuple[str, ...]:
    """A sentence if labels are values that could be classes."""
    are_whole = all((array == np.rint(array)).all() for array in arrays.values())
    first = next(iter(arrays.values()))
    if first.dtype.kind != "f" or first.ndim > 1 or not are_whole:
        return ()
    return ("The labels are floats and so values; --label-kind class makes whole numbers classes.",)


def _astype(arrays: Dict[str, np.ndarray], dtype: type) -> Dict[str, np.ndarray]:
    return {split: array.astype(dtype) for split, array in arrays.items()}


def _default_kind(arrays: Dict[str, np.ndarray]) -> str:
    if any(array.dtype.kind not in "iu" for array in arrays.values()):
        return VALUE
    are_vectors = all(array.ndim == 2 and array.shape[1] > 1 for array in arrays.values())
    are_binary = all(np.isin(array, (0, 1)).all() for array in arrays.values())
    return VALUE if are_vectors and are_binary else CLASS


def _number_texts(path: str, arrays: Dict[str, np.ndarray], kind: str) -> LabelArrays:
    """Texts as classes, in the order of the texts."""
    if kind == VALUE:
        raise DataError(
            f"{path}: expected labels that are values, found texts.", hint="Save them as floats."
        )
    texts = {split: _decode(array) for split, array in arrays.items()}
    names = np.unique(np.concatenate([array.reshape(-1) for array in texts.values()]))
    numbers = {split: np.searchsorted(names, array) for split, array in texts.items()}
    return LabelArrays(_astype(numbers, np.int32), CLASS, len(names), tuple(names.tolist()))


def _decode(array: np.ndarray) -> np.ndarray:
    """Texts as unicode, without spaces around them."""
    if array.dtype.kind == "S":
        # Of no texts, older versions of numpy return floats.
        array = np.char.decode(array, "utf-8", "replace").astype(str)
    return np.char.strip(array)


def _as_values(path: str, arrays: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    for split, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise DataError(
                f"{path} ({split}): expected numbers or texts as labels, found {array.dtype}.",
                hint="Save classes as integers or texts, and values as floats.",
            )
    with np.errstate(over="ignore"):  # too large for float32: infinity, which is refused later
        return _astype(arrays, np.float32)


def _as_classes(path: str, split: str, array: np.ndarray) -> np.ndarray:
    """Whole numbers from 0 as integers."""
    place = f"{path} ({split})"
    if array.dtype.kind == "f" and not (array == np.rint(array)).all():
        raise DataError(
            f"{place}: expected classes, found the label {array[array != np.rint(array)][0]:g}.",
            hint="Save integers from 0, or set --label-kind value.",
        )
    lowest, highest = array.min(initial=0), array.max(initial=0)
    if lowest < 0:
        position = int(np.argwhere(array < 0)[0][0])
        raise DataError(
            f"{place}: expected labels from 0, found label {array.flat[np.argmax(array < 0)]} in "
            f"example {position} and {np.count_nonzero(array < 0) - 1:,} more negative ones.",
            hint="Leave out examples without a label, or number the classes from 0.",
        )
    if highest >= MAX_CLASSES:
        raise DataError(
            f"{place}: expected labels below {MAX_CLASSES:,}, found {int(highest):,}.",
            hint="Number the classes from 0, or set --label-kind value.",
        )
    return array.astype(np.int32) if array.dtype != np.uint8 else array
