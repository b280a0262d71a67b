"""Ops of a graph: what runs before them, and which variables they write."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Sequence, Set

from ..compat import tf

STATE_UPDATES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
# They pass a handle on unchanged, into a loop or a condition.
_LINKS = ("Enter", "Identity", "RefEnter", "RefSwitch", "Switch")


def upstream(ops: Iterable[tf.Operation], with_control: bool = True) -> Set[tf.Operation]:
    """The ops and all that run before them, for their values or, `with_control`, by a control
    dependency.
    """
    pending = list(ops)
    known = set(pending)
    while pending:
        op = pending.pop()
        before = {tensor.op for tensor in op.inputs}
        before = (before.union(op.control_inputs) if with_control else before) - known
        known |= before
        pending += before
    return known


def function_names(node: Any) -> Iterator[str]:
    """The names of the functions that a node may call: its op, and those in its attributes."""
    yield node.op
    for value in node.attr.values():
        if value.func.name:
            yield value.func.name
        yield from (function.name for function in value.list.func)


def nodes_within(node: Any, functions: Dict[str, Any], visited: Set[str]) -> Iterator[Any]:
    """A node, and those in the functions, by name, that it calls, but in those visited before."""
    yield node
    for name in function_names(node):
        if name in functions and name not in visited:
            visited.add(name)
            for inner in functions[name]:
                yield from nodes_within(inner, functions, visited)


# ------------------------------------------------------------------------------------ state updates


def state_updates(operations: Iterable[tf.Operation]) -> List[tf.Operation]:
    """Those of the operations that assign a variable: what a forward pass wants to be done."""
    return [op for op in operations if op.type in STATE_UPDATES]


def assign_like(update: tf.Operation, value: Any) -> tf.Operation:
    """A state update like another one, of another value."""
    make = getattr(tf.raw_ops, update.type)
    return make(resource=update.inputs[0], value=value)


# ---------------------------------------------------------------------------- handles of variables


def own_handle(variable: Any) -> tf.Tensor:
    """The handle of a variable in the graph or the function that is being built."""
    graph = tf.get_default_graph()
    return graph.capture(variable.handle) if hasattr(graph, "capture") else variable.handle


def root_handle(tensor: tf.Tensor) -> tf.Tensor:
    """The handle itself, of a tensor that a loop or a condition passed on."""
    while tensor.op.type in _LINKS:
        tensor = tensor.op.inputs[0]
    return tensor


def variables_by_handle() -> Dict[str, Any]:
    """The global variables, by the names of their handles in what is being built."""
    return {own_handle(v).name: v for v in tf.global_variables() if hasattr(v, "handle")}


def written_variables(updates: Sequence[tf.Operation]) -> List[str]:
    """The names of the variables that state updates assign; "" for one that is not global."""
    variables = variables_by_handle()
    found = [variables.get(root_handle(op.inputs[0]).name) for op in updates]
    return ["" if variable is None else str(variable.op.name) for variable in found]
