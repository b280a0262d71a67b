"""The first op in which two graphs of the same step differ."""

from __future__ import annotations

import itertools
import re
from typing import Any, Optional

from ..autopsy.op_traceback import plugin_lines
from ..compat import tf

# TensorFlow numbers these within a process: functions of the graph, functions of tf.py_func, and
# custom gradients.
_NUMBERED_FUNCTION = re.compile(r"_\d+(?=\b|_)")
_NUMBERED_ATTRIBUTES = {"token", "_gradient_op_type", "shared_name", "container"}
_LARGEST_ARRAY = 8  # elements of a constant that is written out


def find_difference(first: tf.Graph, second: tf.Graph) -> Optional[str]:
    """Describe the first op in which two graphs differ, and where it was created.

    Numbers that TensorFlow counts within a process are not compared.

    Returns:
        A part of a sentence; None for equal graphs.
    """
    nodes = (graph.as_graph_def().node for graph in (first, second))
    for a, b in itertools.zip_longest(*nodes):
        if a is None or b is None or (a.name, a.op) != (b.name, b.op):
            node, graph = (a, first) if b is None else (b, second)
            others = [f"{n.name} ({n.op})" if n else "no further op" for n in (a, b)]
            return f"{_locate(graph, node.name)} creates {others[0]}, then {others[1]}"
        text = _describe_difference(a, b)
        if text:
            return f"{_locate(second, b.name)} creates {b.name} ({b.op}) with {text}"
    return None


def _describe_difference(first: Any, second: Any) -> str:
    """What differs between two nodes of one name; "" for nothing."""
    if list(first.input) != list(second.input):
        return f"the inputs {', '.join(first.input)}, then {', '.join(second.input)}"
    for name in sorted({*first.attr, *second.attr} - _NUMBERED_ATTRIBUTES):
        a, b = first.attr[name], second.attr[name]
        if a != b and _without_numbers(a) != _without_numbers(b):
            return f"{name} {_describe_value(a)}, then {_describe_value(b)}"
    return ""


def _without_numbers(value: Any) -> str:
    """A value of an attribute as text, where functions have names without their numbers."""
    is_function = bool(value.func.name or value.list.func)
    return _NUMBERED_FUNCTION.sub("", str(value)) if is_function else str(value)


def _describe_value(value: Any) -> str:
    if value.HasField("tensor"):
        array = tf.make_ndarray(value.tensor)
        return str(array.tolist()) if array.size <= _LARGEST_ARRAY else f"{list(array.shape)}"
    return " ".join(str(value).split())


def _locate(graph: tf.Graph, name: str) -> str:
    """The line of a plugin that created an op, or else "the toolkit"."""
    lines = plugin_lines(graph.get_operation_by_name(name))
    return lines[-1].location if lines else "the toolkit"
