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
SEED = "lift/seed/"  # begins the names of the seeds: of an op's two, or its name if it has none
_OTHER_NOISE = re.compile(r"Random(Shuffle|Gamma|Poisson|Crop)|ParameterizedTruncatedNormal$")
_REFUSED = (
    (re.compile(r"(Eager)?PyFunc(Stateless)?$"), "calls Python code of another process"),
    (re.compile(r"(Anonymous)?(OneShot|Multi\w*)?Iterator|Reader|.*Queue|.*Barrier"), "reads data"),
    (re.compile(r".*(HashTable|LookupTable)"), "reads a table, which has no place in checkpoints"),
    (re.compile(r"Collective|TPU|XlaLaunch|Send$|Recv$|NcclAllReduce"), "needs other devices"),
)
_LAYOUT = re.compile(r"Conv[23]D|DepthwiseConv|(Max|Avg)Pool")  # NHWC alone on a CPU
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")

Fed = Dict[str, Tuple[Any, Any]]  # name of a tensor -> dtype, None if it is unknown, and shape


def split_name(text: str) -> Tuple[str, int]:
    """Node and output of an input of a node; the output of a control input is -1."""
    if text.startswith("^"):
        return text[1:], -1
    name, _, number = text.partition(":")
    return name, int(number or 0)


def names_of_needed(graph_def: Any, targets: Iterable[str], given: Iterable[str] = ()) -> Set[str]:
    """The names of the nodes that some ops or tensors need, without placeholders and what is given.

    Targets and given are names of ops (`x`) or tensors (`x:0`). Raises UsageError if there is no
    such op.
    """
    nodes = {node.name: node for node in graph_def.node}
    cuts = {split_name(name) for name in given}
    pending = [split_name(name) for name in targets]
    for name, _ in (*pending, *cuts):
        if name not in nodes:
            raise UsageError(
                f"The graph has no op '{name}'.",
                hint="Write the name of an op of the graph, without @CALL.",
            )
    kept: Set[str] = set()
    cut_ops = {name for name, _ in cuts}
    while pending:
        name, number = pending.pop()
        is_given = (name, number) in cuts or number == -1 and name in cut_ops
        if name not in kept and not is_given and nodes[name].op not in _PLACEHOLDERS:
            kept.add(name)
            pending += map(split_name, nodes[name].input)
    return kept


def extract(graph_def: Any, targets: Iterable[str], given: Iterable[str] = ()) -> List[Any]:
    """Copies of those nodes in the order of their creation, for any device."""
    kept = names_of_needed(graph_def, targets, given)
    result = []
    for node in graph_def.node:
        if node.name in kept:
            node = tf.NodeDef.FromString(node.SerializeToString())
            node.device = ""
            node.attr.pop("_class", None)
            node.input[:] = [t for t in node.input if t[0] != "^" or t[1:] in kept]
            result.append(node)
    return result


def cut(
    graph_def: Any, targets: Sequence[str], feeds: Iterable[str]
) -> Tuple[List[Any], Fed, List[str]]:
    """Cut what some ops or tensors need out of a graph whose variables are resources.

    `feeds` names tensors (`x:0`) that are given, besides the placeholders. Returned are the nodes
    in the order of their creation, what they are fed, and the names of the seeds of the random ops
    without `SEED`. Raises UsageError if there is no such op, or an op cannot be run here.
    """
    given, nodes = set(feeds), {node.name: node for node in graph_def.node}
    result, fed, seeds = extract(graph_def, targets, given), {}, []
    for node in result:
        for name, number in map(split_name, node.input):
            tensor = f"{name}:{number}"
            if tensor in given or number >= 0 and nodes[name].op in _PLACEHOLDERS:
                fed[tensor] = _describe(nodes[name], number)
        if node.op in STATELESS:
            seeds.append(_make_stateless(node))
    _check_ops(result, graph_def.library)
    return result, fed, list(dict.fromkeys(seeds))


def _describe(node: Any, number: int) -> Tuple[Any, Any]:
    """dtype and shape of an output of a node that is fed, as far as it tells."""
    attr = node.attr  # whose index adds what is not there
    shape = tf.TensorShape(attr["shape"].shape if "shape" in attr else None)
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


def _make_stateless(node: Any) -> str:
    """Give a random op the seed `SEED + name`, int64 [2], as an input; return that name, which is
    the same for ops of the same seeds: they draw the same numbers.
    """
    node.op = STATELESS[node.op]
    pair = node.attr["seed"].i, node.attr["seed2"].i  # 0, 0: none
    seed = "{}_{}".format(*pair) if any(pair) else str(node.name)
    for name in ("seed", "seed2"):
        node.attr.pop(name)
    node.input.insert(2 if node.op == "StatelessMultinomial" else 1, SEED + seed)
    if node.op == "StatelessRandomUniformInt":
        node.attr["dtype"].type = node.attr.pop("Tout").type
    node.attr["Tseed"].type = tf.int64.as_datatype_enum
    return seed


def _check_ops(nodes: Sequence[Any], library: Any) -> None:
    """Refuse what cannot be run, also in functions, by the names of node and op."""
    bodies = {f.signature.name: f.node_def for f in library.function}
    known: Set[str] = set()
    pending = [(node, False) for node in nodes]
    while pending:  # from the end: a dequeue, where the graph can be cut, before its queue
        node, is_in_function = pending.pop()
        if node.op not in bodies and not node.op.startswith("_"):
            _check_op(node, is_in_function)
        for name in (node.op, *(value.func.name for value in node.attr.values())):
            if name in bodies and name not in known:
                known.add(name)
                pending += [(each, True) for each in bodies[name]]


def _check_op(node: Any, is_in_function: bool) -> None:
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
    names = {node.name for node in graph_def.node}
    updates = {f"^{node.name}" for node in graph_def.node if "Apply" in node.op}
    groups = [n.name for n in graph_def.node if n.op == "NoOp" and updates & set(n.input)]
    outer = [name[: -len("/update")] if name.endswith("/update") else "" for name in groups]
    return [out if out in names else name for out, name in zip(outer, groups)]


def find_losses(graph_def: Any, targets: Iterable[str], given: Iterable[str]) -> List[str]:
    """The names of the scalars whose gradients train ops take.

    `tf.gradients` begins with ones of the shape of a loss, in a scope that ends in "gradients"; the
    first op that they go to is named after the loss. The arguments are those of `names_of_needed`.
    """
    nodes = {node.name: node for node in graph_def.node}
    kept, losses = names_of_needed(graph_def, targets, given), []
    for ones in graph_def.node:
        scope = re.match(r"(.*gradients(?:_\d+)?)/(?:Fill|grad_ys)(?:_\d+)?$", ones.name)
        if scope is None or ones.op != "Fill" or ones.name not in kept:
            continue
        shape = nodes[split_name(ones.input[0])[0]]
        sizes = shape.attr["value"].tensor.tensor_shape.dim if shape.op == "Const" else ()
        if [size.size for size in sizes] != [0]:
            continue  # the ones are of no scalar
        form = re.compile(re.escape(scope.group(1)) + r"/(.*?)_grad/")
        users = (n for n in graph_def.node if ones.name in [split_name(x)[0] for x in n.input])
        found = (match.group(1) for match in (form.match(n.name) for n in users) if match)
        losses += [name for name in found if name in nodes][:1]
    return list(dict.fromkeys(losses))
