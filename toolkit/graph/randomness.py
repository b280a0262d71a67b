"""Random numbers that are a function of (run seed, name, counter) and of nothing else.

Stateful random ops restart their stream in a new session, and their default seeds depend on how
many ops stand before them. These do neither, so a resumed run goes on as the uninterrupted one
would have, and an extension that adds ops leaves the initial weights as they were.
"""

from __future__ import annotations

import hashlib

import numpy as np

from ..compat import tf


def seed_of(seed: int, name: str) -> int:
    """A seed in [0, 2**31) for a named use, from the run's seed."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFFFFFF


def counted(seed: int, counter) -> tf.Tensor:
    """The seed pair int32 [2] of a stateless random op: `counter` is an integer scalar tensor."""
    return tf.stack([tf.constant(seed, tf.int32), tf.cast(counter, tf.int32)])


def uniform(shape, pair, minval: float = 0.0, maxval: float = 1.0, compiled: bool = False):
    """float32 of `shape` in [minval, maxval), a function of `pair`.

    compiled: for XLA, which is slow at TensorFlow's own generators and fast at `hashed`.
    """
    if not compiled:
        return tf.random.stateless_uniform(shape, pair, minval, maxval)
    return _unit(shape, pair, 24, 0.0) * (maxval - minval) + minval


def normal(shape, pair, mean: float = 0.0, stddev: float = 1.0, compiled: bool = False):
    """float32 of `shape`, N(mean, stddev**2), a function of `pair`. compiled: as in `uniform`."""
    if not compiled:
        return tf.random.stateless_normal(shape, pair, mean, stddev)
    return tf.math.ndtri(_unit(shape, pair, 23, 0.5)) * stddev + mean


def hashed(shape, pair):
    """uint32 of `shape`, each a hash of `pair` and of its place.

    The first word of `pcg3d` (Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 2020)
    of (place, counter, seed). XLA makes them side by side. TensorFlow 2.x alone has the ops.
    """
    place = tf.cast(tf.range(tf.reduce_prod(shape)), tf.uint32)
    x, y, z = [v * 1664525 + 1013904223 for v in (place, *tf.unstack(tf.cast(pair, tf.uint32)))]
    x, y, z = _stirred(x, y, z)
    x, y, z = [tf.bitwise.bitwise_xor(v, tf.bitwise.right_shift(v, v * 0 + 16)) for v in (x, y, z)]
    return tf.reshape(_stirred(x, y, z)[0], shape)


def _stirred(x, y, z):
    x = x + y * z
    y = y + z * x
    return x, y, z + x * y


def _unit(shape, pair, bits: int, offset: float):
    """float32: the upper `bits` of the hash, plus `offset`, as a share of all: in [0, 1)."""
    words = hashed(shape, pair)
    upper = tf.bitwise.right_shift(words, words * 0 + (32 - bits))
    return (tf.cast(upper, tf.float32) + offset) * 2.0**-bits


def dropout(x, rate: float, pair, compiled: bool = False):
    """Zero a share `rate` of x (float32, any shape) and scale the rest by 1 / (1 - rate)."""
    if not 0 <= rate < 1:
        raise ValueError(f"dropout rate is {rate}, expected a number in [0, 1)")
    kept = uniform(tf.shape(x), pair, compiled=compiled) >= rate
    return tf.where(kept, x * (1 / (1 - rate)), tf.zeros_like(x))


class Initializer:
    """A Keras-compatible initializer whose values depend on its seed and the shape alone.

    kind: `glorot_uniform` (Glorot and Bengio 2010: U(-l, l), l = sqrt(6 / (fan_in + fan_out))),
    `he_normal` (He et al. 2015: N(0, 2 / fan_in)), `lecun_normal` (N(0, 1 / fan_in)), `normal`
    (N(0, stddev)), `uniform` (U(-stddev, stddev)). Normals are not truncated.
    """

    KINDS = ("glorot_uniform", "he_normal", "lecun_normal", "normal", "uniform")

    def __init__(self, kind: str, seed: int, stddev: float = 0.05):
        if kind not in self.KINDS:
            raise ValueError(f"unknown initializer '{kind}', known: {self.KINDS}")
        self.kind, self.seed, self.stddev = kind, seed, stddev

    def __call__(self, shape, dtype=None, partition_info=None, **kwargs):
        sizes = [int(size) for size in shape]
        pair = tf.constant([self.seed, 0], tf.int32)
        if self.kind in ("glorot_uniform", "uniform"):
            limit = self._scale(sizes)
            return tf.random.stateless_uniform(sizes, pair, -limit, limit)
        return tf.random.stateless_normal(sizes, pair, 0.0, self._scale(sizes))

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
