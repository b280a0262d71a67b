"""The non-finite guard of a step: a step whose loss or gradient is not finite changes no variable.

The order within the op, held by control dependencies: all gradients, the guard, the updates of the
variables and the state updates of the forward pass (batch norm's), weight decay. A guard that
refuses stops all of them, so a step happens as a whole or not at all. In a step of several updates
one after the other, a later guard that refuses also rolls the earlier updates back.
"""

from __future__ import annotations

import functools
import math
import os
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..compat import tf
from ..errors import ToolkitError
from .ops import own_handle
from .optimizers.parts import optimizer_scope
from .updates import (
    Update,
    apply_update,
    copy_state_updates,
    create_counter,
    silence_state_updates,
    update_variables,
)

NOT_FINITE = "not finite: loss, gradient norm"
SKIPPED_STEPS = "skipped_steps"
COUNTERS = (tf.GraphKeys.GLOBAL_STEP, "toolkit/" + SKIPPED_STEPS)  # of steps, skipped ones as well
ADOPTED = "own update"  # name of the guard's values of updates that a plugin makes itself


class GuardValues(NamedTuple):
    """What the guard looks at to decide whether an update happens; both are float32 scalars."""

    name: str
    loss: Any
    gradient_norm: Any  # of the update `ADOPTED`: the norm of what it changed


class GuardedUpdate(NamedTuple):
    """Updates behind one guard."""

    op: Any
    finite: Any  # bool scalar: whether this and all earlier updates of the step happened
    old_values: List[Tuple[Any, Any]]  # (handle, value before the update) of what it changes
    all_finite: Any = None  # bool scalar of a compiled update: False where training has to stop


def guard_by_condition(
    updates: Sequence[Update],
    options: Any,
    earlier: Sequence[GuardedUpdate] = (),
    more_follow: bool = False,
    start: Any = None,
) -> GuardedUpdate:
    """Apply updates in a `tf.cond` on finite losses and gradients, each after the gradients of all
    are known. A refusal rolls `earlier` updates of the step back; where `more_follow`, a later one
    may have to roll these back. `start` is for `guard_by_selection`.
    """
    finite = _are_finite(updates, earlier)
    slots = [update_variables(update, options) for update in updates]  # outside of the condition
    old_values = []
    for update, own in zip(updates if more_follow else (), slots):
        variables = [*update.variables, *own]
        if update.after is not None:  # it may write any variable
            variables = [v for v in tf.global_variables() if v.op.name not in COUNTERS]
        old_values += [(v.handle, v.read_value()) for v in variables]
        for op in update.state_updates:
            handle, dtype = op.inputs[0], op.get_attr("dtype")
            old_values.append((handle, tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)))
    # Read before anything changes, as is what the state updates of the pass assign.
    reads = [value for _, value in old_values]
    reads += [value for u in updates for op in u.state_updates for value in op.inputs[1:]]
    if reads:
        with tf.control_dependencies(reads):
            finite = tf.identity(finite)
    refuse = make_refusal(guard_values(updates), options, earlier)
    # A tf.cond costs next to nothing; an assertion that all updates waited for cost a tenth of the
    # step.
    op = tf.cond(finite, lambda: _apply_all(updates, options), refuse).op
    return GuardedUpdate(op, finite, old_values)


def _apply_all(updates: Sequence[Update], options: Any) -> tf.Operation:
    """One op of all that updates change, their state updates too."""
    with tf.name_scope(optimizer_scope(updates[0].name)):
        states = copy_state_updates([op for u in updates for op in u.state_updates])
    last: Dict[str, tf.Operation] = {}  # the name of a variable -> its last update
    for update in updates:  # those of one variable follow each other
        names = [v.op.name for v in update.variables]
        with tf.control_dependencies([last[name] for name in names if name in last]):
            last.update(dict.fromkeys(names, apply_update(update, options, states)))
    return tf.group(*last.values(), *states)


