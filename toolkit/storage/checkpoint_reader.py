"""Read a checkpoint without a graph: its tensors, and one hash over all of them."""

from __future__ import annotations

import hashlib
from typing import Any, Dict

import numpy as np

from ..compat import tf
from ..errors import CheckpointError


def open_reader(path: str) -> Any:
    """TensorFlow's reader of a checkpoint.

    Args:
        path: the prefix of its files.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return tf.train.NewCheckpointReader(path)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise _read_error(path, error) from None


def read_tensors(path: str) -> Dict[str, np.ndarray]:
    """All tensors of a checkpoint by name. Raises CheckpointError if it cannot be read."""
    reader = open_reader(path)
    return {
        name: _read_tensor(reader, path, name)
        for name in sorted(reader.get_variable_to_dtype_map())
    }


def fingerprint(path: str) -> str:
    """The SHA-256 over the names, types, shapes and bytes of all tensors, in the order of names.

    Two checkpoints have the same fingerprint if and only if they restore to the same bits. Raises
    CheckpointError if the checkpoint cannot be read.
    """
    reader = open_reader(path)
    digest = hashlib.sha256()
    for name in sorted(reader.get_variable_to_dtype_map()):
        value = _read_tensor(reader, path, name)
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(_to_bytes(value))
    return digest.hexdigest()


def first_difference(expected: Dict[str, np.ndarray], actual: Dict[str, np.ndarray]) -> str:
    """The first difference between two sets of tensors, in the order of their names.

    Returns:
        A clause that starts with the name of the tensor; '' if the sets are equal.
    """
    for name in sorted(set(expected) | set(actual)):
        if name not in actual:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} is not expected"
        old, new = expected[name], actual[name]
        if old.shape != new.shape or old.dtype != new.dtype:
            return (
                f"{name} is {new.dtype} {list(new.shape)}, expected {old.dtype} {list(old.shape)}"
            )
        if _to_bytes(old) != _to_bytes(new):
            return f"{name} {_describe_difference(old, new)}"
    return ""


def _describe_difference(old: np.ndarray, new: np.ndarray) -> str:
    """The difference between two arrays of one dtype and shape, as a clause."""
    if old.dtype.kind not in "fiub":
        return "differs"
    old, new = old.ravel(), new.ravel()
    places = np.flatnonzero(~((old == new) | ((old != old) & (new != new))))
    if not len(places):
        return "differs in the sign of a zero, or in the bits of a nan"
    first = places[0]
    return (
        f"differs in {len(places)} of {len(old)} numbers, first in number {first}: "
        f"{new[first].item()!r}, expected {old[first].item()!r}"
    )


def _to_bytes(value: np.ndarray) -> bytes:
    if value.dtype == object:  # strings
        return b"".join(b"%d:%s" % (len(item), item) for item in value.ravel())
    return np.ascontiguousarray(value).tobytes()


def _read_tensor(reader: Any, path: str, name: str) -> np.ndarray:
    try:
        return np.asarray(reader.get_tensor(name))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise _read_error(path, error) from None


def _read_error(path: str, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path}: not a readable checkpoint: {error}")
