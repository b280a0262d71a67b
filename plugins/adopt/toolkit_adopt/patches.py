"""Replace attributes of modules and classes while a script runs, and put them back afterwards."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any, Callable, List, Tuple

Wrapper = Callable[..., Any]  # of the original and its arguments


class Patches:
    """In a `with`, what `replace` and `wrap` changed; at its end everything is as it was."""

    def __init__(self) -> None:
        self._before: List[Tuple[Any, str, Any, bool]] = []

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *_: Any) -> None:
        while self._before:
            owner, name, value, is_own = self._before.pop()
            if is_own:
                setattr(owner, name, value)
            else:
                with contextlib.suppress(AttributeError):
                    delattr(owner, name)

    def replace(self, owner: Any, name: str, value: Any) -> Any:
        """Set an attribute, and return its former value (None if there was none)."""
        before = getattr(owner, name, None)
        self._before.append((owner, name, vars(owner).get(name), name in vars(owner)))
        setattr(owner, name, value)
        return before

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Let `wrapper(original, *arguments)` be called in place of a function, if it exists."""
        for each in _with_twin(owner):
            self._wrap(each, name, wrapper)

    def _wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return

        def call(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        call.__name__ = call.__qualname__ = name
        call.__doc__ = original.__doc__
        self.replace(owner, name, call)


def _with_twin(owner: Any) -> List[Any]:
    """A module of `tensorflow.compat.v1`, and on 1.15 the one of the same name in `tensorflow`."""
    name = getattr(owner, "__name__", "") if isinstance(owner, types.ModuleType) else ""
    start, v1, rest = name.partition("._api.v1.compat.v1")
    twin = sys.modules.get(f"{start}._api.v1{rest}" if rest else start) if v1 else None
    return [owner] if twin is None else [owner, twin]
