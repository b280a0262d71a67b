"""Make a SavedModel loadable by other versions of TensorFlow than the one that wrote it.

What a served model does not need, and earlier versions do not know, is removed: debugging names of
variables, and the ops that compute initial values. Loading restores all global variables, so these
start at zero instead.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Set

from ..compat import SavedModelProto, VariableProto, tf
from ..graph.nodes import ancestors, node_name


def make_portable(saved_model: bytes) -> bytes:
    """The contents of a saved_model.pb without what earlier versions of TensorFlow do not know."""
    message = SavedModelProto.FromString(saved_model)
    for meta_graph in message.meta_graphs:
        _drop_debug_names(meta_graph.graph_def)
        _drop_initial_values(meta_graph)
    return bytes(message.SerializeToString(deterministic=True))


def _drop_debug_names(graph_def: Any) -> None:
    functions = graph_def.library.function
    for nodes in [graph_def.node, *(function.node_def for function in functions)]:
        for node in nodes:
            if node.op == "VarHandleOp" and "debug_name" in node.attr:
                del node.attr["debug_name"]


def _drop_initial_values(meta_graph: Any) -> None:
    """Let the global variables start at zero, and remove the nodes that only they needed."""
    graph_def = meta_graph.graph_def
    nodes = {node.name: node for node in graph_def.node}
    names: Dict[str, str] = {}  # old initial value -> new one
    for variable in _variables(meta_graph, tf.GraphKeys.GLOBAL_VARIABLES):
        assign, handle = nodes[variable.initializer_name], nodes[variable.variable_name[:-2]]
        if assign.op == "AssignVariableOp" and _is_numeric(handle):
            zeros = _add_zeros(graph_def, assign.name + "/zeros", handle)
            names[_tensor_name(assign.input[1])] = zeros
            assign.input[1] = zeros
    for key in list(meta_graph.collection_def):
        _rename_initial_values(meta_graph, key, names)
    nodes = {node.name: node for node in graph_def.node}
    candidates = ancestors(map(node_name, names), nodes)
    needed = ancestors(set(nodes) - candidates | _named_nodes(meta_graph), nodes)
    remaining = [node for node in graph_def.node if node.name in needed]
    del graph_def.node[:]
    graph_def.node.extend(remaining)


def _variables(meta_graph: Any, key: str) -> Iterator[Any]:
    for text in meta_graph.collection_def[key].bytes_list.value:
        variable = VariableProto.FromString(text)
        if variable.is_resource:
            yield variable


def _rename_initial_values(meta_graph: Any, key: str, names: Dict[str, str]) -> None:
    """Name the new initial values in a collection of variables."""
    if not key.endswith("variables") and key != tf.GraphKeys.GLOBAL_STEP:
        return
    texts = meta_graph.collection_def[key].bytes_list.value
    for number, text in enumerate(texts):
        variable = VariableProto.FromString(text)
        name = names.get(_tensor_name(variable.initial_value_name))
        if name is not None:
            variable.initial_value_name = name + ":0"
            texts[number] = variable.SerializeToString()


def _is_numeric(handle: Any) -> bool:
    dtype, shape = tf.as_dtype(handle.attr["dtype"].type), handle.attr["shape"].shape
    has_shape = not shape.unknown_rank and all(dim.size >= 0 for dim in shape.dim)
    return has_shape and (dtype.is_floating or dtype.is_integer or dtype.is_bool)


def _add_zeros(graph_def: Any, name: str, handle: Any) -> str:
    """Add an op that fills the shape of a variable with zeros, which is small in the file."""
    dtype = handle.attr["dtype"].type
    sizes = [dim.size for dim in handle.attr["shape"].shape.dim]
    zero = tf.make_tensor_proto(0, tf.as_dtype(dtype), [])
    for suffix, value in (
        ("/dims", tf.make_tensor_proto(sizes, tf.int32, [len(sizes)])),
        ("/value", zero),
    ):
        constant = graph_def.node.add(name=name + suffix, op="Const")
        constant.attr["dtype"].type = value.dtype
        constant.attr["value"].tensor.CopyFrom(value)
    fill = graph_def.node.add(name=name, op="Fill", input=[name + "/dims", name + "/value"])
    fill.attr["T"].type = dtype
    return name


def _named_nodes(meta_graph: Any) -> Set[str]:
    """The nodes that the signatures and the collections name."""
    texts: List[str] = []
    for signature in meta_graph.signature_def.values():
        texts += [info.name for info in [*signature.inputs.values(), *signature.outputs.values()]]
    for collection in meta_graph.collection_def.values():
        texts += collection.node_list.value
    present = {node.name for node in meta_graph.graph_def.node}
    return {node_name(text) for text in texts} & present


def _tensor_name(text: str) -> str:
    """The name of a tensor as the input of a node: its first output has no number."""
    return text[:-2] if text.endswith(":0") else text
