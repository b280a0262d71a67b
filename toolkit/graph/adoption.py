"""Updates that a plugin makes by ops of its own, without `Run.minimize`: the guard puts back what
they changed in a step that it refuses.

An op that exists cannot be moved behind a condition. Therefore each variable that the step writes
is read before the first write of the step, and gets that value back where a loss or a new value is
not finite.
"""

from __future__ import annotations

import functools
from typing import Any, Container, Dict, List, NamedTuple, Optional, Sequence, Set

from ..compat import add_control_inputs, tf
from ..errors import ToolkitError
from .guard import ADOPTED, SKIPPED_STEPS, GuardedUpdate, GuardValues, fail, skip
from .handles import own_handle, root_handle
from .nodes import function_names
from .updates import create_counter

_WRITES = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ResourceStrided")
_PYTHON_CALLS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_COUNTERS = (tf.GraphKeys.GLOBAL_STEP, "toolkit/" + SKIPPED_STEPS)


class Writes(NamedTuple):
    """The ops of a step that write variables.

    Attributes:
        foreign: a plugin's own, each with the names of the handles that it writes.
        guarded: those of `Run.apply`, likewise.
        variables: that the foreign ones write, by the names of their handles.
        python_calls: ops that may write the variables that the plugin declares.
    """

    foreign: Dict[tf.Operation, List[str]]
    guarded: Dict[tf.Operation, List[str]]
    variables: Dict[str, Any]
    python_calls: Sequence[tf.Operation] = ()


class Adoption(NamedTuple):
    """Own updates behind the guard.

    Attributes:
        guarded: the updates, with the op that the step ends with.
        values: what the guard looks at: the first loss, and the norm of what the step changed.
    """

    guarded: GuardedUpdate
    values: GuardValues


def find_writes(
    train_op: tf.Operation, guarded_ops: Set[tf.Operation], declared: Sequence[Any] = ()
) -> Writes:
    """The ops that a step runs and that write variables.

    Args:
        train_op: the last op of the step.
        guarded_ops: all ops that `Run.apply` made.
        declared: further variables that the plugin says it writes.
    """
    variables = _variables_by_handle()
    writing_functions = _find_writing_functions()
    foreign: Dict[tf.Operation, List[str]] = {}
    guarded: Dict[tf.Operation, List[str]] = {}
    changed = {own_handle(v).name: v for v in declared}
    for op in sorted(upstream([train_op]), key=lambda op: op.name):
        handles = [name for name in written_handles(op, writing_functions) if name in variables]
        if not handles:
            continue
        (guarded if op in guarded_ops else foreign)[op] = handles
        if op not in guarded_ops:
            changed.update((name, variables[name]) for name in handles)
    return Writes(foreign, guarded, changed)


def find_python_calls(ops: Sequence[Any], losses: Sequence[Any]) -> List[tf.Operation]:
    """The ops that call Python, from the losses up to some ops. Their writes are not in the graph.

    Args:
        ops: the last ones, or their tensors.
        losses: what comes before them changes no variable, and may be outside of the loop of steps.
    """
    before = upstream([loss.op for loss in losses])
    after = upstream([getattr(op, "op", op) for op in ops]) - before
    return sorted((op for op in after if op.type in _PYTHON_CALLS), key=lambda op: op.name)


def upstream(ops: Sequence[tf.Operation]) -> Set[tf.Operation]:
    """The ops and all that run before them, for their values or by a control dependency."""
    pending, known = list(ops), set(ops)
    while pending:
        op = pending.pop()
        for other in [*(tensor.op for tensor in op.inputs), *op.control_inputs]:
            if other not in known:
                known.add(other)
                pending.append(other)
    return known


def written_handles(op: tf.Operation, writing_functions: Set[str]) -> List[str]:
    """The names of the variables' handles that an op writes.

    Args:
        op: any op.
        writing_functions: names of functions that write; an op that calls one of them may write
            each handle that it passes.
    """
    is_write = op.type.startswith(_WRITES)
    if not is_write and not (writing_functions and _calls(op.node_def, writing_functions)):
        return []
    return [root_handle(tensor).name for tensor in op.inputs if tensor.dtype == tf.resource]


def _find_writing_functions() -> Set[str]:
    """The names of the graph's functions, as `tf.function` makes them, that write a variable or
    call one that does.
    """
    if not _has_functions():
        return set()
    library = tf.get_default_graph().as_graph_def().library
    functions = {f.signature.name: f.node_def for f in library.function}
    writing: Set[str] = set()
    while True:
        names = {n for n, nodes in functions.items() if any(_writes(x, writing) for x in nodes)}
        if names == writing:
            return writing
        writing = names


