"""The two ways to build a step: for TensorFlow's executor, and for the XLA compiler.

They differ in random numbers, in the sum of a gradient's squares and in the guard, and so in
rounding. A run chooses one at its beginning and keeps it.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, ContextManager, Dict, Optional, Sequence

from ..compat import tf
from . import randomness
from .guard import GuardedUpdate, guard_by_condition, guard_by_selection, read_variables
from .updates import Update


class PlainStep:
    """A step of ops that TensorFlow's executor runs one by one."""

    is_compiled = False

    def placing_input(self) -> ContextManager[None]:
        """In the block, the reader of the examples is built."""
        return contextlib.nullcontext()

    def placing(self) -> ContextManager[None]:
        """In the block, the model and its step are built."""
        return contextlib.nullcontext()

    def read_index(self, global_step):
        """int64 scalar tensor: the number of the batch of a step, read before the step is made."""
        return global_step.read_value()

    def finish(self, train_op, global_step) -> None:
        """Build what the strategy needs behind a step.

        Args:
            train_op: makes the step.
            global_step: the variable.
        """

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

    def read_start(self) -> Optional[Dict[str, Any]]:
        """What `apply` needs from before the step; None for nothing."""
        return None

    def apply(
        self,
        updates: Sequence[Update],
        options,
        earlier: Sequence[GuardedUpdate],
        more_follow: bool,
        start: Optional[Dict[str, Any]],
    ) -> GuardedUpdate:
        """Apply updates behind one guard; see `guard_by_condition`.

        Args:
            start: of `read_start`.
        """
        return guard_by_condition(updates, options, earlier, more_follow)


class XlaStep(PlainStep):
    """A step that XLA compiles; it has numbers alone, in shapes that are known."""

    is_compiled = True

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

    def read_start(self) -> Optional[Dict[str, Any]]:
        return read_variables()

    def apply(self, updates, options, earlier, more_follow, start) -> GuardedUpdate:
        """Apply updates behind one guard; see `guard_by_selection`."""
        return guard_by_selection(updates, options, earlier, start)


def dropout(x, rate: float, numbers):
    """x (float32, any shape) with a share `rate` zeroed and the rest scaled by 1 / (1 - rate).

    Args:
        x: the tensor.
        rate: in [0, 1).
        numbers: uniform in [0, 1), of the shape of x.

    Raises:
        ValueError: for a rate outside [0, 1).
    """
    if not 0 <= rate < 1:
        raise ValueError(f"dropout rate is {rate}, expected a number in [0, 1)")
    return tf.where(numbers >= rate, x * (1 / (1 - rate)), tf.zeros_like(x))


PLAIN = PlainStep()
XLA = XlaStep()
