"""Default arguments of functions within a block, as `tf.contrib.framework.arg_scope` gives them."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple, Union

__all__ = ["add_arg_scope", "arg_scope", "arg_scoped_arguments", "current_arg_scope"]
__all__ += ["has_arg_scope"]

Scope = Dict[str, Dict[str, Any]]  # key of a function -> its default arguments

_names: Dict[str, Tuple[str, ...]] = {}  # key of each decorated function -> names with defaults
_scopes: List[Scope] = [{}]  # of the blocks around the present statement, the inmost last


def _key(function: Callable[..., Any]) -> str:
    return getattr(function, "_key_op", str(function))


def add_arg_scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let blocks of `arg_scope` give a function default arguments (a decorator)."""
    key = _key(function)
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    _names[key] = names[len(names) - len(defaults) :]

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
            if not has_arg_scope(function):
                raise ValueError(f"{function} is not decorated with @add_arg_scope.")
            scope[_key(function)] = {**scope.get(_key(function), {}), **kwargs}
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


def has_arg_scope(function: Callable[..., Any]) -> bool:
    """Whether a function is decorated."""
    return _key(function) in _names


def arg_scoped_arguments(function: Callable[..., Any]) -> Tuple[str, ...]:
    """The names of the arguments of a decorated function that a block can give."""
    return _names[_key(function)]
