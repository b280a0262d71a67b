"""One of several replicas that train together: its part of a batch, its draws, averages over all.

Each replica builds the same graph with variables of its own. It computes gradients from its part of
the batch; their weighted average over all replicas is the gradient of a loss that is a mean over
the whole batch. All replicas then make the same update, so their variables stay equal to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Sequence

from ..compat import tf
from ..errors import UsageError
from .ops import STATE_UPDATES, assign_like

_COLLECTIVES = "toolkit/collectives"  # the graph's collection of collective ops
_SEED_STRIDE = 1000003  # between the seeds of two replicas
_MAX_BLOCKS = 16  # whole batches of a shape whose first size is a multiple of a part
GROUP_KEY = 1  # of the collective ops of all replicas
_MEETING = 1 << 30  # the instance key of `meet`; those of steps are 1, 2, ...


@dataclass(frozen=True)  # a named tuple cannot have a field "count"
class Replica:
    """A replica, as its graph needs it. Raises UsageError unless each one gets an example."""

    rank: int = 0  # its number, from 0
    count: int = 1  # of all replicas
    batch_size: int = 1  # examples of a whole batch, at least one for each replica
    # Whether it is one of several processes that share the variables of parameter servers; each
    # makes steps with whole batches of its own, so `count` is 1.
    is_asynchronous: bool = False

    # --------------------------------------------------------------------------- parts of batches

    @property
    def start(self) -> int:
        """The first example of a batch that is this replica's."""
        return self._start_of(self.rank)

    @property
    def num_examples(self) -> int:
        """How many examples of a batch are this replica's. The numbers differ by at most one."""
        return self._start_of(self.rank + 1) - self.start

    def _start_of(self, rank: int) -> int:
        return -(-rank * self.batch_size // self.count)  # rounded up: the first get more

    @property
    def weight(self) -> float:
        """The share of this replica's examples in a batch."""
        return self.num_examples / self.batch_size

    @property
    def weights(self) -> List[float]:
        """The weights of all replicas."""
        return [replace(self, rank=rank).weight for rank in range(self.count)]

    def __post_init__(self) -> None:
        if self.batch_size < self.count:
            raise UsageError(
                f"--batch-size is {self.batch_size}, fewer than the {self.count} replicas that "
                "share the examples of a step.",
                hint="Take a larger --batch-size, or fewer workers or devices.",
            )

    # -------------------------------------------------------------------------------------- draws

    def draw(self, draw: Callable[[Any, Any], Any], shape: Any, seed_pair: Any) -> Any:
        """Draw numbers of a shape as one process would for the whole batch; return this part.

        Where the first size is that of the part, or a small multiple k of it, the numbers are those
        of the same rows of k whole batches. So they are where the second size is that of the part.
        Numbers of any other shape are the same for all replicas; where the first size is not known
        while the graph is built, each replica draws numbers of its own. `draw` is from a shape, a
        list or a tensor of sizes, and a pair of seeds, int32 [2], to numbers.
        """
        if self.count == 1:
            return draw(shape, seed_pair)
        sizes = tf.zeros(shape).shape
        if sizes.ndims is None or (sizes.ndims and sizes.as_list()[0] is None):
            return draw(shape, seed_pair + tf.constant([self.rank * _SEED_STRIDE, 0], tf.int32))
        static, part, axis = sizes.as_list(), self.num_examples, None
        if static[:1] == [part] or (
            static and 1 < part < static[0] <= part * _MAX_BLOCKS and static[0] % part == 0
        ):
            axis = 0
        elif part > 1 and static[1:2] == [part]:
            axis = 1
        if axis is None:
            return draw(shape, seed_pair)
        blocks = static[axis] // part
        whole = tf.unstack(tf.convert_to_tensor(shape), sizes.ndims)
        whole[axis] = blocks * self.batch_size
        numbers = draw(tf.stack(whole), seed_pair)
        rows = [
            block * self.batch_size + self.start + row
            for block in range(blocks)
            for row in range(part)
        ]
        own = tf.gather(numbers, rows, axis=axis)
        own.set_shape(static)
        return own

    # ----------------------------------------------------------------------------------- averages

    def mean(self, tensors: Sequence[Any], is_differentiable: bool = False) -> List[Any]:
        """Averages of floats of any shapes over all replicas, weighted by their examples, in one
        collective op for each dtype. All replicas have to call it in the same order, with tensors
        of the same shapes. A loss may depend on the averages if `is_differentiable`: its gradient
        is that of the whole batch.
        """
        if self.count == 1 or not tensors:
            return list(tensors)
        means: Dict[int, Any] = {}
        for dtype in sorted({x.dtype.base_dtype for x in tensors}, key=lambda d: d.name):
            own = {i: x for i, x in enumerate(tensors) if x.dtype.base_dtype == dtype}
            sizes = [x.shape.num_elements() for x in own.values()]
            sizes = [tf.size(x) if size is None else size for x, size in zip(own.values(), sizes)]
            rows = [tf.reshape(x, [-1]) for x in own.values()]
            packed = rows[0] if len(rows) == 1 else tf.concat(rows, 0)
            total = self._scale_and_sum(packed, is_differentiable)
            parts = [total] if len(rows) == 1 else tf.split(total, sizes)
            for part, (i, x) in zip(parts, own.items()):
                means[i] = tf.reshape(part, tf.shape(x))
                means[i].set_shape(x.shape)
        return [means[i] for i in range(len(tensors))]

    def _scale_and_sum(self, row, is_differentiable: bool = False):
        """The sum over all replicas of a row [n] times the weight of each."""

        @tf.custom_gradient
        def differentiable(x):
            # The gradients of all replicas are averaged, so the one of the sum has to be, too.
            return self._scale_and_sum(x), differentiable

        if is_differentiable:
            return differentiable(row)
        return self._sum(row * tf.constant(self.weight, row.dtype))

    def _sum(self, row):
        """The sum over all replicas of a row [n], with the same bits for each."""
        key = len(tf.get_collection(_COLLECTIVES)) + 1  # the same in the graph of each replica
        total = _reduce(row, self.count, key)
        tf.add_to_collection(_COLLECTIVES, total)
        return total

    def gather(self, row):
        """The rows [n] of all replicas, [count, n], with the same bits for each."""
        rows = row[tf.newaxis]
        if self.count == 1:
            return rows
        # Zero but for this one: to add zeros changes no bit.
        return self._sum(tf.pad(rows, [[self.rank, self.count - 1 - self.rank], [0, 0]]))

    def mean_updates(self, updates: Sequence[Any], tensors: Sequence[Any]):
        """State updates that assign averages, where they assign floats (batch norm's averages for
        example), and the averages of tensors of floats, by one call of `mean`.
        """
        if self.count == 1:
            return list(updates), list(tensors)
        is_float = [op.type in STATE_UPDATES and op.inputs[1].dtype.is_floating for op in updates]
        values = [op.inputs[1] for op, has_float in zip(updates, is_float) if has_float]
        means = self.mean([*tensors, *values])
        averages = iter(means[len(tensors) :])
        changed = [
            assign_like(op, next(averages)) if has_float else op
            for op, has_float in zip(updates, is_float)
        ]
        return changed, means[: len(tensors)]

    def mean_scalars(self, scalars: Dict[Any, Any]) -> Dict[Any, Any]:
        """Averages of scalars of any numeric dtype, by name, in one collective op.

        They are computed as float64, so that equal values keep their bits.
        """
        names = [name for name, x in scalars.items() if x.dtype.is_floating or x.dtype.is_integer]
        if self.count == 1 or not names:
            return dict(scalars)
        row = tf.stack([tf.reshape(tf.cast(scalars[name], tf.float64), []) for name in names])
        means = self._scale_and_sum(row)
        averages = dict(scalars)
        for i, name in enumerate(names):
            dtype = scalars[name].dtype
            averages[name] = tf.cast(tf.round(means[i]) if dtype.is_integer else means[i], dtype)
        return averages


def meet(count: int) -> Any:
    """The op by which each of `count` replicas of a session waits for all others before its first
    step. TensorFlow 1.15 waits for ever in its first collective op if another one fails before.
    """
    return _reduce(tf.zeros([1]), count, _MEETING).op


def _reduce(row: tf.Tensor, count: int, key: int) -> tf.Tensor:
    return tf.raw_ops.CollectiveReduce(
        input=row,
        group_size=count,
        group_key=GROUP_KEY,
        instance_key=key,
        merge_op="Add",
        final_op="Id",
        subdiv_offsets=[0],
    )


ALONE = Replica()
