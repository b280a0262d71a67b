"""The resident reader: all examples in variables of the graph, read in shuffled order.

There is no iterator and no state to save: the examples of batch b are a function of (seed, b).

Legend: N examples, B batch, K batches of a chunk, ... the shape of one example.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Tuple

import numpy as np

from ...compat import tf
from ..examples import LENGTH, Split
from ..structure import pack
from .batches import DEFAULT_OPTIONS, DEVICE, BatchReader, ReaderOptions

LOAD_BYTES = 32 << 20  # of examples that are read before they are written into a variable
_NO_EPOCH = -2  # neither an epoch nor the one before an epoch
_KEY_LIMIT = np.iinfo(np.int64).max

ReadParts = Callable[[], Iterable[np.ndarray]]


class ResidentReader(BatchReader):
    """Batches of a split that fits in memory. `initialize` feeds the examples into variables; the
    GraphDef has none of them.
    """

    in_memory = True
    kind = "resident"

    def __init__(self, split: Split, batch_size: int, options: ReaderOptions = DEFAULT_OPTIONS):
        super().__init__(split, batch_size, options)
        self._seed = options.seed
        self._initializers: List[Any] = []
        # Of each variable: where a part begins, its values, the op, and what yields the parts.
        self._writes: List[Tuple[tf.Tensor, tf.Tensor, tf.Operation, ReadParts]] = []
        self._starts: Dict[str, tf.Variable] = {}
        with tf.device(DEVICE), tf.name_scope("resident_input"):
            self._values = {key: self._add_values(key) for key in split.columns}
            shape = [1 + 2 * len(split)]
            self._order = self._variable(
                "int32", shape, lambda: [np.full(shape, _NO_EPOCH, np.int32)]
            )

    def batch(self, step: tf.Tensor) -> Tuple[Any, Any]:
        """Batch number `step`, an int64 scalar. See `IteratorReader.batch`."""
        with tf.name_scope("batch"):
            return self.gather(self.positions(step))

    def positions(self, step: tf.Tensor) -> tf.Tensor:
        """The positions in the split of the examples of batch `step`, int32 [B]."""
        with tf.name_scope("positions"):
            positions = self._positions(tf.cast(step, tf.int64), self.batch_size)
            return positions if self._part is None else tf.gather(positions, self._part)

    def gather(self, positions: tf.Tensor) -> Tuple[Any, Any]:
        """The examples at `positions` (int32 [n]) of the split, as those of `batch`."""
        return pack(self.form.finish(self._gather(positions)))

    @property
    def max_chunk_steps(self) -> int:
        """As of every reader, and no more than an epoch."""
        return min(self.num_examples // self.batch_size, super().max_chunk_steps)

    def chunk(self, step: tf.Tensor, size: Any, num_batches: Any = None) -> Dict[str, tf.Tensor]:
        """Several batches from batch `step` on, an int64 scalar. See `IteratorReader.chunk`.

        K is an int or an int32 scalar, at most `max_chunk_steps`. `num_batches` is not used:
        reading fewer batches would cost the same.
        """
        positions = self._positions(tf.cast(step, tf.int64), size * self.batch_size)
        with tf.name_scope("chunk"):
            positions = tf.reshape(positions, [size, self.batch_size])
            if self._part is not None:
                positions = tf.gather(positions, self._part, axis=1)
            return self._gather(positions)

    def initialize(self, session: tf.Session, step: int = 0) -> None:
        """Load the examples into the session. `step` is not used: there is nothing to restore."""
        session.run(self._initializers)
        for first, values, write, read_parts in self._writes:
            start = 0
            for part in read_parts():
                session.run(write, {first: start, values: part})
                start += len(part)

    def _gather(self, positions: tf.Tensor) -> Dict[str, tf.Tensor]:
        """Flat key -> the stored examples at positions of any shape P: [*P, ...]."""
        with tf.device(DEVICE):
            flat = {
                key: tf.gather(values, positions)
                for key, values in self._values.items()
                if key not in self._starts
            }
            for key, starts in self._starts.items():  # padded to one length L: [*P, L, ...]
                component, lengths = self.form.components[key], flat[key + LENGTH]
                offsets = tf.range(self.form.pad_length(key, lengths))
                is_value = offsets < lengths[..., tf.newaxis]  # [*P, L]
                firsts = tf.gather(starts, positions)[..., tf.newaxis]
                rows = (firsts + tf.cast(offsets, tf.int64)) * tf.cast(is_value, tf.int64)
                values = tf.gather(self._values[key], rows)  # [*P, L, ...]
                for _ in component.shape[1:]:
                    is_value = is_value[..., tf.newaxis]
                padding = tf.constant(component.padding, values.dtype)
                flat[key] = tf.where_v2(is_value, values, padding)
        return flat

    def _add_values(self, key: str) -> tf.Variable:
        """The variable of a component: [N, ...], or all values of its sequences."""
        component, count = self.form.components[key], self.num_examples
        if key not in self.form.longest:
            shape = [count, *component.shape]
            return self._variable(component.dtype, shape, lambda: self._read_parts(key))
        lengths = self._split.read(slice(None), [key + LENGTH])[key + LENGTH]
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        self._starts[key] = self._variable("int64", [count], lambda: [starts])
        shape = [max(1, int(lengths.sum())), *component.shape[1:]]
        return self._variable(
            component.dtype, shape, lambda: [self._split.select_sequences(key).values]
        )

    def _read_parts(self, key: str) -> Iterator[np.ndarray]:
        """The examples of a component part by part: else they would be in memory twice."""
        column = self._split.columns[key]
        row_bytes = max(1, column.nbytes // max(1, len(column)))
        count = max(1, LOAD_BYTES // row_bytes)
        for start in range(0, self.num_examples, count):
            yield self._split.read(slice(start, start + count), [key])[key]

    def _variable(self, dtype: str, shape: Sequence[Any], read_parts: ReadParts) -> tf.Variable:
        """A variable that `initialize` fills. It is in no collection, so that Savers and other
        initializers leave it alone."""
        empty = tf.raw_ops.Empty(shape=shape, dtype=tf.as_dtype(dtype))  # zeros would be a constant
        variable = tf.Variable(empty, trainable=False, collections=[], use_resource=True)
        start, values = tf.placeholder("int32", []), tf.placeholder(dtype, [None, *shape[1:]])
        write = variable[start : start + tf.shape(values)[0]].assign(values)
        self._writes.append((start, values, write.op, read_parts))
        self._initializers.append(variable.initializer)
        return variable

    def _positions(self, step: tf.Tensor, count: Any) -> tf.Tensor:
        """The positions of the first `count` examples from batch `step` on, int32 [count].

        They may straddle two epochs, so `count` is at most N.
        """
        num_examples = self.num_examples
        first = step * self.batch_size
        epoch = first // num_examples
        start = tf.cast(first - epoch * num_examples, tf.int32)
        with tf.device(DEVICE):
            return tf.slice(self._current_order(epoch, step), [1 + start], [count])

    def _current_order(self, epoch: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """int32 [1 + 2N]: `epoch`, its order, and the order of the next epoch.

        The orders are computed only when the epoch changes. Epoch and orders share one variable,
        which is read once, so that they always belong together, even if one `session.run` reads
        several batches.
        """
        with tf.control_dependencies([step]):  # in a loop: after the step before
            order = self._order.read_value()
        is_current = tf.equal(order[0], tf.cast(epoch, tf.int32))
        return tf.cond(is_current, lambda: order, lambda: self._next_order(order, epoch))

    def _next_order(self, previous: tf.Tensor, epoch: tf.Tensor) -> tf.Tensor:
        """The value of `_current_order` for a new epoch, which is also stored."""
        draw = functools.partial(permutation, self.num_examples, self._seed)
        follows = tf.equal(previous[0] + 1, tf.cast(epoch, tf.int32))
        this = tf.cond(follows, lambda: previous[1 + self.num_examples :], lambda: draw(epoch))
        this.set_shape([self.num_examples])
        head = tf.cast([epoch], tf.int32)
        order = tf.concat([head, this, draw(epoch + 1)], 0)  # [1 + 2N]
        with tf.control_dependencies([self._order.assign(order, read_value=False)]):
            return tf.identity(order)


def permutation(count: int, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """The numbers from 0 to count - 1 in the order of an epoch: a stable sort of random keys.

    The seed is in [0, 2**31), the epoch an int64 scalar, the result int32 [count].
    """
    pair = tf.stack([tf.constant(seed, tf.int64), epoch])
    keys = tf.random.stateless_uniform([count], pair, minval=0, maxval=_KEY_LIMIT, dtype=tf.int64)
    return tf.argsort(keys, stable=True)
