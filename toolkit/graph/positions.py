"""Random numbers of an evaluation or a prediction: a function of each example's position."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tf

BLOCK_SIZE = 256  # examples whose numbers are drawn together; another size draws other numbers


def draw_by_position(draw: Callable[..., Any], shape: Any, position: Any, seed: int) -> tf.Tensor:
    """float32 of `shape`: row i is a function of (seed, position + i).

    The numbers are drawn in blocks of examples whose positions are multiples of `BLOCK_SIZE`.

    Args:
        draw: from a shape and a seed pair, int64 [2], to numbers of that shape.
        shape: of the numbers, the number of examples first.
        position: int64 scalar, of the first example.
        seed: in [0, 2**31).
    """
    static_shape = tf.zeros(shape).shape  # as far as it is known
    shape = tf.cast(tf.convert_to_tensor(shape), tf.int64)
    count = shape[0]
    first = position // BLOCK_SIZE
    last = (position + count - 1) // BLOCK_SIZE
    block_shape = tf.concat([[BLOCK_SIZE], tf.cast(shape[1:], tf.int32)], 0)
    blocks = tf.map_fn(
        lambda block: draw(block_shape, tf.stack([tf.constant(seed, tf.int64), block])),
        tf.range(first, last + 1),
        dtype=tf.float32,
    )  # [blocks, BLOCK_SIZE, ...]
    rows = tf.reshape(blocks, tf.concat([[-1], tf.cast(shape[1:], tf.int32)], 0))
    start = position - first * BLOCK_SIZE
    numbers = rows[start : start + count]
    numbers.set_shape(static_shape)
    return numbers
