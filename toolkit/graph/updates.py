"""What one update changes, without its guard: clipping, the optimizers, weight decay, accumulation,
and the state updates of the forward pass (batch norm's).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from ..compat import tf
from ..errors import ToolkitError
from .ops import assign_like
from .optimizers.parts import Part, optimizer_scope

# Scopes of the variables of --accumulate, for their names in checkpoints.
SUMS = "toolkit/accumulated"
COUNTS = "accumulated_count"  # in the scope "toolkit"


class Update(NamedTuple):
    """An update of variables by the gradients of one loss, ready to be applied; see
    `Run.gradients`.
    """

    name: str
    loss: Any  # float32 scalar
    gradients: List[Any]  # dense, in the order of `variables`
    variables: List[Any]
    state_updates: List[Any]  # ops that run with the update, behind the guard
    parts: List[Part]  # each variable is in one
    gradient_norm: Any  # float32 scalar
    after: Optional[Callable[[], Any]]  # makes an op that runs after the update
    frozen_updates: List[Any]  # ops of the pass that assign frozen variables, and do not run
    changes: Sequence[Callable[..., Any]] = ()  # of the limited gradients; see `change_gradients`


def apply_update(update: Update, options: Any, states: Sequence[Any] = ()) -> tf.Operation:
    """Make one op of every change of an update, but its state updates: `states` are the ops of
    those of all updates that are applied with it. It is made under the guard, so all of it waits
    for the guard.
    """
    with tf.name_scope(optimizer_scope(update.name)):
        if options.accumulate == 1:
            return _update_variables(update, update.gradients, options, states)
        return _accumulate(update, options, states)


def copy_state_updates(updates: Sequence[tf.Operation]) -> List[tf.Operation]:
    """Ops equal to state updates, made where they are to run: an op made before the guard cannot be
    made to wait for it. Those of one variable run one after the other, in their order, when the
    values of all of them are known: a value may be computed from the variable.
    """
    values: Dict[str, List[Any]] = {}  # the handle of a variable -> the values of its updates
    for update in updates:
        values.setdefault(update.inputs[0].name, []).append(update.inputs[1].op)
    last: Dict[str, Any] = {}  # the handle of a variable -> its last update
    for update in updates:
        handle = update.inputs[0].name
        with tf.control_dependencies([last[handle]] if handle in last else values[handle]):
            last[handle] = assign_like(update, update.inputs[1])
    return list(last.values())


def silence_state_updates(updates: Sequence[tf.Operation], start: Dict[str, Any]) -> None:
    """Let state updates write what their variables have, by the names of handles in `start`. A
    further pass then reads what it reads without XLA: values that no pass has updated.
    """
    for update in updates:
        handle, value = update.inputs
        if update.type == "AssignVariableOp":
            value = start.get(handle.name, value)
        else:
            with tf.control_dependencies(None):  # the caller may wait for the update itself
                value = tf.zeros_like(value)
        update._update_input(1, value)


def _accumulate(update: Update, options: Any, states: Sequence[Any]) -> tf.Operation:
    """Add gradients to checkpointed sums and count them; when there are enough, apply their mean
    and clear both.

    The count is of what was added, so a step that the guard skips does not change the mean.
    """
    sums, count = _gradient_sums(update.variables), _gradient_count(update.name)
    additions = [s.assign_add(g, read_value=False) for s, g in zip(sums, update.gradients)]
    additions.append(count.assign_add(1, read_value=False))

    def apply_mean():
        means = [s.read_value() / tf.cast(count.read_value(), s.dtype.base_dtype) for s in sums]
        with tf.control_dependencies([_update_variables(update, means, options, states)]):
            resets = [v.assign(tf.zeros_like(v), read_value=False) for v in [*sums, count]]
            return tf.group(*resets)

    with tf.control_dependencies(additions):
        is_complete = count.read_value() >= options.accumulate
        return tf.cond(is_complete, apply_mean, lambda: tf.group(*additions)).op


def _update_variables(
    update: Update, gradients: Sequence[Any], options: Any, states: Sequence[Any]
) -> tf.Operation:
    """Clip, apply the optimizers, decay, then run `after`, which may read the states, too."""
    if not update.variables:  # all are frozen
        return tf.no_op()
    # All gradients are read before the first variable changes.
    with tf.control_dependencies(gradients):
        limited = clip(gradients, options.clip, options.clip_limit)
        for change in update.changes:
            limited = _check_changed(change(limited, update.variables), update.variables)
    # A changed gradient may be computed from any variable.
    with tf.control_dependencies([*gradients, *(limited if update.changes else ())]):
        gradient_of = {v.op.name: g for v, g in zip(update.variables, limited)}
        changes = []
        for part in update.parts:
            changed = part.optimizer.apply([(gradient_of[v.op.name], v) for v in part.variables])
            if part.weight_decays:
                with tf.control_dependencies([changed]):
                    rate = part.optimizer.learning_rate
                    factors = {d: rate * d for d in part.weight_decays.values()}
                    decays = [(v, part.weight_decays.get(v.op.name)) for v in part.variables]
                    pairs = [(v, tf.cast(factors[d], v.dtype)) for v, d in decays if d]
                    changed = tf.group(*[v.assign_sub(f * v.read_value()) for v, f in pairs])
            changes.append(changed)
    change = tf.group(*changes)
    if update.after is None:
        return change
    with tf.control_dependencies([change, *states]):
        return tf.group(update.after())


def clip(gradients: Sequence[Any], how: str, limit: float) -> List[Any]:
    """Limit dense gradients: each element by "value", each gradient by "norm", all together by
    "global-norm", or "none".
    """
    limited = widen(gradients)
    if how == "value":
        limited = [tf.clip_by_value(g, -limit, limit) for g in limited]
    elif how == "norm":
        limited = [tf.clip_by_norm(g, limit) for g in limited]
    elif how == "global-norm":
        limited = tf.clip_by_global_norm(limited, limit)[0]
    return [tf.cast(x, g.dtype) for x, g in zip(limited, gradients)]


def widen(gradients: Sequence[Any]) -> List[Any]:
    """The gradients in one dtype, to add their squares: float64 if one has it, else float32."""
    dtype = tf.float64 if any(g.dtype == tf.float64 for g in gradients) else tf.float32
    return [tf.cast(gradient, dtype) for gradient in gradients]


def _check_changed(gradients: Any, variables: Sequence[Any]) -> List[Any]:
    """The gradients that a function returned, one for each variable. Raises ToolkitError."""
    subject = "A function that run.change_gradients got returned"
    if not isinstance(gradients, (list, tuple)) or len(gradients) != len(variables):
        expected = f"expected a list of {len(variables)} tensors"
        raise ToolkitError(f"{subject} {gradients!r:.100}, {expected}.")
    for gradient, variable in zip(gradients, variables):
        if not gradient.shape.is_compatible_with(variable.shape):
            place = f"for '{variable.op.name}' {variable.shape}"
            raise ToolkitError(f"{subject} a gradient {gradient.shape} {place}.")
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


# ------------------------------------------------------------------------ variables of an update


def update_variables(update: Update, options: Any) -> List[Any]:
    """The optimizer's and accumulation's variables of an update, created at their first use, which
    has to be outside of any condition.
    """
    variables = []
    for part in update.parts:
        part.optimizer.create_variables(part.variables)
        variables += part.optimizer.variables()
    if options.accumulate > 1:
        variables += [_gradient_count(update.name), *_gradient_sums(update.variables)]
    return variables


def changes_in_step(name: str, number: int) -> tf.Tensor:
    """bool scalar, read after the updates of a name, so many in a step: whether one of them changed
    its variables, and not all only added to the sums of --accumulate.
    """
    # The count began again within the step if it is less than what the step adds.
    return tf.less(_gradient_count(name).read_value(), number)


def create_counter(name: str) -> tf.Variable:
    """An int64 scalar variable `toolkit/NAME` that starts at 0, created at its first use."""
    return _create("toolkit", name, [], tf.int64)


def _gradient_count(name: str) -> tf.Variable:
    """The variable that counts the gradients in the sums of the updates of a name."""
    return create_counter(f"{COUNTS}/{name}" if name else COUNTS)


def _gradient_sums(variables: Sequence[Any]) -> List[tf.Variable]:
    return [_create(SUMS, v.op.name, v.shape.as_list(), v.dtype.base_dtype) for v in variables]


def _create(scope: str, name: str, shape: List[int], dtype: tf.DType) -> tf.Variable:
    with tf.init_scope(), tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        zeros = tf.zeros_initializer()
        return tf.get_variable(name, shape, dtype, zeros, trainable=False, use_resource=True)
