"""The handles of variables, as ops of a loop, a condition or a function get them."""

from __future__ import annotations

from typing import Any

from ..compat import tf

_LINKS = ("Enter", "Identity", "RefEnter", "RefSwitch", "Switch")  # pass a handle on unchanged


def own_handle(variable: Any) -> tf.Tensor:
    """The handle of a variable in the graph or the function that is being built."""
    graph = tf.get_default_graph()
    return graph.capture(variable.handle) if hasattr(graph, "capture") else variable.handle


def root_handle(tensor: tf.Tensor) -> tf.Tensor:
    """The handle itself, of a tensor that a loop or a condition passed on."""
    while tensor.op.type in _LINKS:
        tensor = tensor.op.inputs[0]
    return tensor
