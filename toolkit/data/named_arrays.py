"""Arrays by name, one row per example: checked against the inputs of a model, or drawn at random.

Legend: N rows.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

import numpy as np

from ..errors import DataError
from .column import TEXT, as_array, as_text, describe_shape

# name -> (dtype, shape of one row); None is any size
ArraySpecs = Mapping[str, Tuple[str, Tuple[Optional[int], ...]]]


def check_arrays(
    arrays: Mapping[str, Any], specs: ArraySpecs, source: str = ""
) -> Dict[str, np.ndarray]:
    """Arrays, or nested lists, by name, as arrays [N, ...] of the dtypes that a model needs: those
    of the same kind are converted, float64 to float32 and int64 to int32.

    Raises a DataError, with the file as source, if a name is missing or unknown, or shapes, dtypes
    or numbers of rows do not fit.
    """
    prefix = f"{source}: " if source else ""
    if set(arrays) != set(specs):
        raise DataError(
            f"{prefix or 'Inputs: '}expected {describe_specs(specs)}, found "
            f"{', '.join(sorted(arrays)) or 'nothing'}."
        )
    result = {}
    for name, (dtype, shape) in sorted(specs.items()):
        array, is_text = as_array(arrays[name]), dtype == TEXT
        can_convert = is_text and array.dtype.kind in "SUO"
        can_convert = can_convert or not is_text and np.can_cast(array.dtype, dtype, "same_kind")
        has_shape = len(array.shape) == 1 + len(shape) and all(
            expected in (None, size) for size, expected in zip(array.shape[1:], shape)
        )
        if not has_shape or not can_convert:
            raise DataError(
                f"{prefix}'{name}' is {list(array.shape)} {array.dtype}, expected "
                f"{describe_shape(('N', *shape))} {dtype}."
            )
        result[name] = as_text(array) if is_text else as_dtype(array, dtype, f"{prefix}'{name}'")
    counts = {name: len(array) for name, array in result.items()}
    if len(set(counts.values())) > 1:
        rows = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise DataError(
            f"{prefix or 'Inputs: '}the arrays have different numbers of rows: {rows}.",
            hint="Give one row of each for each example.",
        )
    return result


def as_dtype(array: np.ndarray, dtype: str, source: str) -> np.ndarray:
    """An array as another dtype of numbers. Raises a DataError if it has no such number, as 1.5 or
    2**40 is no int32 and 1e300 no float32.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        converted = np.asarray(array, dtype)
    is_wrong = np.isinf(converted) & np.isfinite(array)
    if converted.dtype.kind in "iu":
        is_wrong = converted != array
    if is_wrong.any():
        raise DataError(f"{source} has the number {array[is_wrong][0]}, which is no {dtype}.")
    return converted


def describe_specs(specs: ArraySpecs) -> str:
    """`label [N] int32, z [N, 8] float32`."""
    return ", ".join(
        f"{name} {describe_shape(('N', *shape))} {dtype}"
        for name, (dtype, shape) in sorted(specs.items())
    )


def random_arrays(specs: ArraySpecs, num_rows: int) -> Dict[str, np.ndarray]:
    """Random arrays: floats are standard normal, uint8 uniform, other types zero or empty; sizes
    that may be any are 1.
    """
    random = np.random.RandomState(0)
    arrays = {}
    for name, (dtype, shape) in sorted(specs.items()):
        size = (num_rows, *(1 if length is None else length for length in shape))
        if dtype == "uint8":
            arrays[name] = random.randint(0, 256, size).astype(np.uint8)
        elif dtype == TEXT:
            arrays[name] = np.full(size, b"", object)
        elif np.dtype(dtype).kind == "f":
            arrays[name] = random.standard_normal(size).astype(dtype)
        else:
            arrays[name] = np.zeros(size, dtype)
    return arrays
