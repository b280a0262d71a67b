"""Arrays by name, a row per example: checked against what a model is fed, and drawn for a trial."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

import numpy as np

from ..errors import DataError

Wanted = Dict[str, Tuple[str, Tuple[int, ...]]]  # name -> (dtype, shape of one)


def checked(given: Mapping[str, Any], wanted: Wanted, source: str = "") -> Dict[str, np.ndarray]:
    """The wanted arrays [N, ...] in the wanted types. source: named in front of an error.

    A type of the same kind is converted: float64 to float32, int64 to int32. Raises DataError
    where a name is missing or unknown, or a shape, a type or the numbers of rows do not fit.
    """
    place = source + ": " if source else ""
    if set(given) != set(wanted):
        raise DataError(
            f"{place or 'Inputs: '}expected {told(wanted)}, found "
            f"{', '.join(sorted(given)) or 'nothing'}."
        )
    arrays = {
        name: _typed(place, name, np.asarray(given[name]), *wanted[name]) for name in sorted(wanted)
    }
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        rows = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise DataError(
            f"{place or 'Inputs: '}the arrays have different numbers of rows: {rows}.",
            hint="Give one row of each for each example.",
        )
    return arrays


def _typed(place: str, name: str, array: np.ndarray, dtype: str, shape) -> np.ndarray:
    if array.shape[1:] != tuple(shape) or array.ndim == 0 or not _fits(array, dtype):
        raise DataError(
            f"{place}'{name}' is {list(array.shape)} {array.dtype}, expected "
            f"{_shape(shape)} {dtype}."
        )
    return np.asarray(array, dtype)


def _fits(array: np.ndarray, dtype: str) -> bool:
    return np.can_cast(array.dtype, np.dtype(dtype), "same_kind")


def _shape(shape) -> str:
    return f"[{', '.join(['N'] + [str(size) for size in shape])}]"


def told(wanted: Wanted) -> str:
    """`label [N] int32, z [N, 8] float32`."""
    return ", ".join(
        f"{name} {_shape(shape)} {dtype}" for name, (dtype, shape) in sorted(wanted.items())
    )


def drawn(wanted: Wanted, count: int) -> Dict[str, np.ndarray]:
    """`count` rows of each: floats are standard normal, uint8 uniform, other types zero."""
    random = np.random.RandomState(0)
    rows = {}
    for name, (dtype, shape) in sorted(wanted.items()):
        size = (count,) + tuple(shape)
        if dtype == "uint8":
            rows[name] = random.randint(0, 256, size).astype(np.uint8)
        elif np.dtype(dtype).kind == "f":
            rows[name] = random.standard_normal(size).astype(dtype)
        else:
            rows[name] = np.zeros(size, dtype)
    return rows
