"""What all stand-ins of layers share: default arguments within a block, as
`tf.contrib.framework.arg_scope` gives them, collections of outputs, and conditions that may be
known beforehand.
"""

from __future__ import annotations

import collections
import contextlib
import functools
from typing import Any, Callable, Dict, Iterable, Iterator, List, Union

from toolkit import tf

Scope = Dict[str, Dict[str, Any]]  # key of a function -> its default arguments

_scopes: List[Scope] = [{}]  # of the blocks around the present statement, the inmost last


def add_arg_scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let blocks of `arg_scope` give a function default arguments (a decorator)."""
    key = getattr(function, "_key_op", str(function))

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**current_arg_scope().get(key, {}), **kwargs})

    scoped._key_op = key  # type: ignore[attr-defined]
    return scoped


@contextlib.contextmanager
def arg_scope(functions: Union[Scope, Iterable[Callable[..., Any]]], **kwargs: Any) -> Iterator:
    """Give functions default arguments in the block.

    Args:
        functions: decorated ones; or a scope that an earlier block was given, to use it again.
        kwargs: the arguments, which add to those of the blocks around; none with a scope.

    Yields:
        The scope.

    Raises:
        TypeError: `functions` is neither a list, a tuple nor a scope.
        ValueError: a function is not decorated, or a scope has arguments.
    """
    if isinstance(functions, dict):
        if kwargs:
            raise ValueError(f"A scope that is used again takes no arguments, not {list(kwargs)}.")
        scope = dict(functions)
    elif isinstance(functions, (list, tuple)):
        scope = dict(current_arg_scope())
        for function in functions:
            if not hasattr(function, "_key_op"):
                raise ValueError(f"{function} is not decorated with @add_arg_scope.")
            key = function._key_op
            scope[key] = {**scope.get(key, {}), **kwargs}
    else:
        raise TypeError(f"arg_scope needs a list of functions or a scope, not {functions!r}.")
    _scopes.append(scope)
    try:
        yield scope
    finally:
        _scopes.pop()


def current_arg_scope() -> Scope:
    """The scope of the present block."""
    return _scopes[-1]


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Add an output to collections, where `convert_collection_to_dict` knows it by an alias."""
    if collections:
        outputs.aliases = [*getattr(outputs, "aliases", []), alias.rstrip("/")]
        tf.get_default_graph().add_to_collections(collections, outputs)
    return outputs


def convert_collection_to_dict(collection: str) -> Any:
    """Alias -> output, for all of a collection in the order of their creation."""
    named = [
        (alias, output)
        for output in tf.get_collection(collection)
        for alias in getattr(output, "aliases", [output.op.name])
    ]
    return collections.OrderedDict(named)


def get_variable_collections(collections: Any, name: str) -> List[str]:
    """Those of a variable of a layer, of a list for all or a dictionary by names."""
    return list((collections.get(name) if isinstance(collections, dict) else collections) or [])


def constant_value(value: Any) -> Any:
    """A Python or NumPy value as it is; the value of a tensor if the graph says it, else None."""
    if isinstance(value, tf.Tensor):
        return tf.get_static_value(value)
    return None if hasattr(value, "initializer") else value  # a variable has one


def smart_cond(pred, true_fn=None, false_fn=None, name=None) -> Any:
    """One of two results: by Python where the condition is known, else by `tf.cond`."""
    value = constant_value(pred)
    if value is None:
        return tf.cond(pred, true_fn, false_fn, name=name)
    return true_fn() if value else false_fn()
