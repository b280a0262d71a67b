"""The ways to build a step: for TensorFlow's executor, for the XLA compiler, and on variables of
parameter servers.

The first two differ in random numbers, in the sum of a gradient's squares and in the guard, and so
in rounding. A run chooses one at its beginning and keeps it.

With parameter servers, each process computes the gradients of a whole batch and applies them at
once, whatever the others do meanwhile. Which batch, a ticket says: the next number of a counter on
a server, which no other process gets. So all processes together read each batch once.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, Dict, NamedTuple, Optional

import numpy as np

from ..compat import tf
from . import randomness
from .guard import guard_by_condition, guard_by_selection, read_variables

COUNTER = "toolkit/tickets"  # the name of the counter on the servers; it is in no checkpoint
_NO_LIMIT = np.iinfo(np.int64).max


class PlainStep:
    """A step of ops that TensorFlow's executor runs one by one."""

    is_compiled = False
    guard = staticmethod(guard_by_condition)
    rolls_back = True  # earlier updates of the step, where the guard refuses a later one
    input_device = ""  # of the reader of the examples, as `tf.device` takes it; "" for any

    def model_device(self) -> Any:
        """The device of the model and its step, or a function from an op to it."""
        return ""

    def read_index(self, global_step: tf.Variable) -> tf.Tensor:
        """int64 scalar tensor: the number of the batch of a step, read before the step is made."""
        return global_step.read_value()

    def read_start(self) -> Optional[Dict[str, Any]]:
        """What `guard` needs from before a pass; None for nothing."""
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


# ------------------------------------------------------------------------------- parameter servers


class Tickets(NamedTuple):
    """How a process gets its batches, in the graph of its steps."""

    number: Any  # int64 scalar placeholder, the batch of the step; the global step by default
    first: Any  # int64 scalar, takes a ticket at once
    next: Any  # likewise, when the step is made. A step that fails takes none
    value: Any  # int64 scalar placeholder for the ops below
    assign: Any  # op that gives the counter a value
    set_step: Any  # op that gives the global step a value, where steps were refused
    step: Any  # int64 scalar, the global step


class AsynchronousStep(PlainStep):
    """A step on variables that several processes update, each at its own pace. `device` is
    TensorFlow's name of this process: "/job:worker/task:1".
    """

    rolls_back = False  # to give variables their former values would undo what others did meanwhile

    def __init__(self, device: str, num_servers: int):
        self.input_device, self._num_servers = device, num_servers
        self._number: Any = None
        self.tickets: Optional[Tickets] = None  # of the graph that was built last

    def model_device(self) -> Callable[[tf.Operation], str]:
        """Variables are placed on the servers, everything else on this process."""
        return _place_on_servers(self.input_device, self._num_servers)

    def read_index(self, global_step):
        """int64 scalar: the number of the batch, which follows from no variable."""
        self._number = tf.placeholder_with_default(global_step.read_value(), [], "ticket")
        return self._number

    def finish(self, train_op, global_step) -> None:
        """Build what takes the tickets of a step, which `train_op` makes, beside the global step on
        its server.
        """
        # In no collection: Savers and other initializers leave it alone.
        options = {"trainable": False, "collections": [], "use_resource": True}
        with tf.device(global_step.handle.device):
            zeros = tf.zeros_initializer()
            counter = tf.get_variable(COUNTER, [], tf.int64, zeros, **options)

        def count():
            """The counter's value, which advances in the same moment: no two get one value."""
            handle = counter.handle
            return tf.raw_ops.ResourceCountUpTo(resource=handle, limit=_NO_LIMIT, T=tf.int64)

        value, first = tf.placeholder(tf.int64, []), count()
        with tf.control_dependencies([train_op]):
            following = count()
        assign = tf.raw_ops.AssignVariableOp(resource=counter.handle, value=value)
        set_step = tf.raw_ops.AssignVariableOp(resource=global_step.handle, value=value)
        step = global_step.read_value()
        self.tickets = Tickets(self._number, first, following, value, assign, set_step, step)


def _place_on_servers(device: str, num_servers: int) -> Callable[[tf.Operation], str]:
    """A device function: variables go to the server with the fewest bytes so far, and the ops that
    read or write them go with them; all other ops go to this process, the device.

    To deal them in turn would put all matrices on one of two servers, and all biases on the other.
    """
    num_bytes = [0] * num_servers

    def choose_server(op: tf.Operation) -> int:  # the same in each process
        server, size = num_bytes.index(min(num_bytes)), 1
        with contextlib.suppress(ValueError, TypeError):  # a table has no shape
            shape = tf.TensorShape(op.get_attr("shape"))
            size = (shape.num_elements() or 1) * int(tf.as_dtype(op.get_attr("dtype")).size)
        num_bytes[server] += max(1, size)
        return server

    place = tf.train.replica_device_setter(
        worker_device=device, ps_device="/job:ps", ps_tasks=num_servers, ps_strategy=choose_server
    )

    def find_device(op: tf.Operation) -> str:
        handles = [tensor for tensor in op.inputs if tensor.dtype.base_dtype == tf.resource]
        devices = [tensor.op.device for tensor in handles if tensor.op.device]
        return str(devices[0] if devices else place(op))

    return find_device
