"""The part of each batch that one replica of several reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...compat import tf


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
