"""The part of a graph definition that some ops need, cut at what is fed, and fit to be run here.

Devices and colocations are dropped. Random ops become functions of a seed that is fed. What no step
can run is refused by name.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Sequence, Set, Tuple

from toolkit import UsageError, tf

# op -> the stateless one of the same distribution
STATELESS = {
    "RandomStandardNormal": "StatelessRandomNormal",
    "RandomUniform": "StatelessRandomUniform",
    "RandomUniformInt": "StatelessRandomUniformInt",
    "TruncatedNormal": "StatelessTruncatedNormal",
    "Multinomial": "StatelessMultinomial",
}
SEED = "lift/seed/"  # begins the names of the seeds
_OTHER_NOISE = re.compile(r"Random(Shuffle|Gamma|Poisson|Crop)|ParameterizedTruncatedNormal$")
_REFUSED = (
    (re.compile(r"(Eager)?PyFunc(Stateless)?$"), "calls Python code of another process"),
    (re.compile(r"(Anonymous)?(OneShot|Multi\w*)?Iterator|Reader|.*Queue|.*Barrier"), "reads data"),
    (re.compile(r".*(HashTable|LookupTable)"), "reads a table, which has no place in checkpoints"),
    (re.compile(r"Collective|TPU|XlaLaunch|Send$|Recv$|NcclAllReduce"), "needs other devices"),
)
_LAYOUT = re.compile(r"Conv[23]D|DepthwiseConv|(Max|Avg)Pool")  # NHWC alone on a CPU


Fed = Dict[str, Tuple[Any, Any]]  # name of a tensor -> dtype and shape, None if it is unknown


def split_name(text: str) -> Tuple[str, int]:
    """Node and output of an input of a node; the output of a control input is -1."""
    if text.startswith("^"):
        return text[1:], -1
    name, _, number = text.partition(":")
    return name, int(number or 0)


def cut(
    graph_def: Any, targets: Sequence[str], feeds: Iterable[str]
) -> Tuple[List[Any], Fed, List[str]]:
    """Cut out what some ops need.

    Args:
        graph_def: whose variables are resources.
        targets: names of ops or tensors.
        feeds: names of tensors (`x:0`) that are given, besides the placeholders.

    Returns:
        The nodes in an order in which they may be run, what they are fed, and the names of the
        random ops.

    Raises:
        UsageError: there is no such op, or an op cannot be run here.
    """
    nodes = {node.name: node for node in graph_def.node}
    given = set(feeds)
    kept = _closure(nodes, targets, given)
    fed: Fed = {}
    result, seeds = [], []
    for node in graph_def.node:
        if node.name not in kept:
            continue
        node = tf.NodeDef.FromString(node.SerializeToString())
        node.device = ""
        node.attr.pop("_class", None)
        data = [each for each in node.input if not each.startswith("^")]
        control = [each for each in node.input if each.startswith("^") and each[1:] in kept]
        del node.input[:]
        node.input.extend(data + control)
        for name, number in map(split_name, data):
            tensor = f"{name}:{number}"
            if tensor in given or nodes[name].op == "Placeholder":
                fed[tensor] = _describe(nodes[name], number)
        if node.op in STATELESS:
            seeds.append(node.name)
            _make_stateless(node)
        result.append(node)
    _check_ops(result, graph_def.library)
    return result, fed, seeds


def _closure(nodes: Dict[str, Any], targets: Iterable[str], given: Set[str]) -> Set[str]:
    """The names of the nodes that the targets need, without placeholders and what is given."""
    pending = [split_name(name) for name in targets]
    for name, _ in pending:
        if name not in nodes:
            raise UsageError(
                f"The graph has no op '{name}'.", hint="Write the name of an op of the graph."
            )
    kept: Set[str] = set()
    cut_ops = {split_name(name)[0] for name in given}
    while pending:
        name, number = pending.pop()
        is_given = f"{name}:{number}" in given or number == -1 and name in cut_ops
        if name in kept or is_given or nodes[name].op in ("Placeholder", "PlaceholderV2"):
            continue
        kept.add(name)
        pending += [split_name(text) for text in nodes[name].input]
    return kept


def _describe(node: Any, number: int) -> Tuple[Any, Any]:
    """dtype and shape of an output of a node that is fed; None for what it does not tell."""
    attr = node.attr  # whose index adds what is not there
    shape = tf.TensorShape(attr["shape"].shape) if "shape" in attr else None
    for name in ("dtype", "T"):
        if name in attr:
            return tf.as_dtype(attr[name].type), shape
    dtype = None
    for name in ("output_types", "component_types"):
        if name in attr and len(attr[name].list.type) > number:
            dtype = tf.as_dtype(attr[name].list.type[number])
    if "output_shapes" in attr and len(attr["output_shapes"].list.shape) > number:
        shape = tf.TensorShape(attr["output_shapes"].list.shape[number])
    return dtype, shape


def _make_stateless(node: Any) -> None:
    """Give a random op the seed `SEED + name`, int64 [2], as an input."""
    node.op = STATELESS[node.op]
    inputs = list(node.input)
    place = 2 if node.op == "StatelessMultinomial" else 1
    inputs.insert(place, SEED + node.name)
    del node.input[:]
    node.input.extend(inputs)
    for name in ("seed", "seed2"):
        node.attr.pop(name, None)
    if node.op == "StatelessRandomUniformInt":
        node.attr["dtype"].type = node.attr.pop("Tout").type
    node.attr["Tseed"].type = tf.int64.as_datatype_enum


def _check_ops(nodes: Sequence[Any], library: Any) -> None:
    """Refuse what cannot be run, by the names of node and op."""
    bodies = {f.signature.name: f.node_def for f in library.function}
    called: List[str] = []
    for node in reversed(nodes):  # a dequeue, where the graph can be cut, before its queue
        _check_op(node, bodies, is_in_function=False)
        called += _functions(node, bodies)
    known = set(called)
    while called:
        for node in bodies[called.pop()]:
            _check_op(node, bodies, is_in_function=True)
            called += [name for name in _functions(node, bodies) if name not in known]
            known.update(called)


def _functions(node: Any, bodies: Dict[str, Any]) -> List[str]:
    """The functions that a node calls."""
    names = [node.op, *(value.func.name for value in node.attr.values())]
    return [name for name in names if name in bodies]


def _check_op(node: Any, bodies: Dict[str, Any], is_in_function: bool) -> None:
    if node.op in bodies or node.op.startswith("_"):
        return
    subject = f"The graph needs '{node.name}', an op {node.op}, "
    for pattern, reason in _REFUSED:
        if pattern.match(node.op):
            hint = "Cut the graph at its outputs that are used: --feed NAME:NUMBER=RULE."
            raise UsageError(f"{subject}which {reason}.", hint=hint)
    if not hasattr(tf.raw_ops, node.op):
        hint = "It is of a library of its own, or of another TensorFlow."
        raise UsageError(
            f"{subject}which TensorFlow {tf.version.VERSION} does not have.", hint=hint
        )
    if _OTHER_NOISE.match(node.op) or is_in_function and node.op in STATELESS:
        hint = "Feed its numbers: --feed NAME=uniform:0:1 or normal:0:1."
        raise UsageError(f"{subject}whose numbers cannot follow from the step.", hint=hint)
    layout = node.attr["data_format"].s if "data_format" in node.attr else b""
    has_gpu = bool(tf.config.experimental.list_physical_devices("GPU"))
    if layout == b"NCHW" and _LAYOUT.match(node.op) and not has_gpu:
        hint = "Build the graph with data_format NHWC, or use a GPU."
        raise UsageError(f"{subject}with the layout NCHW, which needs a GPU.", hint=hint)


def find_train_ops(graph_def: Any) -> List[str]:
    """The names of the ops that group the updates of an optimizer."""
    nodes = {node.name: node for node in graph_def.node}
    updates = {f"^{node.name}" for node in graph_def.node if "Apply" in node.op}
    groups = [n.name for n in graph_def.node if n.op == "NoOp" and updates & set(n.input)]
    outer = [name[: -len("/update")] if name.endswith("/update") else "" for name in groups]
    return [out if out in nodes else name for out, name in zip(outer, groups)]


def find_losses(graph_def: Any, targets: Iterable[str], feeds: Iterable[str]) -> List[str]:
    """The names of the scalars whose gradients train ops take.

    `tf.gradients` begins with ones of the shape of a loss, in a scope that ends in "gradients"; the
    first op that they go to is named after the loss.
    """
    nodes = {node.name: node for node in graph_def.node}
    kept = _closure(nodes, targets, set(feeds))
    losses = []
    for one in graph_def.node:
        scope = re.match(r"(.*gradients(?:_\d+)?)/(?:Fill|grad_ys)(?:_\d+)?$", one.name)
        if scope is None or one.op != "Fill" or one.name not in kept:
            continue
        if not _is_scalar(nodes, one.input[0]):
            continue
        form = re.compile(re.escape(scope.group(1)) + r"/(.*?)_grad/")
        users = (each for each in graph_def.node if one.name in map(_source, each.input))
        matches = (form.match(each.name) for each in users)
        names = (match.group(1) for match in matches if match and match.group(1) in nodes)
        losses += [name for name in [next(names, None)] if name]
    return list(dict.fromkeys(losses))


def _source(text: str) -> str:
    return split_name(text)[0]


def _is_scalar(nodes: Dict[str, Any], shape: str) -> bool:
    """Whether a tensor is a constant shape without sizes."""
    node = nodes[_source(shape)]
    sizes = node.attr["value"].tensor.tensor_shape.dim if node.op == "Const" else ()
    return [size.size for size in sizes] == [0]
