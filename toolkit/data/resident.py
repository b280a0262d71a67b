"""Examples held in the graph's memory as they are stored, gathered by an index shuffle.

No iterator and no state to save: which examples make batch b is a function of (seed, b) alone.
Legend: N examples, B batch, ... the shape of one example.
"""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np

from ..compat import tf
from ..errors import UsageError
from .examples import Split

_NO_EPOCH = -2  # neither an epoch nor the one before an epoch
# Batches that are read ahead are read again soon: the processor's cache should hold them.
CHUNK_BYTES = 8 << 20
_KEY_LIMIT = np.iinfo(np.int64).max


class ResidentReader:
    """Batches of a split that fits in memory.

    split: the examples; they are fed into the graph's memory by `initialize`, and are in no
        GraphDef.
    batch_size: B, at most N, else UsageError.
    seed: an integer in [0, 2**31); the order of epoch e is a function of (seed, e).
    shuffle: False reads the split in its own order, over and over.
    device: where the examples lie; a cluster's worker names itself here.
    """

    in_memory = True

    def __init__(
        self,
        split: Split,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        device: str = "/cpu:0",
    ):
        check_batch_size(batch_size, len(split))
        self.num_examples = len(split)
        self.batch_size = batch_size
        self.shape = split.shape
        self.failure = None  # as in StreamReader: a hook's error met while reading
        self._split = split
        self._seed = seed
        self._device = device
        self._initializers = []
        self._sources = []
        with tf.device(device), tf.name_scope("resident_input"):
            self._features = self._hold(split.dtype, [len(split)] + list(split.shape))
            self._labels = None if split.labels is None else self._hold("int32", [len(split)])
            self._order = self._hold("int32", [1 + 2 * len(split)]) if shuffle else None

    def batch(self, step) -> Tuple[tf.Tensor, Optional[tf.Tensor]]:
        """Batch number `step` (an int64 scalar): features float32 [B, ...], uint8 divided by 255,
        and labels int32 [B] or None.
        """
        with tf.name_scope("batch"):
            return self.gather(self._positions(tf.cast(step, tf.int64), self.batch_size))

    def positions(self, step) -> tf.Tensor:
        """int32 [B]: where the examples of batch number `step` are in the split."""
        with tf.name_scope("positions"):
            return self._positions(tf.cast(step, tf.int64), self.batch_size)

    def gather(self, positions) -> Tuple[tf.Tensor, Optional[tf.Tensor]]:
        """The examples at `positions` (int32 [n], in the split's order), as `batch` gives them."""
        features, labels = self._stored(positions)
        return scale(features), labels

    @property
    def most_in_chunk(self) -> int:
        """How many batches `chunk` can give: no more than an epoch has, or the cache may hold."""
        epoch = self.num_examples // self.batch_size
        return min(epoch, chunk_limit(self._features.dtype, self.shape, self.batch_size))

    def chunk(self, step, count, wanted=None) -> Tuple[tf.Tensor, Optional[tf.Tensor]]:
        """The `count` batches (an int, or an int32 scalar) from number `step` on: features as they
        are stored, [count, B, ...], and labels int32 [count, B] or None. wanted: not used, all
        cost the same.
        """
        positions = self._positions(tf.cast(step, tf.int64), count * self.batch_size)
        with tf.name_scope("chunk"):
            return self._stored(tf.reshape(positions, [count, self.batch_size]))

    def _stored(self, positions):
        with tf.device(self._device):
            features = tf.gather(self._features, positions)  # [..., ...]
            labels = None if self._labels is None else tf.gather(self._labels, positions)
        return features, labels

    def initialize(self, session, step: int = 0) -> None:
        """Load the examples into `session`. There is no position to restore: `step` is free."""
        session.run(self._initializers, dict(zip(self._sources, self._arrays())))

    def _hold(self, dtype: str, shape) -> tf.Variable:
        """A variable in no collection, so that no Saver and no initializer of others meets it."""
        source = tf.placeholder(dtype, shape)
        held = tf.Variable(source, trainable=False, collections=[], use_resource=True)
        self._sources.append(source)
        self._initializers.append(held.initializer)
        return held

    def _arrays(self):
        features, labels = self._split.take(slice(None))
        yield features
        if labels is not None:
            yield labels
        if self._order is not None:
            yield np.full([1 + 2 * self.num_examples], _NO_EPOCH, np.int32)

    def _positions(self, step, wanted):
        """Positions int32 [wanted], of at most N, of the examples from batch `step` on; they may
        straddle two epochs.
        """
        count = self.num_examples
        first = step * self.batch_size
        epoch = first // count
        start = tf.cast(first - epoch * count, tf.int32)
        if self._order is None:
            return tf.floormod(start + tf.range(wanted), count)
        with tf.device(self._device):
            return tf.slice(self._known_order(epoch, step), [1 + start], [wanted])

    def _known_order(self, epoch, step):
        """int32 [1 + 2N]: `epoch`, its order and the next epoch's; made anew only where they
        change.

        One variable is read once, so that a reader never meets the epoch of one order and the
        positions of another, also where several batches are read in one `session.run`.
        """
        with tf.control_dependencies([step]):  # in a loop: after the step before
            known = self._order.read_value()
        same = tf.equal(known[0], tf.cast(epoch, tf.int32))
        return tf.cond(same, lambda: known, lambda: self._next_order(known, epoch))

    def _next_order(self, known, epoch):
        count = self.num_examples
        follows = tf.equal(known[0] + 1, tf.cast(epoch, tf.int32))
        this = tf.cond(follows, lambda: known[1 + count :], lambda: self._permutation(epoch))
        this.set_shape([count])
        head = tf.cast([epoch], tf.int32)
        order = tf.concat([head, this, self._permutation(epoch + 1)], 0)  # [1 + 2N]
        with tf.control_dependencies([self._order.assign(order, read_value=False)]):
            return tf.identity(order)

    def _permutation(self, epoch):
        """int32 [N]: the order of an epoch, by sorting random keys, stably."""
        seed = tf.stack([tf.constant(self._seed, tf.int64), epoch])
        keys = tf.random.stateless_uniform(
            [self.num_examples], seed, minval=0, maxval=_KEY_LIMIT, dtype=tf.int64
        )
        return tf.argsort(keys, stable=True)


def chunk_limit(dtype, shape, batch_size: int) -> int:
    """How many batches of examples [*shape] of a TensorFlow dtype make CHUNK_BYTES; at least 1."""
    one = dtype.size * int(np.prod(shape, dtype=np.int64)) * batch_size
    return max(1, CHUNK_BYTES // max(1, one))


def scale(features):
    """float32 of the same shape: uint8 divided by 255, floats as they are."""
    if features.dtype == tf.uint8:
        return tf.cast(features, tf.float32) * np.float32(1 / 255)
    return tf.cast(features, tf.float32)


def check_batch_size(batch_size: int, count: int) -> None:
    """Raise UsageError unless 1 <= batch_size <= count."""
    if not 1 <= batch_size <= count:
        raise UsageError(
            f"The batch size is {batch_size} but the split has {count} examples.",
            hint=f"Choose a batch size from 1 to {count}.",
        )
