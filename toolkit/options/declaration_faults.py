"""Options that a plugin declares in a way in which they cannot be set or saved."""

from __future__ import annotations

import enum
import inspect
import os
import re
from typing import Any, NamedTuple, Optional, Type

import pydantic

from .core import CoreOptions, early_options
from .declaration import AUTO, Options, alias_names, chooses_preset

_SIMPLE = (bool, int, float, str, type(None), enum.Enum)


class DeclarationFault(NamedTuple):
    """What is wrong with one option of a class.

    Attributes:
        option: its name.
        problem: completes "Option 'x' of plugin 'y'".
        hint: the way out, one sentence.
        place: `file:line` of the declaration, or "".
    """

    option: str
    problem: str
    hint: str
    place: str


def find_declaration_fault(cls: Type[Options]) -> Optional[DeclarationFault]:
    """The first option of a class without a default that it can have, or None."""
    for name, field in cls.model_fields.items():
        if field.is_required():
            problem, hint = "has no default", "Declare it with toolkit.option(default, help)."
        elif not _is_simple(field.default):
            problem = f"has a default of type {type(field.default).__name__}"
            hint = "A default is None, a bool, a number, a text, or a list or a dict of these."
        else:
            problem, hint = _find_refusal(cls, name, field.default), "Give it a default that fits."
        if problem:
            return DeclarationFault(name, problem, hint, _place_of(cls, name))
    return _find_preset_fault(cls) if chooses_preset(cls) else None


def _find_preset_fault(cls: Type[Options]) -> Optional[DeclarationFault]:
    """The first fault of a class that chooses presets by the data, or None."""
    option = cls.preset_option
    place = _place_of(cls, option)
    if option not in cls.model_fields or _find_refusal(cls, option, AUTO):
        problem = f"is no text that may be '{AUTO}', and choose_preset is there"
        return DeclarationFault(option, problem, f"Accept '{AUTO}', as its default.", place)
    aliases = alias_names(CoreOptions)
    for preset, values in cls.presets.items():
        early = {aliases.get(name, name) for name in values} & early_options()
        if early:
            problem = f"has the preset '{preset}', which sets '{min(early)}'"
            hint = "A class that chooses presets by the data sets nothing that opens them."
            return DeclarationFault(option, problem, hint, place)
    return None


def _is_simple(value: Any) -> bool:
    """Whether a value can be a flag's, and saved as JSON."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_simple(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_simple(item) for item in value)
    return isinstance(value, _SIMPLE)


def _find_refusal(cls: Type[Options], name: str, default: Any) -> str:
    """Why the type or the limits of an option refuse its default; "" if they do not."""
    try:
        cls.model_validate({name: default})
    except pydantic.ValidationError as error:
        texts = [each["msg"] for each in error.errors() if each["loc"][:1] == (name,)]
        text = (texts or [""])[0].replace("Input should", "should").replace("Value error, ", "")
        return f"has the default {default!r}, which {text}" if text else ""
    return ""


def _place_of(cls: Type[Options], name: str) -> str:
    """`file:line` of the declaration of an option; "" where the source cannot be read."""
    for base in cls.__mro__:
        if name in getattr(base, "__annotations__", {}):
            try:
                lines, first = inspect.getsourcelines(base)
                file = os.path.abspath(inspect.getsourcefile(base) or "")
            except (OSError, TypeError):
                return ""
            numbers = [n for n, line in enumerate(lines) if re.match(rf"\s*{name}\s*:", line)]
            return f"{file}:{first + (numbers or [0])[0]}"
    return ""
