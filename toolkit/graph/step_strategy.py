"""The two ways to build a step: for TensorFlow's executor, and for the XLA compiler.

They differ in random numbers, in the sum of a gradient's squares and in the guard, and so in
rounding. A run chooses one at its beginning and keeps it.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, ContextManager, Dict, Optional

from ..compat import tf
from . import randomness
from .guard import guard_by_condition, guard_by_selection, read_variables


class PlainStep:
    """A step of ops that TensorFlow's executor runs one by one."""

    is_compiled = False
    guard = staticmethod(guard_by_condition)

    def placing_input(self) -> ContextManager[None]:
        """In the block, the reader of the examples is built."""
        return contextlib.nullcontext()

    def placing(self) -> ContextManager[None]:
        """In the block, the model and its step are built."""
        return contextlib.nullcontext()

    def read_index(self, global_step: tf.Variable) -> tf.Tensor:
        """int64 scalar tensor: the number of the batch of a step, read before the step is made."""
        return global_step.read_value()

    def read_start(self) -> Optional[Dict[str, Any]]:
        """What `guard` needs from before the step; None for nothing."""
        return None

    def finish(self, train_op: tf.Operation, global_step: tf.Variable) -> None:
        """Build what the strategy needs behind the op that makes the step."""

    def uniform(self, shape, seed_pair, minval: float = 0.0, maxval: float = 1.0):
        """float32 of `shape` in [minval, maxval), a function of `seed_pair` (int32 [2])."""
        return tf.random.stateless_uniform(shape, seed_pair, minval, maxval)

    def normal(self, shape, seed_pair, mean: float = 0.0, stddev: float = 1.0):
        """float32 of `shape`, N(mean, stddev**2), a function of `seed_pair` (int32 [2])."""
        return tf.random.stateless_normal(shape, seed_pair, mean, stddev)

    def squared_norm(self, tensor):
        """The sum of the squares of all elements, [1, 1]. Not finite where an element is not.

        It is a product of a row with itself: tf.nn.l2_loss, which wakes the thread pool for a sum,
        took six times as long on a gradient of 784 x 128.
        """
        row = tf.reshape(tensor, [1, -1])
        return tf.matmul(row, row, transpose_b=True)


class XlaStep(PlainStep):
    """A step that XLA compiles; it has numbers alone, in shapes that are known."""

    is_compiled = True
    guard = staticmethod(guard_by_selection)

    def read_start(self) -> Optional[Dict[str, Any]]:
        return read_variables()

    def uniform(self, shape, seed_pair, minval: float = 0.0, maxval: float = 1.0):
        return randomness.hash_to_unit(shape, seed_pair, 24, 0.0) * (maxval - minval) + minval

    def normal(self, shape, seed_pair, mean: float = 0.0, stddev: float = 1.0):
        return tf.math.ndtri(randomness.hash_to_unit(shape, seed_pair, 23, 0.5)) * stddev + mean

    def squared_norm(self, tensor):
        """The sum of the squares of all elements, a scalar.

        XLA sums a row one number after the other, but columns side by side. The root keeps it from
        joining the two sums.
        """
        size = tensor.shape.num_elements()
        columns = tf.reduce_sum(tf.square(tf.reshape(tensor, [-1, math.gcd(size, 64)])), 0)
        return tf.reduce_sum(tf.square(tf.sqrt(columns)))


PLAIN = PlainStep()
XLA = XlaStep()