def guard_by_selection(
    updates: Sequence[Update],
    options: Any,
    earlier: Sequence[GuardedUpdate] = (),
    more_follow: bool = False,
    start: Optional[Dict[str, Any]] = None,
) -> GuardedUpdate:
    """Apply updates for XLA, which copies what a `tf.cond` might change and has no assertions.

    All changes are made, and each variable then gets its new or its old value, which XLA does in
    the same pass. `all_finite` of the result says whether the step was refused. XLA runs state
    updates where they are made, too: there they are silenced. `start` is `read_variables` from
    before the passes that made them.
    """
    finite = _are_finite(updates, earlier)
    for update in updates:
        update_variables(update, options)
    silent = [op for u in updates for op in (*u.state_updates, *u.frozen_updates)]
    change, old_values = _track(lambda: _apply_all(updates, options), [finite, *silent])
    silence_state_updates(silent, start or {})
    with tf.control_dependencies([change]):
        both = [*old_values, *_values_before_step(earlier)]
        ops = [_select(finite, handle, value) for handle, value in both]
    if options.on_nonfinite == "stop":
        return GuardedUpdate(tf.group(*ops), finite, old_values, finite)
    first = earlier[-1].finite if earlier else tf.constant(True)
    count = tf.cast(tf.logical_and(first, tf.logical_not(finite)), tf.int64)
    ops.append(create_counter(SKIPPED_STEPS).assign_add(count, read_value=False))
    return GuardedUpdate(tf.group(*ops), finite, old_values)


def run_behind_guard(
    functions: Sequence[Callable[[], Any]], guarded: GuardedUpdate, applied: Any
) -> tf.Operation:
    """One op of the ops that functions build under the control dependencies in force, without
    effect where the guard refused the step, of which `guarded` is the last update, or where the
    bool scalar `applied` is not None and false.
    """

    def run():
        ops: List[tf.Operation] = []
        for function in functions:  # one after the other: one may read what another writes
            with tf.control_dependencies(ops[-1:]):
                op = function()
                if not (isinstance(op, (tf.Operation, tf.Tensor)) or hasattr(op, "op")):
                    code = getattr(function, "__code__", None)
                    path = code and os.path.abspath(code.co_filename)
                    place = f" ({path}:{code.co_firstlineno})" if code else ""
                    raise ToolkitError(
                        f"A function that run.update_state got returned {op!r:.100}, expected an "
                        f"op{place}.",
                        hint="Return the op, or tf.group(...) of several.",
                    )
                ops.append(tf.group(op))
        return tf.group(*ops)

    is_on = guarded.finite if applied is None else tf.logical_and(guarded.finite, applied)
    if guarded.all_finite is None:
        return tf.cond(is_on, run, lambda: tf.group(tf.no_op())).op
    change, old_values = _track(run)
    with tf.control_dependencies([change]):
        return tf.group(*[_select(is_on, handle, value) for handle, value in old_values])


def read_variables() -> Dict[str, Any]:
    """The present values of all variables, by the names of their handles."""
    return {own_handle(v).name: v.read_value() for v in tf.global_variables()}


def _track(
    make_change: Callable[[], Any], dependencies: Sequence[Any] = ()
) -> Tuple[Any, List[Tuple[Any, Any]]]:
    """The op that a function builds, and (handle, value before it) of the variables that its ops
    read or write.
    """
    graph = tf.get_default_graph()
    before, old_ops = read_variables(), set(graph.get_operations())
    with tf.control_dependencies([*dependencies, *before.values()]):
        change = make_change()
    new_ops = [op for op in graph.get_operations() if op not in old_ops]
    names = {i.name for op in new_ops for i in op.inputs if i.dtype == tf.resource}
    handles = {own_handle(v).name: v.handle for v in tf.global_variables()}
    return change, [(handles[name], before[name]) for name in handles if name in names]


def _select(finite, handle, old_value):
    new_value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=old_value.dtype)
    value = tf.where(finite, new_value, old_value)
    return tf.raw_ops.AssignVariableOp(resource=handle, value=value)


