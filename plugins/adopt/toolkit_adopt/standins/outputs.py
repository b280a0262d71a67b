"""What all layers share: collections of outputs, and a condition that may be known beforehand."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable, List

from toolkit import tf

__all__ = [
    "collect_named_outputs",
    "constant_value",
    "convert_collection_to_dict",
    "get_variable_collections",
    "smart_cond",
]


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Add an output to collections, where `convert_collection_to_dict` knows it by an alias."""
    if collections:
        outputs.aliases = [*getattr(outputs, "aliases", []), alias.rstrip("/")]
        tf.get_default_graph().add_to_collections(collections, outputs)
    return outputs


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> OrderedDict:
    """Alias -> output, for all of a collection in the order of their creation."""
    named = [
        (alias, output)
        for output in tf.get_collection(collection)
        for alias in getattr(output, "aliases", [output.op.name])
    ]
    if clear_collection:
        tf.get_default_graph().clear_collection(collection)
    return OrderedDict(named)


def get_variable_collections(collections: Any, name: str) -> List[str]:
    """Those of a variable of a layer, of a list for all or a dictionary by names."""
    return list((collections.get(name) if isinstance(collections, dict) else collections) or [])


def constant_value(value: Any) -> Any:
    """A Python or NumPy value as it is; the value of a tensor if the graph says it, else None."""
    if isinstance(value, tf.Tensor):
        return tf.get_static_value(value)
    return None if hasattr(value, "initializer") else value  # a variable has one


def smart_cond(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """One of two results: by Python where the condition is known, else by `tf.cond`."""
    value = constant_value(condition)
    if value is None:
        return tf.cond(condition, if_true, if_false)
    return if_true() if value else if_false()
