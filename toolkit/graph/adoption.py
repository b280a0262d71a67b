"""Updates that a plugin makes by ops of its own, without `Run.minimize`: the guard puts back what
they changed in a step that it refuses.

An op that exists cannot be moved behind a condition. Therefore each variable that the step writes
is read before the first write of the step, and gets that value back where a loss or a new value is
not finite.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..compat import tf
from ..errors import ToolkitError
from .guard import ADOPTED, COUNTERS, GuardedUpdate, GuardValues, make_refusal
from .ops import function_names, nodes_within, root_handle, upstream, variables_by_handle

_WRITES = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ResourceStrided")


class Writes(NamedTuple):
    """The ops of a step that write variables, each with the names of the handles that it writes."""

    foreign: Dict[tf.Operation, List[str]]  # a plugin's own
    guarded: Dict[tf.Operation, List[str]]  # those of `Run.apply`
    variables: Dict[str, Any]  # that the foreign ones write, by the names of their handles


def find_writes(train_op: tf.Operation, guarded_ops: Set[tf.Operation]) -> Writes:
    """The ops up to the last of a step that write variables. `guarded_ops` are all that `Run.apply`
    made.
    """
    variables = variables_by_handle()
    writing_functions = _find_writing_functions()
    writes = Writes({}, {}, {})
    for op in sorted(upstream([train_op]), key=lambda op: op.name):
        handles = [name for name in written_handles(op, writing_functions) if name in variables]
        if handles and op in guarded_ops:
            writes.guarded[op] = handles
        elif handles:
            writes.foreign[op] = handles
            writes.variables.update((name, variables[name]) for name in handles)
    return writes


def written_handles(op: tf.Operation, writing_functions: Set[str]) -> List[str]:
    """The names of the variables' handles that an op writes; one that calls a writing function may
    write each handle that it passes.
    """
    if not op.type.startswith(_WRITES) and not (
        writing_functions and writing_functions.intersection(function_names(op.node_def))
    ):
        return []
    return [root_handle(tensor).name for tensor in op.inputs if tensor.dtype == tf.resource]


def _find_writing_functions() -> Set[str]:
    """The names of the graph's functions, as `tf.function` makes them, that write a variable or
    call one that does.
    """
    graph = tf.get_default_graph()
    calls = ("PartitionedCall", "If", "While")
    if not any(op.type.endswith(calls) for op in graph.get_operations()):
        return set()  # the definition of a large graph takes time
    functions = {f.signature.name: f.node_def for f in graph.as_graph_def().library.function}
    return {
        name
        for name, nodes in functions.items()
        if any(x.op.startswith(_WRITES) for n in nodes for x in nodes_within(n, functions, {name}))
    }


def adopt(
    train_op: tf.Operation,
    writes: Writes,
    losses: Sequence[Any],
    options: Any,
    earlier: Optional[GuardedUpdate] = None,
    step_index: Any = None,
) -> Tuple[GuardedUpdate, GuardValues]:
    """Guard the own updates of a step, of which `train_op` is the last op and `earlier` the last
    guarded update. The losses, float32 scalars, have to be finite. `step_index` is read before an
    own update of the global step.

    Returns the updates, with the op that the step ends with; and what the guard looks at: the first
    loss, and the norm of what the step changed. Raises ToolkitError where an own update comes
    before a guarded one, which could then not undo it.
    """
    variables = dict(writes.variables)
    if any(v.op.name == tf.GraphKeys.GLOBAL_STEP for v in variables.values()):
        for op in writes.foreign if step_index is not None else ():
            op._add_control_inputs([step_index.op])
    if earlier is not None:  # a refusal undoes the whole step
        before = upstream([earlier.op])
        for op, handles in writes.foreign.items():
            if op in before:
                raise ToolkitError(
                    f"The step updates '{variables[handles[0]].op.name}' by an op of its own "
                    f"('{op.name}') before an update of run.minimize, which could not undo it.",
                    hint="Make all updates with run.minimize, or all by ops of your own.",
                )
        known = variables_by_handle()
        for handles in writes.guarded.values():
            variables.update((name, known[name]) for name in handles)
        for op in writes.foreign:
            op._add_control_inputs([earlier.op])
    old = {name: variable.read_value() for name, variable in sorted(variables.items())}
    for op in [*writes.foreign, *writes.guarded]:
        op._add_control_inputs([value.op for value in old.values()])  # there is no public way
    with tf.control_dependencies([train_op]):
        # Read once: a refusal, which waits for the checks, cannot come before the norm's values.
        new = {n: v.read_value() for n, v in variables.items() if v.dtype.base_dtype.is_floating}
        squares = []  # of the change of all numbers of a float type that were finite
        for name, value in sorted(new.items()):
            change = value - old[name]
            change = tf.where(tf.is_finite(old[name]), change, tf.zeros_like(change))
            squares.append(tf.cast(tf.reduce_sum(tf.square(change)), tf.float32))
        norm = tf.sqrt(tf.add_n(squares)) if squares else tf.zeros([])
        loss = tf.identity(losses[0]) if losses else tf.zeros([])
        checks = [tf.is_finite(value) for value in losses]
        for name, value in sorted(new.items()):  # what was finite still is
            is_finite, was_not = tf.is_finite(value), tf.logical_not(tf.is_finite(old[name]))
            checks.append(tf.reduce_all(tf.logical_or(is_finite, was_not)))
    finite = functools.reduce(tf.logical_and, checks + ([earlier.finite] if earlier else []))
    values = GuardValues(ADOPTED, loss, norm)
    skips = options.on_nonfinite == "skip"
    old_values = [
        (variables[name].handle, value)
        for name, value in old.items()
        if not (skips and variables[name].op.name in COUNTERS)  # a skipped step counts
    ]
    # What a refusal undoes. A step that an earlier guard refused was counted there.
    was_finite = earlier.finite if earlier else tf.constant(True)
    undo = [GuardedUpdate(train_op, was_finite, old_values)]
    refuse = make_refusal([values], options, undo)
    with tf.control_dependencies([train_op]):
        op = tf.cond(finite, lambda: tf.group(tf.no_op()), refuse).op
    return GuardedUpdate(op, finite, old_values), values