def _has_functions() -> bool:
    """Whether an op of the default graph calls a function."""
    operations = tf.get_default_graph().get_operations()
    return any(op.type.endswith(("PartitionedCall", "If", "While")) for op in operations)


def _writes(node: Any, writing: Container[str]) -> bool:
    return node.op.startswith(_WRITES) or _calls(node, writing)


def _calls(node: Any, functions: Container[str]) -> bool:
    return any(name in functions for name in function_names(node))


def _variables_by_handle() -> Dict[str, Any]:
    """The global variables, by the names of their handles."""
    return {own_handle(v).name: v for v in tf.global_variables() if hasattr(v, "handle")}


def check_order(writes: Writes, last_guarded: Any) -> None:
    """Refuse own updates that come before a guarded one, which could then not be undone.

    Args:
        last_guarded: the op of the step's last guarded update.

    Raises:
        ToolkitError: names the variable.
    """
    before = upstream([last_guarded])
    for op, handles in writes.foreign.items():
        if op in before:
            raise ToolkitError(
                f"The step updates '{writes.variables[handles[0]].op.name}' by an op of its own "
                f"('{op.name}') before an update of run.minimize, which could not undo it.",
                hint="Make all updates with run.minimize, or all by ops of your own.",
            )


def order_step(writes: Writes, step_index: Any) -> None:
    """Let own updates of the global step wait until the step's number is read."""
    for op in writes.foreign:
        add_control_inputs(op, [step_index.op])


def adopt(
    train_op: tf.Operation,
    writes: Writes,
    losses: Sequence[Any],
    options: Any,
    earlier: Optional[GuardedUpdate],
) -> Adoption:
    """Guard the own updates of a step.

    Args:
        train_op: the last op of the step.
        writes: of `find_writes`.
        losses: float32 scalars that have to be finite.
        options: the core's options.
        earlier: the last guarded update of the step, or None.
    """
    variables = dict(writes.variables)
    if earlier is not None:  # a refusal undoes the whole step
        handles = {name for names in writes.guarded.values() for name in names}
        known = _variables_by_handle()
        variables.update((name, known[name]) for name in handles if name in known)
        for op in writes.foreign:
            add_control_inputs(op, [earlier.op])
    old = {name: variable.read_value() for name, variable in sorted(variables.items())}
    for op in [*writes.foreign, *writes.guarded, *writes.python_calls]:
        add_control_inputs(op, [value.op for value in old.values()])
    with tf.control_dependencies([train_op]):
        # Read once: a refusal, which waits for the checks, cannot come before the norm's values.
        new = {n: v.read_value() for n, v in variables.items() if v.dtype.base_dtype.is_floating}
        norm = _norm_of_change(new, old)
        loss = tf.identity(losses[0]) if losses else tf.zeros([])
        checks = [tf.is_finite(value) for value in losses] + _stay_finite(new, old)
    finite = functools.reduce(tf.logical_and, checks + ([earlier.finite] if earlier else []))
    values = GuardValues(ADOPTED, loss, norm)
    skipped = create_counter(SKIPPED_STEPS) if options.on_nonfinite == "skip" else None
    old_values = [
        (variables[name].handle, value)
        for name, value in old.items()
        if skipped is None or variables[name].op.name not in _COUNTERS  # a skipped step counts
    ]
    # What a refusal undoes. A step that an earlier guard refused was counted there.
    was_finite = earlier.finite if earlier else tf.constant(True)
    undo = [GuardedUpdate(train_op, was_finite, skipped, old_values)]

    def refuse():
        return fail([values], undo) if skipped is None else skip(skipped, undo)

    with tf.control_dependencies([train_op]):
        op = tf.cond(finite, lambda: tf.group(tf.no_op()), refuse).op
    return Adoption(GuardedUpdate(op, finite, skipped, old_values), values)


def _stay_finite(new: Dict[str, Any], old: Dict[str, Any]) -> List[Any]:
    """bool scalars: whether all numbers of a variable that were finite still are."""
    return [
        tf.reduce_all(tf.logical_or(tf.is_finite(value), tf.logical_not(tf.is_finite(old[name]))))
        for name, value in sorted(new.items())
    ]


def _norm_of_change(new: Dict[str, Any], old: Dict[str, Any]):
    """float32 scalar: the norm of the change of all numbers of a float type that were finite."""
    squares = []
    for name, value in sorted(new.items()):
        change = value - old[name]
        change = tf.where(tf.is_finite(old[name]), change, tf.zeros_like(change))
        squares.append(tf.cast(tf.reduce_sum(tf.square(change)), tf.float32))
    return tf.sqrt(tf.add_n(squares)) if squares else tf.zeros([])
