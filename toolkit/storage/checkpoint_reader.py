"""Read a checkpoint without a graph: its tensors, and one hash over all of them."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import Any, Dict, Iterable, Iterator, Tuple

import numpy as np

from ..compat import tf
from ..errors import CheckpointError
from ..files import plain_path


@contextlib.contextmanager
def open_reader(path: str) -> Iterator[Any]:
    """TensorFlow's reader of the checkpoint whose files have this prefix, valid in the block.
    Raises CheckpointError if it cannot be read, also for an error of the reader in the block.
    """
    plain = path
    try:
        with plain_path(path) as plain:
            yield tf.train.NewCheckpointReader(plain)
    except (OSError, tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        reason = getattr(error, "strerror", None) or str(error).replace(plain, path)
        raise CheckpointError(f"{path}: not a readable checkpoint: {reason}") from None


def has_files(path: str) -> bool:
    """Whether the files of a checkpoint exist, whose paths have this prefix."""
    folder, start = os.path.split(path)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return f"{start}.index" in names and any(n.startswith(f"{start}.data-") for n in names)


def read_tensors(path: str) -> Dict[str, np.ndarray]:
    """All tensors of a checkpoint by name. Raises CheckpointError if it cannot be read."""
    with open_reader(path) as reader:
        names = sorted(reader.get_variable_to_dtype_map())
        return {name: np.asarray(reader.get_tensor(name)) for name in names}


def fingerprint(path: str) -> str:
    """The SHA-256 over the names, types, shapes and bytes of all tensors, in the order of names.

    Two checkpoints have the same fingerprint if and only if they restore to the same bits. Raises
    CheckpointError if the checkpoint cannot be read.
    """
    with open_reader(path) as reader:
        names = sorted(reader.get_variable_to_dtype_map())
        return hash_tensors((name, np.asarray(reader.get_tensor(name))) for name in names)


def hash_tensors(tensors: Iterable[Tuple[str, np.ndarray]]) -> str:
    """As `fingerprint`, of names and tensors in the order of the names."""
    digest = hashlib.sha256()
    for name, value in tensors:
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(_to_bytes(value))
    return digest.hexdigest()


def first_difference(expected: Dict[str, np.ndarray], actual: Dict[str, np.ndarray]) -> str:
    """The first difference between two sets of tensors, in the order of their names: a clause that
    starts with the name of the tensor; '' if the sets are equal.
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