def _are_finite(updates: Sequence[Update], earlier: Sequence[GuardedUpdate]):
    """bool scalar: whether these updates and all earlier ones of the step can happen."""
    finite = [tf.logical_and(tf.is_finite(u.loss), tf.is_finite(u.gradient_norm)) for u in updates]
    return functools.reduce(tf.logical_and, finite + [other.finite for other in earlier[-1:]])


# ------------------------------------------------------------------------------------------ refusal


def guard_values(updates: Sequence[Update]) -> List[GuardValues]:
    """What the guard looks at to decide whether these updates happen."""
    return [GuardValues(u.name, u.loss, u.gradient_norm) for u in updates]


def make_refusal(values: Sequence[GuardValues], options: Any, earlier: Sequence[GuardedUpdate]):
    """The function that builds a refusal, in a condition.

    A refusal rolls the earlier updates of the step back. Then it fails with an assertion that holds
    name, loss and norm of each update; or counts the step, which an earlier guard may have done.
    """
    skips = options.on_nonfinite == "skip"
    skipped: Any = create_counter(SKIPPED_STEPS) if skips else None  # outside of the condition

    def fail():
        with tf.control_dependencies(_assign(_values_before_step(earlier))):
            # The raw op: tf.Assert would wrap it in a further tf.cond.
            data = [NOT_FINITE, *(value for row in values for value in row)]
            return tf.raw_ops.Assert(condition=tf.constant(False), data=data, summarize=3)

    def skip():
        count = tf.cast(earlier[-1].finite, tf.int64) if earlier else tf.constant(1, tf.int64)
        counted = skipped.assign_add(count, read_value=False)
        return tf.group(counted, *_assign(_values_before_step(earlier)))

    return skip if skips else fail


def _assign(pairs: Sequence[Tuple[Any, Any]]) -> List[tf.Operation]:
    return [tf.raw_ops.AssignVariableOp(resource=handle, value=value) for handle, value in pairs]


def _values_before_step(earlier: Sequence[GuardedUpdate]) -> List[Tuple[Any, Any]]:
    """(handle, value) of every variable that the earlier updates of the step change."""
    oldest: Dict[str, Tuple[Any, Any]] = {}
    for update in earlier:  # the first value of a variable is its oldest
        for handle, value in update.old_values:
            oldest.setdefault(handle.name, (handle, value))
    return list(oldest.values())


def read_refusal(message: str) -> Optional[List[GuardValues]]:
    """The values of each update that the guard's assertion refused, as TensorFlow prints them in
    the message of its error; None for the message of another op.
    """
    if NOT_FINITE not in message:
        return None
    data = message[message.index(NOT_FINITE) :].partition("\n")[0].replace("-nan", "nan")
    texts = re.findall(r"\[([^\]]*)\]", data)
    return [GuardValues(*row) for row in zip(texts[0::3], texts[1::3], texts[2::3])]


def describe_refusal(values: Sequence[GuardValues]) -> str:
    """The updates whose values, texts here, are not finite: `discriminator: loss nan, gradient norm
    nan; ...`.
    """
    texts = []
    for name, loss, norm in values:
        if not (math.isfinite(float(loss)) and math.isfinite(float(norm))):
            noun = "norm of the change" if name == ADOPTED else "gradient norm"
            texts.append(f"{name and name + ': '}loss {loss}, {noun} {norm}")
    return "; ".join(texts) or NOT_FINITE


def disarm(graph_def: tf.GraphDef) -> None:
    """Let the guards of a replica never fail; another one of the session refuses the same steps.

    The failure of one ends the call of the session, perhaps before the other has rolled back.
    """
    nodes = {node.name: node for node in graph_def.node}
    for node in graph_def.node:
        data = nodes.get(node.input[1].partition(":")[0]) if node.op == "Assert" else None
        if data and list(data.attr["value"].tensor.string_val) == [NOT_FINITE.encode()]:
            condition = nodes[node.input[0].partition(":")[0]]
            condition.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(True))
