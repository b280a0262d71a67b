"""Random numbers that are a function of (run seed, name, counter) and of nothing else.

Stateful random ops restart their stream in a new session, and their default seeds depend on how
many ops were created before them. The numbers here do neither: a resumed run continues like an
uninterrupted one, and an extension that adds ops does not change the initial weights.
"""

from __future__ import annotations

import hashlib
from typing import Any, Callable

import numpy as np

from ..compat import tf
from ..errors import suggest

BLOCK_SIZE = 256  # examples whose numbers are drawn together; another size draws other numbers


def seed_of(seed: int, name: str) -> int:
    """A seed in [0, 2**31) for a named use, from the run's seed."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFFFFFF


def seed_pair(seed: int, counter) -> tf.Tensor:
    """The seed pair of a stateless random op, int32 [2], of a seed in [0, 2**31) and a scalar."""
    return tf.stack([tf.constant(seed, tf.int32), tf.cast(counter, tf.int32)])


def draw_by_position(draw: Callable[..., Any], shape: Any, position: Any, seed: int) -> tf.Tensor:
    """float32 of `shape`, examples first: row i is a function of (seed, position + i).

    `draw` is from a shape and a seed pair, int64 [2], to numbers of that shape. It draws blocks of
    examples whose positions, from the int64 scalar of the first one, are multiples of `BLOCK_SIZE`.
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


def hash_places(shape, pair):
    """uint32 of `shape`, each a hash of `pair` (int32 [2]) and of its place.

    The first word of `pcg3d` (Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 2020)
    of (place, counter, seed). XLA, which is slow at TensorFlow's own generators, computes all
    places in parallel. Only TensorFlow 2.x has the ops.
    """
    place = tf.cast(tf.range(tf.reduce_prod(shape)), tf.uint32)
    x, y, z = [v * 1664525 + 1013904223 for v in (place, *tf.unstack(tf.cast(pair, tf.uint32)))]
    x, y, z = _mix(x, y, z)
    x, y, z = [tf.bitwise.bitwise_xor(v, tf.bitwise.right_shift(v, v * 0 + 16)) for v in (x, y, z)]
    return tf.reshape(_mix(x, y, z)[0], shape)


def hash_to_unit(shape, pair, bits: int, offset: float):
    """float32 of `shape` in [0, 1): the upper `bits` of `hash_places`, plus `offset`, as a share
    of 2**bits.
    """
    words = hash_places(shape, pair)
    upper = tf.bitwise.right_shift(words, words * 0 + (32 - bits))
    return (tf.cast(upper, tf.float32) + offset) * 2.0**-bits


def _mix(x, y, z):
    x = x + y * z
    y = y + z * x
    return x, y, z + x * y


class Initializer:
    """A Keras-compatible initializer whose values depend on its seed and the shape alone.

    Kinds (normal distributions are not truncated):

    - `glorot_uniform`: U(-l, l), l = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
    - `he_normal`: N(0, 2 / fan_in) (He et al. 2015).
    - `lecun_normal`: N(0, 1 / fan_in).
    - `normal`: N(0, stddev**2).
    - `uniform`: U(-stddev, stddev).

    Args:
        kind: one of `KINDS`.
        seed: in [0, 2**31).
        stddev: of `normal`, and the limit of `uniform`; a positive number.

    Raises:
        ValueError: for an unknown kind.
    """

    KINDS = ("glorot_uniform", "he_normal", "lecun_normal", "normal", "uniform")

    def __init__(self, kind: str, seed: int, stddev: float = 0.05):
        if kind not in self.KINDS:
            raise ValueError(f"unknown initializer '{kind}'. {suggest(kind, self.KINDS)}")
        self.kind, self.seed, self.stddev = kind, seed, stddev

    def __call__(self, shape, dtype=None, partition_info=None, **kwargs):
        sizes = [int(size) for size in shape]
        pair = tf.constant([self.seed, 0], tf.int32)
        if self.kind in ("glorot_uniform", "uniform"):
            limit = self._scale(sizes)
            values = tf.random.stateless_uniform(sizes, pair, -limit, limit)
        else:
            values = tf.random.stateless_normal(sizes, pair, 0.0, self._scale(sizes))
        return tf.cast(values, dtype or tf.float32)

    def _scale(self, sizes) -> float:
        receptive = int(np.prod(sizes[:-2], dtype=np.int64)) if len(sizes) > 2 else 1
        fan_in = (sizes[-2] if len(sizes) > 1 else 1) * receptive
        fan_out = (sizes[-1] if sizes else 1) * receptive
        return {
            "glorot_uniform": (6.0 / (fan_in + fan_out)) ** 0.5,
            "he_normal": (2.0 / fan_in) ** 0.5,
            "lecun_normal": (1.0 / fan_in) ** 0.5,
        }.get(self.kind, self.stddev)

    def get_config(self):
        return {"kind": self.kind, "seed": self.seed, "stddev": self.stddev}
