"""A graph file: its definition, which of its variables are trained, and their initial values.

The values are those of a checkpoint, or what the graph's own initializers give, run once in a graph
of its own. Random initializers without a seed get one from the run's seed and their name.

Variables of the former kind, whose value is a tensor that ops change in place, become resources: a
`VariableV2` a `VarHandleOp`; an op that changes it, the one for resources; an op that takes its
value, one that takes the output of a `ReadVariableOp`. Switches and entries of loops pass the
handle on.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, NamedTuple, Sequence, Set

import numpy as np
from tensorflow.core.framework.variable_pb2 import VariableDef
from tensorflow.python.framework import op_def_registry

from toolkit import DataError, UsageError, tf

from .nodes import STATELESS, extract, names_of_needed, split_name

_VARIABLES = ("VariableV2", "Variable")
_PASSES = ("RefSwitch", "RefEnter", "RefIdentity")
_OPS = {  # op of a variable -> that of a resource; others have "Resource" before their name
    "RefSwitch": "Switch",
    "RefEnter": "Enter",
    "RefIdentity": "Identity",
    "IsVariableInitialized": "VarIsInitializedOp",
    "Identity": "ReadVariableOp",
    "Assign": "AssignVariableOp",
    "AssignAdd": "AssignAddVariableOp",
    "AssignSub": "AssignSubVariableOp",
}
_definition_of: Any = getattr(op_def_registry, "get", None)  # from the name of an op
if _definition_of is None:  # TensorFlow 1.15
    _definition_of = op_def_registry.get_registered_ops().get
_RESOURCE = tf.resource.as_datatype_enum


class MetaGraph:
    """A MetaGraphDef, with the prefix of a checkpoint's files, "" for none."""

    def __init__(self, meta: Any, checkpoint: str = ""):
        self._meta, self._checkpoint = meta, checkpoint
        self.graph_def = to_resources(meta.graph_def)
        # VariableDefs by name
        self.trainable = self._collection("trainable_variables")
        self.local = self._collection("local_variables")  # such as those of metrics

    def _collection(self, key: str) -> Dict[str, Any]:
        found = self._meta.collection_def
        texts = found[key].bytes_list.value if key in found else ()
        variables = map(VariableDef.FromString, texts)
        return {variable.variable_name.partition(":")[0]: variable for variable in variables}

    def made_of_others(self, names: Iterable[str]) -> Set[str]:
        """Those variables whose initial values are made of others', as those of averages are."""
        known, found = self._collection("variables"), set()
        for name in known.keys() & set(names):
            needed = names_of_needed(self._meta.graph_def, [known[name].initializer_name])
            found |= {name} if needed & known.keys() - {name} else set()
        return found

    def initial_values(self, names: Sequence[str], seed_of: Any) -> Dict[str, np.ndarray]:
        """The value of each variable by name; `seed_of` an initializer's name is in [0, 2**31).

        Raises UsageError if neither the checkpoint nor the graph gives one.
        """
        values: Dict[str, np.ndarray] = {}
        if self._checkpoint:
            reader = tf.train.load_checkpoint(self._checkpoint)
            values = {name: reader.get_tensor(name) for name in names if reader.has_tensor(name)}
        known = {**self._collection("variables"), **self.local}
        missing = [name for name in names if name not in values]
        for name in missing:
            if name not in known:
                raise UsageError(
                    f"The variable '{name}' has no initial value: it is in no collection of "
                    "the graph, and in no checkpoint.",
                    hint="Put its checkpoint beside the graph, NAME.index beside NAME.meta, or set "
                    "--init-from to one that has all variables.",
                )
        if not missing:
            return values
        initializers = [known[name].initializer_name for name in missing]
        reads = {name: known[name].snapshot_name for name in missing}
        source = self._meta.graph_def
        nodes = extract(source, [*initializers, *reads.values()])
        for node in nodes:
            if node.op in STATELESS and not (node.attr["seed"].i or node.attr["seed2"].i):
                node.attr["seed"].i = seed_of(f"initializer/{node.name}")
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            definition = tf.GraphDef(node=nodes, library=source.library, versions=source.versions)
            tf.import_graph_def(definition, name="")
            session.run(initializers)
            values.update(session.run(reads))
        return values


