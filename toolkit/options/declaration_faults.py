"""Options that a plugin declares in a way in which they cannot be set or saved."""

from __future__ import annotations

import contextlib
import enum
import inspect
import os
import re
from typing import Any, Optional, Tuple, Type

import pydantic

from .declaration import Options

_SIMPLE = (bool, int, float, str, type(None), enum.Enum)


def find_declaration_fault(cls: Type[Options]) -> Optional[Tuple[str, str, str, str]]:
    """The first option of a class without a default that it can have, or None.

    Returns:
        Its name, what completes "Option 'x' of plugin 'y'", the way out, and `file:line` of the
        declaration, or "".
    """
    for name, field in cls.model_fields.items():
        problem, hint = "", "Give it a default that fits."
        if field.is_required():
            problem, hint = "has no default", "Declare it with toolkit.option(default, help)."
        elif not _is_simple(field.default):
            problem = f"has a default of type {type(field.default).__name__}"
            hint = "A default is None, a bool, a number, a text, or a list or a dict of these."
        else:
            try:
                cls.model_validate({name: field.default})
            except pydantic.ValidationError as error:
                texts = [each["msg"] for each in error.errors() if each["loc"][:1] == (name,)]
                text = (texts or [""])[0].replace("Input should", "should")
                problem = f"has the default {field.default!r}, which {text}" if text else ""
        if problem:
            return name, problem, hint, _place_of(cls, name)
    return None


def _is_simple(value: Any) -> bool:
    """Whether a value can be a flag's, and saved as JSON."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_simple(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_simple(item) for item in value)
    return isinstance(value, _SIMPLE)


def _place_of(cls: Type[Options], name: str) -> str:
    """`file:line` of the declaration of an option; "" where the source cannot be read."""
    base = next(base for base in cls.__mro__ if name in getattr(base, "__annotations__", {}))
    with contextlib.suppress(OSError, TypeError):
        lines, first = inspect.getsourcelines(base)
        numbers = [n for n, line in enumerate(lines) if re.match(rf"\s*{name}\s*:", line)]
        return f"{os.path.abspath(inspect.getsourcefile(base) or '')}:{first + [*numbers, 0][0]}"
    return ""
