"""The ops of a graph: their topological order, their ancestors and their enclosing branches."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, List, Set, Tuple

from ..compat import tf

# The branches of switches: (name of the tensor that is the condition, 0 or 1).
Branches = FrozenSet[Tuple[str, int]]


def topological_order(graph: tf.Graph) -> List[tf.Operation]:
    """All ops in topological order; ties keep creation order.

    Creation order alone would not do: the ops in a branch of tf.cond are created before the ops
    that their inputs come from.
    """
    visited: Set[tf.Operation] = set()
    done: Set[tf.Operation] = set()
    ops: List[tf.Operation] = []
    stack = graph.get_operations()[::-1]
    while stack:
        op = stack[-1]
        if op not in visited:
            visited.add(op)
            predecessors = [tensor.op for tensor in op.inputs] + list(op.control_inputs)
            stack.extend(
                other
                for other in predecessors
                if other not in visited and other.type != "NextIteration"
            )
        else:
            stack.pop()
            if op not in done:
                done.add(op)
                ops.append(op)
    return ops


def ancestors(tensors: Iterable[tf.Tensor], ops: List[tf.Operation]) -> List[tf.Operation]:
    """Those of `ops`, in their order, that the tensors are computed from."""
    visited: Set[tf.Operation] = set()
    stack = [tensor.op for tensor in tensors]
    while stack:
        op = stack.pop()
        if op not in visited:
            visited.add(op)
            stack.extend(tensor.op for tensor in op.inputs)
    return [op for op in ops if op in visited]


def enclosing_branches(ops: List[tf.Operation]) -> Dict[tf.Operation, Branches]:
    """Map each op to the branches outside of which it is not computed.

    Args:
        ops: all ops of a graph in topological order.
    """
    branches: Dict[tf.Operation, Branches] = {}
    for op in ops:
        before = [branches[t.op] | switch_branch(t) for t in op.inputs if t.op in branches]
        before += [branches[other] for other in op.control_inputs if other in branches]
        if op.type == "Merge":  # passes on whichever input is computed
            branches[op] = frozenset.intersection(*before) if before else frozenset()
        else:
            branches[op] = frozenset().union(*before)
    return branches


def switch_branch(tensor: tf.Tensor) -> Branches:
    """The branch whose input this output of a switch is; empty for any other tensor."""
    if tensor.op.type != "Switch":
        return frozenset()
    return frozenset([(tensor.op.inputs[1].name, tensor.value_index)])


def is_in_loop(op: tf.Operation) -> bool:
    """Whether the op is in the body or the condition of a loop, where no session can fetch."""
    context = op._get_control_flow_context()
    while context is not None:
        if context.IsWhileContext():
            return True
        context = context.outer_context
    return False
