"""Random ops of a step whose state is not in checkpoints: a resume draws other numbers."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Set

from ..autopsy.op_traceback import plugin_lines
from ..compat import tf
from ..graph.ops import function_names, upstream


def find_random_ops(train_op: tf.Operation) -> List[str]:
    """The stateful random ops that a step runs, also those in its loops and functions: `TYPE at
    file:line in function` of a plugin, or `TYPE at NAME` if the core created the op.

    Each place is listed once. Ops that only initialise variables are not part of a step.
    """
    graph = train_op.graph
    graph_def = graph.as_graph_def()
    functions = {f.signature.name: f.node_def for f in graph_def.library.function}
    nodes = {node.name: node for node in graph_def.node}
    iterators = [op for op in graph.get_operations() if op.type == "MakeIterator"]
    found: List[str] = []
    for op in sorted(upstream([train_op, *iterators]), key=lambda op: op.name):
        # A node with a second seed draws from a stream of the session, which starts again in the
        # next one. Stateless ops get their seeds as inputs, and the state of tf.random.Generator is
        # a variable. The ops of cuDNN draw only for a dropout, which layers of Keras make outside.
        inner = [n for n in _inner(nodes[op.name], functions, set()) if "seed2" in n.attr]
        types = {node.op for node in inner if not node.op.startswith("Cudnn")}
        if types:
            lines = plugin_lines(op)
            location = lines[-1].location if lines else op.name
            found += [f"{op_type} at {location}" for op_type in sorted(types)]
    return list(dict.fromkeys(found))


def _inner(node: Any, functions: Dict[str, Any], visited: Set[str]) -> Iterator[Any]:
    """A node, and those in the functions that it calls."""
    yield node
    for name in function_names(node):
        if name in functions and name not in visited:
            visited.add(name)
            for inner in functions[name]:
                yield from _inner(inner, functions, visited)
