"""The ops of a graph: their order, what they wait for, and where they are computed alone."""

from __future__ import annotations

from typing import Any, Dict, List


def in_order(graph) -> List[Any]:
    """All ops, each behind what it waits for, else as they were made.

    Those of a tf.cond are made ahead of what they take their inputs from.
    """
    met, done, ordered, stack = set(), set(), [], graph.get_operations()[::-1]
    while stack:
        op = stack[-1]
        if op not in met:
            met.add(op)
            before = [tensor.op for tensor in op.inputs] + list(op.control_inputs)
            stack.extend(o for o in before if o not in met and o.type != "NextIteration")
        else:
            stack.pop()
            if op not in done:
                done.add(op)
                ordered.append(op)
    return ordered


def ancestors(tensors, ordered) -> List[Any]:
    """The ops that the tensors are computed from, in the order of `ordered`."""
    found, stack = set(), [tensor.op for tensor in tensors]
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack.extend(tensor.op for tensor in op.inputs)
    return [op for op in ordered if op in found]


def conditions(ordered) -> Dict[Any, frozenset]:
    """Op -> the branches (name of a switch's condition, 0 or 1) that it is computed in alone."""
    under: Dict[Any, frozenset] = {}
    for op in ordered:
        before = [under[t.op] | branch(t) for t in op.inputs if t.op in under]
        before += [under[other] for other in op.control_inputs if other in under]
        if op.type == "Merge":  # takes the input that is there
            under[op] = frozenset.intersection(*before) if before else frozenset()
        else:
            under[op] = frozenset().union(*before)
    return under


def branch(tensor) -> frozenset:
    """The branch that a switch hands the tensor to, as in `conditions`; empty for any other."""
    if tensor.op.type != "Switch":
        return frozenset()
    return frozenset([(tensor.op.inputs[1].name, tensor.value_index)])


def in_loop(op) -> bool:
    """Whether it is in the body or the condition of a loop, where no session can fetch."""
    context = op._get_control_flow_context()
    while context is not None:
        if context.IsWhileContext():
            return True
        context = context.outer_context
    return False