def read_meta(path: str) -> MetaGraph:
    """Read a file .meta, and find the checkpoint beside it.

    Raises UsageError if there is no such file, and DataError if it holds no graph.
    """
    try:
        with open(path, "rb") as file:
            meta = tf.MetaGraphDef.FromString(file.read())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.", hint="Set --meta to a file .meta.") from None
    except Exception:  # protobuf's own class, which differs between versions
        meta = tf.MetaGraphDef()
    if not meta.graph_def.node:
        raise DataError(f"{path} holds no graph.", hint="tf.train.Saver writes files .meta.")
    prefix = os.path.splitext(path)[0]
    return MetaGraph(meta, prefix if os.path.isfile(prefix + ".index") else "")


class _Ref(NamedTuple):
    """What a tensor that was a variable becomes: its handle, its dtype, and the control input of
    what changed it, "" for none.
    """

    handle: str
    dtype: int
    after: str


def to_resources(graph_def: Any) -> Any:
    """A graph definition whose variables are resources: a copy, unless all of them are.

    Raises UsageError if an op changes a variable in a way that resources do not have.
    """
    refs = {
        f"{node.name}:0": _Ref(f"{node.name}:0", node.attr["dtype"].type, "")
        for node in graph_def.node
        if node.op in _VARIABLES
    }
    if not refs:
        return graph_def
    result = tf.GraphDef(library=graph_def.library, versions=graph_def.versions)
    for node in graph_def.node:
        _convert(node, refs, result.node)
    return result


def _convert(node: Any, refs: Dict[str, _Ref], out: Any) -> None:
    """Add the node for resources, and reads of variables before it where it takes values."""
    data = [text for text in node.input if not text.startswith("^")]
    control = [text for text in node.input if text.startswith("^")]
    used = [refs.get("{}:{}".format(*split_name(text))) for text in data]
    count = 0  # of the first inputs, those that are variables rather than their values
    if used and used[0]:
        known = _definition_of(node.op)
        count = sum(each.is_ref for each in known.input_arg) if known else 0
        count = 1 if node.op == "Identity" else count
    for place, ref in enumerate(used):
        if ref is not None and place < count:
            data[place] = ref.handle
            control += [ref.after] if ref.after else []
        elif ref is not None:
            data[place] = f"{node.name}/lift_read_{place}"
            read = out.add(name=data[place], op="ReadVariableOp")
            read.input.extend([ref.handle, *control, *([ref.after] if ref.after else [])])
            read.attr["dtype"].type = ref.dtype
    new = out.add()
    new.CopyFrom(node)
    new.input[:] = [*data, *dict.fromkeys(control)]
    if node.op in _VARIABLES:
        new.op = "VarHandleOp"
        if not new.attr["shared_name"].s:
            new.attr["shared_name"].s = node.name.encode()
    elif count:
        assert used[0] is not None
        _convert_user(new, used[0].dtype)
        if node.op in _PASSES:
            for number in range(2 if new.op == "Switch" else 1):
                output = f"{node.name}:{number}"
                refs[output] = _Ref(output, used[0].dtype, "")
        elif node.op not in ("Identity", "IsVariableInitialized"):
            # What takes the op's value reads the variable after it.
            refs[f"{node.name}:0"] = _Ref(data[0], used[0].dtype, f"^{node.name}")


def _convert_user(node: Any, dtype: int) -> None:
    """Turn an op whose first input was a variable into that for resources."""
    kind = node.op
    node.op = _OPS.get(kind, "Resource" + kind)
    if not hasattr(tf.raw_ops, node.op):
        raise UsageError(
            f"The graph has '{node.name}', an op {kind}, for which resource variables have none.",
            hint="Build the graph with tf.enable_resource_variables().",
        )
    names = {attribute.name for attribute in _definition_of(node.op).attr} - {"validate_shape"}
    for name in set(node.attr) - names:
        node.attr.pop(name)
    if "dtype" in names:
        node.attr["dtype"].type = dtype
    if kind in _PASSES:
        node.attr["T"].type = _RESOURCE
