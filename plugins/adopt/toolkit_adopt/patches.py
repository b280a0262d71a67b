"""Replace attributes of modules and classes while a script runs, and put them back afterwards."""

from __future__ import annotations

import contextlib
import importlib
import types
from typing import Any, Callable, List

Wrapper = Callable[..., Any]  # of the original and its arguments


class Patches(contextlib.ExitStack):
    """In a `with`, what `replace` and `wrap` changed; at its end everything is as it was."""

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute, or an item of a dictionary."""
        is_dict = isinstance(owner, dict)
        space, put = (owner, dict.__setitem__) if is_dict else (vars(owner), setattr)
        if name in space:
            self.callback(put, owner, name, space[name])
        else:
            self.callback(_remove, owner, name)
        put(owner, name, value)

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Let `wrapper(original, *arguments)` be called in place of a function, if it exists."""
        for each in _with_twin(owner):
            original = getattr(each, name, None)
            if original is not None:
                self.replace(each, name, _wrapped(original, name, wrapper))


def _remove(owner: Any, name: str) -> None:
    if isinstance(owner, dict):
        del owner[name]
    else:
        with contextlib.suppress(AttributeError):  # of a lazy module, which has set it elsewhere
            delattr(owner, name)


def _wrapped(original: Any, name: str, wrapper: Wrapper) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = original.__doc__
    return call


def _with_twin(owner: Any) -> List[Any]:
    """A module of `tensorflow.compat.v1`, and on 1.15 the one of the same name in `tensorflow`."""
    name = getattr(owner, "__name__", "") if isinstance(owner, types.ModuleType) else ""
    _, v1, rest = name.partition("._api.v1.compat.v1")
    twin: Any = importlib.import_module("tensorflow") if v1 else None
    for part in rest.split(".")[1:]:  # sys.modules may have another one, which no script has
        twin = getattr(twin, part, None)
    return [owner] if twin is None else [owner, twin]
