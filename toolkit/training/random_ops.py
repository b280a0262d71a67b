"""Random ops of a step whose state is not in checkpoints: a resume draws other numbers."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Set

from ..autopsy.op_traceback import plugin_lines
from ..compat import tf
from ..graph.ops import function_names, upstream_nodes

# TensorFlow's ops that draw from a stream of the session, which starts again in the next one. Not
# among them: stateless ops, and tf.random.Generator, whose state is a variable.
STATEFUL_OPS = frozenset(
    [
        "AllCandidateSampler",
        "FixedUnigramCandidateSampler",
        "FractionalAvgPool",
        "FractionalMaxPool",
        "LearnedUnigramCandidateSampler",
        "LogUniformCandidateSampler",
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomPoisson",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "SampleDistortedBoundingBox",
        "SampleDistortedBoundingBoxV2",
        "ThreadUnsafeUnigramCandidateSampler",
        "TruncatedNormal",
        "UniformCandidateSampler",
    ]
)


class RandomOp(NamedTuple):
    """A stateful random op, and the line of a plugin that created it."""

    type: str
    location: str  # `file:line in function`, or the name of the op if the core created it

    def __str__(self) -> str:
        return f"{self.type} at {self.location}"


def find_random_ops(train_op: tf.Operation) -> List[RandomOp]:
    """The stateful random ops that a step runs, also those in its loops and functions.

    Each place is listed once. Ops that only initialise variables are not part of a step.
    """
    graph_def = train_op.graph.as_graph_def()
    functions = {f.signature.name: f.node_def for f in graph_def.library.function}
    nodes = {node.name: node for node in graph_def.node}
    iterators = [node.name for node in graph_def.node if node.op == "MakeIterator"]
    ops = []
    for name in sorted(upstream_nodes([train_op.name, *iterators], nodes)):
        types = set(_types(nodes[name], functions, set())) & STATEFUL_OPS
        if types:
            lines = plugin_lines(train_op.graph.get_operation_by_name(name))
            location = lines[-1].location if lines else name
            ops += [RandomOp(op_type, location) for op_type in sorted(types)]
    return list(dict.fromkeys(ops))


def describe_random_ops(ops: Sequence[RandomOp], limit: int = 3) -> str:
    """What the ops mean for a resume; empty for no ops."""
    if not ops:
        return ""
    texts = [str(op) for op in ops[:limit]] + [f"{len(ops) - limit} more"] * (len(ops) > limit)
    return (
        f"a resume of this run is not exact: {', '.join(texts)}. The state of such an op is not in "
        "checkpoints; use run.uniform, run.normal or run.dropout."
    )


def _types(node: Any, functions: Dict[str, Any], visited: Set[str]) -> Iterator[str]:
    """The type of a node, and those of the nodes in the functions that it calls."""
    yield node.op
    for name in function_names(node):
        if name in functions and name not in visited:
            visited.add(name)
            for inner in functions[name]:
                yield from _types(inner, functions, visited)
