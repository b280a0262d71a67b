"""The updates of one step, without their guard: gradients, clipping, the optimizer, weight decay,
accumulation, and the state updates of the forward pass (batch norm's).
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from ..compat import tf
from ..errors import ToolkitError
from .optimizer import clip

STATE_UPDATES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


class Update(NamedTuple):
    """An update of variables by the gradients of one loss, ready to be applied; see
    `Run.gradients`.
    """

    name: str
    loss: Any  # float32 scalar
    gradients: List[Any]  # dense, in the order of `variables`
    variables: List[Any]
    state_updates: List[Any]  # ops that run with the update, behind the guard
    optimizer: Any
    learning_rate: Any  # float32 scalar
    gradient_norm: Any  # float32 scalar
    after: Optional[Callable[[], Any]]  # makes an op that runs after the update


def compute_gradients(optimizer, loss, variables):
    """Dense gradients and their variables, without variables on which the loss does not depend.

    Raises:
        ToolkitError: where no variable is left.
    """
    pairs = [(g, v) for g, v in optimizer.compute_gradients(loss, variables) if g is not None]
    if not pairs:
        raise ToolkitError("The loss depends on none of the variables to be trained.")
    return [tf.convert_to_tensor(g) for g, _ in pairs], [v for _, v in pairs]


def apply_update(update: Update, options, step):
    """Make one op of every change of an update. It is made under the guard, so all of it waits for
    the guard.

    Args:
        step: int64 scalar, the number of steps before this one.
    """
    with tf.name_scope(_scope(update.name)):
        # An op made before the guard cannot be made to wait for it; an equal one made here does.
        states = [_copy_update(op) for op in update.state_updates]
        if options.accumulate == 1:
            changes = _update_variables(update, update.gradients, options)
        else:
            changes = _accumulate(update, options, step)
        return tf.group(changes, *states)


def create_update_variables(updates: Sequence[Update], options) -> None:
    """Create the variables of all updates before the first update, outside of any condition."""
    for update in updates:
        update_variables(update, options)


def update_variables(update: Update, options) -> List[Any]:
    """The optimizer's and accumulation's variables of an update, created at their first use."""
    with tf.init_scope(), tf.name_scope(_scope(update.name)):
        # tf.train has no public way to create them before the first update.
        update.optimizer._create_slots(update.variables)
    sums = _gradient_sums(update.variables) if options.accumulate > 1 else []
    return update.optimizer.variables() + sums


def state_updates(operations) -> List[Any]:
    """Those of the operations that assign a variable: what a forward pass wants to be done."""
    return [o for o in operations if o.type in STATE_UPDATES]


def _scope(name: str) -> str:
    # Absolute: an optimizer's own variables have the same names in a loop and outside.
    return f"optimizer/{name}/" if name else "optimizer/"


def _update_variables(update: Update, gradients, options):
    """Clip, apply the optimizer, decay, then run `after`."""
    # All gradients are read before the first variable changes.
    with tf.control_dependencies(gradients):
        limited = clip(gradients, options.clip, options.clip_limit)
        change = update.optimizer.apply_gradients(list(zip(limited, update.variables)))
    matrices = [v for v in update.variables if v.shape.ndims >= 2]
    if options.weight_decay and matrices:
        with tf.control_dependencies([change]):
            factor = update.learning_rate * options.weight_decay
            change = tf.group(*[v.assign_sub(factor * v.read_value()) for v in matrices])
    if update.after is None:
        return change
    with tf.control_dependencies([change]):
        return tf.group(update.after())


def _gradient_sums(variables):
    with tf.init_scope(), tf.variable_scope("toolkit/accumulated", reuse=tf.AUTO_REUSE):
        return [
            tf.get_variable(
                v.op.name,
                v.shape.as_list(),
                v.dtype.base_dtype,
                tf.zeros_initializer(),
                trainable=False,
                use_resource=True,
            )
            for v in variables
        ]


def _accumulate(update: Update, options, step):
    """Add gradients to checkpointed sums; on every n-th step apply their mean and clear them."""
    count, sums = options.accumulate, _gradient_sums(update.variables)
    additions = [s.assign_add(g, read_value=False) for s, g in zip(sums, update.gradients)]

    def apply_mean():
        means = [s.read_value() / count for s in sums]
        with tf.control_dependencies([_update_variables(update, means, options)]):
            return tf.group(*[s.assign(tf.zeros_like(s), read_value=False) for s in sums])

    with tf.control_dependencies(additions):
        is_nth = tf.equal((step + 1) % count, 0)
        return tf.cond(is_nth, apply_mean, lambda: tf.group(*additions)).op


def _copy_update(update):
    """An op equal to a state update, made here under the control dependencies in force."""
    if update.type not in STATE_UPDATES:
        raise ToolkitError(f"State update '{update.name}' is a {update.type}.")
    make = {
        "AssignVariableOp": tf.raw_ops.AssignVariableOp,
        "AssignAddVariableOp": tf.raw_ops.AssignAddVariableOp,
        "AssignSubVariableOp": tf.raw_ops.AssignSubVariableOp,
    }[update.type]
    resource, value = update.inputs
    return make(resource=resource, value=value)
