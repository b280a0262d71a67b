"""Variables of the former kind, whose value is a tensor that ops change in place, as resources.

A `VariableV2` becomes a `VarHandleOp`; an op that changes it, the one for resources; an op that
takes its value, one that takes the output of a `ReadVariableOp`. Switches and entries of loops pass
the handle on.
"""

from __future__ import annotations

import re
from typing import Any, Dict, NamedTuple

from tensorflow.python.framework import op_def_registry

from toolkit import UsageError, tf

from .nodes import split_name

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


class _Ref(NamedTuple):
    """What a tensor that was a variable becomes: its handle, its dtype, and the control input of
    what changed it, "" for none.
    """

    handle: str
    dtype: int
    after: str


def to_resources(graph_def: Any) -> Any:
    """A graph definition whose variables are resources: a copy, unless all of them are.

    Raises:
        UsageError: an op changes a variable in a way that resources do not have.
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
    count = _variable_inputs(node) if used and used[0] else 0
    for place, ref in enumerate(used):
        if ref is not None and place < count:
            data[place] = ref.handle
            control += [ref.after] if ref.after else []
        elif ref is not None:
            data[place] = f"{node.name}/lift_read_{place}"
            read = out.add(name=data[place], op="ReadVariableOp")
            read.input.extend([ref.handle, *control, *([ref.after] if ref.after else [])])
            _set_attributes(read, dtype=ref.dtype)
    new = out.add()
    new.CopyFrom(node)
    del new.input[:]
    new.input.extend(data + list(dict.fromkeys(control)))
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


def _variable_inputs(node: Any) -> int:
    """How many of the first inputs of a node are variables, rather than their values."""
    known = _definition_of(node.op)
    is_passed = node.op == "Identity"
    return 1 if is_passed else sum(each.is_ref for each in known.input_arg) if known else 0


def _convert_user(node: Any, dtype: int) -> None:
    """Turn an op whose first input was a variable into that for resources."""
    kind = node.op
    node.op = _OPS.get(kind, "Resource" + kind)
    if not hasattr(tf.raw_ops, node.op):
        raise UsageError(
            f"The graph has '{node.name}', an op {kind}, for which resource variables have none.",
            hint="Build the graph with tf.enable_resource_variables().",
        )
    if kind in _PASSES:
        node.attr["T"].type = _RESOURCE
    elif kind == "IsVariableInitialized":
        _set_attributes(node)
    elif re.match("Scatter(?!Nd)", kind):
        _set_attributes(node, dtype=dtype, Tindices=node.attr["Tindices"].type)
    elif kind in _OPS:
        _set_attributes(node, dtype=dtype)


def _set_attributes(node: Any, **types: int) -> None:
    """Replace all attributes of a node by these types."""
    node.attr.clear()
    for name, number in types.items():
        node.attr[name].type = number
