"""A cut of a graph, connected to the graph of a run: to its variables, its feeds and its noise."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

from toolkit import UsageError, tf

from .nodes import SEED, Fed, cut
from .order import order_state
from .refs import has_refs, to_resources

GLOBAL_STEP = "global_step"


class VariableSpec(NamedTuple):
    """Attributes:
    dtype: of the variable.
    shape: a list of sizes.
    """

    dtype: Any
    shape: List[int]


class Fragment(NamedTuple):
    """What some ops of a graph need, ready to be connected.

    Attributes:
        graph_def: its nodes, without variables.
        targets: the names of ops and tensors (`x:0`) that are wanted.
        variables: the name of each variable that it uses.
        fed: the tensors that it is fed.
        seeds: the names of the random ops.
    """

    graph_def: Any
    targets: List[str]
    variables: Dict[str, VariableSpec]
    fed: Fed
    seeds: List[str]


def with_resources(graph_def: Any) -> Any:
    """A graph definition whose variables are resources."""
    return to_resources(graph_def) if has_refs(graph_def) else graph_def


def make_fragment(graph_def: Any, targets: Sequence[str], feeds: Sequence[str]) -> Fragment:
    """Cut out a fragment whose state is ordered.

    Args:
        graph_def: whose variables are resources.
        targets: names of ops, or of tensors with their number.
        feeds: names of tensors at which it is cut, besides placeholders.

    Raises:
        UsageError: it cannot be run here.
    """
    parts, fed, seeds = cut(graph_def, targets, feeds)
    variables = {node.name: _spec(node) for node in parts if node.op == "VarHandleOp"}
    dropped = {f"^{name}" for name in variables}
    nodes = [node for node in order_state(parts, set(variables)) if node.name not in variables]
    for node in nodes:
        inputs = [text for text in node.input if text not in dropped]
        del node.input[:]
        node.input.extend(inputs)
    known = {"library": graph_def.library, "versions": graph_def.versions}
    definition = tf.GraphDef(node=nodes, **known)
    return Fragment(definition, list(targets), variables, fed, seeds)


def _spec(node: Any) -> VariableSpec:
    shape = tf.TensorShape(node.attr["shape"].shape)
    if not shape.is_fully_defined():
        raise UsageError(
            f"The variable '{node.name}' has the shape {shape}, whose sizes are not all known.",
            hint="Give it a shape in the script.",
        )
    return VariableSpec(tf.as_dtype(node.attr["dtype"].type), shape.as_list())


def variable_name(name: str) -> str:
    """The name of a graph's variable in a run, whose own global step counts periods."""
    return f"adopted/{name}" if name == GLOBAL_STEP else name


def make_variables(specs: Dict[str, VariableSpec], trainable: Sequence[str]) -> Dict[str, Any]:
    """Create the variables of fragments in the hook `build`; their values come later.

    Args:
        specs: by the name in the graph.
        trainable: the names of those that the graph calls trainable.

    Returns:
        Name in the graph -> variable.
    """
    with tf.variable_scope("", reuse=False, use_resource=True):
        return {
            name: tf.get_variable(
                variable_name(name),
                spec.shape,
                spec.dtype,
                tf.zeros_initializer(),
                trainable=name in trainable,
            )
            for name, spec in sorted(specs.items())
        }


def connect(
    fragment: Fragment,
    variables: Dict[str, Any],
    feeds: Dict[str, Any],
    run: Any,
    label: str,
    after: Sequence[Any] = (),
) -> List[Any]:
    """Add a fragment to the default graph, also within a loop.

    Args:
        fragment: what to add.
        variables: the name in the graph -> variable.
        feeds: the name of each tensor that it is fed -> tensor.
        run: whose seed and step give the noise.
        label: of the call, which begins the names of its ops.
        after: ops that come before its reads and writes of variables.

    Returns:
        The targets.
    """
    inputs = dict(feeds)
    with tf.control_dependencies(list(after)):
        for name in fragment.variables:
            inputs[f"{name}:0"] = tf.identity(variables[name].handle)
    for name in fragment.seeds:
        seed = tf.constant(run.seed(f"{label}/{name}"), tf.int64)
        inputs[f"{SEED}{name}:0"] = tf.stack([seed, run.step_index])
    definition = tf.GraphDef.FromString(fragment.graph_def.SerializeToString())
    for node in definition.node:
        if node.op == "Enter":  # two loops of one name would share their steps
            node.attr["frame_name"].s = f"{label}/".encode() + node.attr["frame_name"].s
    used = {text for node in definition.node for text in node.input}
    used |= set(fragment.targets)
    inputs = {name: x for name, x in inputs.items() if name in used or name[:-2] in used}
    return list(tf.import_graph_def(definition, inputs, fragment.targets, name=label))
