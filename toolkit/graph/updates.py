"""The updates of one step, without their guard: gradients, clipping, the optimizer, weight decay,
accumulation, and the state updates of the forward pass (batch norm's).
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from ..compat import tf
from ..errors import ToolkitError
from .optimizer import clip

# Scopes of the variables of --accumulate, for their names in checkpoints.
SUMS = "toolkit/accumulated"
COUNTS = "accumulated_count"  # in the scope "toolkit"

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


def apply_update(update: Update, options):
    """Make one op of every change of an update. It is made under the guard, so all of it waits for
    the guard.
    """
    with tf.name_scope(_scope(update.name)):
        # An op made before the guard cannot be made to wait for it; an equal one made here does.
        states = [_copy_update(op) for op in update.state_updates]
        if options.accumulate == 1:
            changes = _update_variables(update, update.gradients, options)
        else:
            changes = _accumulate(update, options)
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
    accumulation = []
    if options.accumulate > 1:
        accumulation = [_gradient_count(update.name), *_gradient_sums(update.variables)]
    return update.optimizer.variables() + accumulation


def create_counter(name: str) -> tf.Variable:
    """An int64 scalar variable `toolkit/NAME` that starts at 0, created at its first use."""
    with tf.init_scope(), tf.variable_scope("toolkit", reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            name, [], tf.int64, tf.zeros_initializer(), trainable=False, use_resource=True
        )


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
    with tf.init_scope(), tf.variable_scope(SUMS, reuse=tf.AUTO_REUSE):
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


def _gradient_count(name: str):
    """The variable that counts the gradients in the sums of the updates of a name."""
    return create_counter(f"{COUNTS}/{name}" if name else COUNTS)


def _accumulate(update: Update, options):
    """Add gradients to checkpointed sums and count them; when there are enough, apply their mean
    and clear both.

    The count is of what was added, so a step that the guard skips does not change the mean.
    """
    sums, count = _gradient_sums(update.variables), _gradient_count(update.name)
    additions = [s.assign_add(g, read_value=False) for s, g in zip(sums, update.gradients)]
    additions.append(count.assign_add(1, read_value=False))

    def apply_mean():
        means = [s.read_value() / tf.cast(count.read_value(), s.dtype.base_dtype) for s in sums]
        with tf.control_dependencies([_update_variables(update, means, options)]):
            resets = [v.assign(tf.zeros_like(v), read_value=False) for v in [*sums, count]]
            return tf.group(*resets)

    with tf.control_dependencies(additions):
        is_complete = count.read_value() >= options.accumulate
        return tf.cond(is_complete, apply_mean, lambda: tf.group(*additions)).op


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
