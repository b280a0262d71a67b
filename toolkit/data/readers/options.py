"""Which examples a reader reads, from where and in which order."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np

from ...compat import tf

DEFAULT_BUFFER = 10000  # examples
RESIDENT_LIMIT = 1 << 30  # bytes


class BatchSlice(NamedTuple):
    """A part of the examples of a step, which consist of one or several batches.

    Attributes:
        size: examples of a whole batch.
        start: the first example of the part, in each batch.
        num_rows: examples of the part, in each batch.
    """

    size: int
    start: int
    num_rows: int

    def length(self, num_examples: int) -> int:
        """How many examples the part has of so many, a multiple of `size`."""
        return num_examples // self.size * self.num_rows

    def positions(self, num_examples: int) -> np.ndarray:
        """The positions of the part among so many examples, a multiple of `size`: int64 [n]."""
        batches = np.arange(num_examples, dtype=np.int64).reshape(-1, self.size)
        return batches[:, self.start : self.start + self.num_rows].reshape(-1)

    def select(self, tensor: tf.Tensor, num_examples: int, axis: int = 0) -> Any:
        """The part of a tensor that has so many examples along an axis."""
        if num_examples == self.size:  # one batch: a slice
            begin = [0] * axis + [self.start]
            size = [-1] * axis + [self.num_rows]
            rest = tensor.shape.ndims - axis - 1
            return tf.slice(tensor, begin + [0] * rest, size + [-1] * rest)
        return tf.gather(tensor, self.positions(num_examples), axis=axis)


class ReaderOptions(NamedTuple):
    """Where and in which order examples are read.

    Attributes:
        kind: "resident" in memory; "stream" or "mapped" from where they are (of "mapped",
            `mapped.decode_splits` has decoded the data before); or "auto": resident up to the
            limit, else stream.
        seed: in [0, 2**31); the order of an epoch is a function of (seed, epoch).
        shuffle_buffer: examples that a streaming reader shuffles at a time.
        resident_limit: bytes of features.
        pads_to_longest: see `BatchForm`.
        part: the part of each batch that is read; None for all of it.
        by_number: whether the number of a batch is known only when a step takes it: of several
            processes, each takes the batch whose ticket it gets.
    """

    kind: str = "auto"
    seed: int = 0
    shuffle_buffer: int = DEFAULT_BUFFER
    resident_limit: int = RESIDENT_LIMIT
    pads_to_longest: bool = False
    part: Optional[BatchSlice] = None
    by_number: bool = False


DEFAULT_OPTIONS = ReaderOptions()
