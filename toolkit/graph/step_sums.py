"""Sums of a step's scalars since the last record, of which the training metrics are means.

Each step that the guard lets happen adds its scalars, and a one, to a variable within its train op.
No checkpoint has the variable: the steps of records must not change the tensors of a run. The hook
that makes the records keeps it (training/hooks/metrics.py).
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

from ..compat import tf
from .replica import Replica


class StepSums(NamedTuple):
    """The sums of a training graph."""

    names: List[str]  # of the scalars, in the order of their sums
    # float64 [R, names + 1], read after the train op: of each of R replicas the sums, then the
    # number of steps. A call that fetches it needs the others' part.
    rows: Any
    own: Any  # float64 [names + 1], the present sums of this replica
    value: Any  # placeholder like `rows`
    assign: Any  # op that gives this replica its row of `value`


def add_scalars(train_op, scalars: Sequence[Any], applied: Optional[Any]):
    """The train op that makes a step, with the sums of its scalars, of any numeric dtype.

    `applied`, a bool scalar, is whether the step happened; None if the op fails where it did not.
    """
    with tf.control_dependencies(None):  # out of a loop, which would make it in each turn
        one = tf.ones([])
    values = [x if x.shape.ndims == 0 else tf.reshape(x, []) for x in [*scalars, one]]
    # One cast of all costs less than one of each.
    dtype = tf.float64 if any(x.dtype.size > 2 and x.dtype != tf.float32 for x in values) else None
    row = tf.cast(tf.stack([tf.cast(x, dtype or tf.float32) for x in values]), tf.float64)
    if applied is not None:  # not by a product: 0 times nan is nan
        row = tf.where(applied, row, tf.zeros_like(row))
    with tf.control_dependencies([train_op]):
        return _variable(len(scalars)).assign_add(row, read_value=False)


def read_sums(train_op, names: List[str], replica: Replica) -> StepSums:
    """The sums of the scalars of these names in a replica's graph, behind the steps of a call."""
    variable = _variable(len(names))
    with tf.control_dependencies([train_op]):
        rows = replica.gather(variable.read_value())
    value = tf.placeholder(tf.float64, [replica.count, len(names) + 1])
    assign = variable.assign(value[replica.rank if replica.count > 1 else 0], read_value=False)
    return StepSums(names, rows, variable.read_value(), value, assign)


def _variable(count: int):
    """The variable of the sums of so many scalars, created at its first use."""
    collections = [tf.GraphKeys.LOCAL_VARIABLES]
    options = {"trainable": False, "collections": collections, "use_resource": True}
    with tf.init_scope(), tf.variable_scope("toolkit", reuse=tf.AUTO_REUSE):
        zeros = tf.zeros_initializer()
        return tf.get_variable("step_sums", [count + 1], tf.float64, zeros, **options)
