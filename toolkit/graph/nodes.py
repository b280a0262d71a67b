"""Nodes of a graph definition: the names of their inputs, and all that they need."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, Set


def node_name(text: str) -> str:
    """The node that an input of a node names: `op`, `op:1` or `^op`."""
    return text.lstrip("^").split(":")[0]


def ancestors(names: Iterable[str], nodes: Dict[str, Any]) -> Set[str]:
    """The names and those of all nodes that they need.

    Args:
        names: of nodes.
        nodes: name -> node of the graph.
    """
    pending = list(names)
    known = set(pending)
    while pending:
        inputs = {node_name(text) for text in nodes[pending.pop()].input}
        pending += inputs - known
        known |= inputs
    return known


def function_names(node: Any) -> Iterator[str]:
    """The names of the functions that a node may call: its op, and those in its attributes."""
    yield node.op
    for value in node.attr.values():
        if value.func.name:
            yield value.func.name
        yield from (function.name for function in value.list.func)
