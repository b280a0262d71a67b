"""What a checkpoint holds, read without a graph: its tensors, and one hash over all of them."""

from __future__ import annotations

import hashlib
from typing import Any, Dict

import numpy as np

from ..compat import tf
from ..errors import CheckpointError


def open_reader(path: str) -> Any:
    """TensorFlow's reader of the checkpoint with this prefix.

    Raises CheckpointError where it cannot be read.
    """
    try:
        return tf.train.NewCheckpointReader(path)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise _unreadable(path, error) from None


def read_tensors(path: str) -> Dict[str, np.ndarray]:
    """Every tensor of a checkpoint by name. Raises CheckpointError where it cannot be read."""
    reader = open_reader(path)
    return {
        name: _tensor(reader, path, name) for name in sorted(reader.get_variable_to_dtype_map())
    }


def fingerprint(path: str) -> str:
    """One SHA-256 over the names, types, shapes and bytes of all tensors, in the order of names.

    Two checkpoints have the same one if and only if they restore to the same bits. Raises
    CheckpointError where it cannot be read.
    """
    reader = open_reader(path)
    digest = hashlib.sha256()
    for name in sorted(reader.get_variable_to_dtype_map()):
        value = _tensor(reader, path, name)
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(_bytes(value))
    return digest.hexdigest()


def first_difference(expected: Dict[str, np.ndarray], found: Dict[str, np.ndarray]) -> str:
    """In words, where two sets of tensors differ first, in the order of their names; '' nowhere."""
    for name in sorted(set(expected) | set(found)):
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} is there in addition"
        old, new = expected[name], found[name]
        if old.shape != new.shape or old.dtype != new.dtype:
            return (
                f"{name} is {new.dtype} {list(new.shape)}, expected {old.dtype} {list(old.shape)}"
            )
        if _bytes(old) != _bytes(new):
            return f"{name} {_how(old, new)}"
    return ""


def _how(old: np.ndarray, new: np.ndarray) -> str:
    """How two arrays of one type and shape differ."""
    if old.dtype.kind not in "fiub":
        return "differs"
    old, new = old.ravel(), new.ravel()
    places = np.flatnonzero(~((old == new) | ((old != old) & (new != new))))
    if not len(places):
        return "differs in the sign of a zero, or the bits of a nan"
    first = places[0]
    return (
        f"differs in {len(places)} of {len(old)} numbers, first in number {first}: "
        f"{new[first].item()!r}, expected {old[first].item()!r}"
    )


def _bytes(value: np.ndarray) -> bytes:
    if value.dtype == object:  # strings
        return b"".join(b"%d:%s" % (len(item), item) for item in value.ravel())
    return np.ascontiguousarray(value).tobytes()


def _tensor(reader, path: str, name: str) -> np.ndarray:
    try:
        return np.asarray(reader.get_tensor(name))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path}: not a readable checkpoint: {error}")
