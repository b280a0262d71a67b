"""Examples that are decoded when they are read, in the form of an array.

Legend: M examples, n of them, ... the shape of one example.
"""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from ..errors import DataError
from .files.parallel import map_parallel


class Decoded:
    """M examples that are decoded when they are read, as an array-like [M, ...].

    Before a training they are decoded once, into memory or into the cache.

    Args:
        decode: returns the example in a row, [...], from its number in [0, M). It is called in
            several threads.
        shape: [M, ...]; all examples have one shape.
        dtype: of the examples; `object` for texts.
        identity: a text that says all that the examples depend on, such as a hash of their files:
            the cache knows them by it. "" keeps them out of the cache.
        paths: of the files that are read.
    """

    def __init__(
        self,
        decode: Callable[[int], Any],
        shape: Sequence[int],
        dtype: Any = np.uint8,
        identity: str = "",
        paths: Sequence[str] = (),
    ):
        self.shape = tuple(map(int, shape))  # NumPy 2 writes its own integers in another way
        self.dtype = np.dtype(dtype)
        self.paths = paths
        self.identity = identity and hash_texts([identity, repr((self.shape, self.dtype.str))])
        self._decode = decode

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all examples after decoding."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Decode examples: a slice or integers [n] -> [n, ...].

        Raises:
            DataError: an example has another shape.
        """
        rows = as_rows(rows, len(self))
        result = np.empty((len(rows), *self.shape[1:]), self.dtype)

        def decode(i: int) -> None:
            value = self._decode(int(rows[i]))
            if np.shape(value) != self.shape[1:]:
                raise DataError(
                    f"Example {rows[i]} was decoded to the shape {list(np.shape(value))}, expected "
                    f"{list(self.shape[1:])}.",
                    hint="Give all examples one shape.",
                )
            result[i] = value

        map_parallel(decode, range(len(rows)))
        return result


def as_rows(rows: Any, count: int) -> np.ndarray:
    """The numbers of the rows of `count` that a slice, integers [n] or a mask select: int64 [n]."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(count))
    rows = np.asarray(rows)
    rows = (np.flatnonzero(rows) if rows.dtype == bool else rows).astype(np.int64)
    if len(rows) and (rows.min() < -count or rows.max() >= count):
        raise IndexError(f"rows {rows.min()} to {rows.max()} of {count}")
    return np.where(rows < 0, rows + count, rows)


def hash_texts(texts: Iterable[str]) -> str:
    """A hash of some texts in their order, 64 hex digits."""
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogateescape")).hexdigest()
