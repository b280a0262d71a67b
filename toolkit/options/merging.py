"""One class with the options of the core and of all plugins of a run, and options that a plugin
declares in a way in which they cannot be set or saved.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import os
import re
from typing import Any, Iterable, List, Optional, Tuple, Type

import pydantic

from ..errors import UsageError, suggest
from .core import CoreOptions
from .declaration import Options, conditions

PluginOptions = Tuple[str, Type[Options]]  # the name of a plugin and its options class

# Variables that are no options of a run and are read elsewhere.
RESERVED_VARIABLES = (
    *("CACHE", "MIRRORS", "PLUGIN", "RUN_DIR", "VERBOSE"),
    *("CLUSTER", "TASK", "CHANNEL_PORT", "JOIN_SECS", "PEER_SECS"),
)
# The flags and arguments of the commands that have a flag for each option, and the names of these
# in the code of the commands.
FIXED_FLAGS = frozenset(
    ["plugin", "with", "extensions", "config", "run_dir", "force", "json", "as_json", "verbose"]
    + ["set", "sets", "print_config", "pause_at", "help"]
    + ["allow", "trust", "run_folder", "from", "from_step", "resume", "is_resume"]
    + ["cluster", "task", "channel_port", "join_secs", "peer_secs"]
)
# Entries of a saved configuration beside plugins and options.
FOLDER, ORIGINS = "folder", "origins"


def merge(classes: Iterable[PluginOptions]) -> Type[CoreOptions]:
    """Join the core's options and those of each plugin in one class.

    Raises UsageError where a plugin's option has a name that means something else already.
    """
    return _merge(tuple(classes))


@functools.lru_cache(maxsize=8)  # to create a class takes long
def _merge(classes: Tuple[PluginOptions, ...]) -> Type[CoreOptions]:
    owners = dict.fromkeys(CoreOptions.model_fields, "the core")
    bases: List[Type[Options]] = [CoreOptions]
    for plugin, cls in classes:
        for name in cls.model_fields:
            subject = f"Option '{name}' of plugin '{plugin}'"
            if name in {*FIXED_FLAGS, FOLDER, ORIGINS} or name.upper() in RESERVED_VARIABLES:
                raise UsageError(
                    f"{subject} has a name that the toolkit uses for a flag, a variable or an "
                    "entry of config.json.",
                    hint="Rename it.",
                )
            if name in owners:
                raise UsageError(
                    f"{subject} is already an option of {owners[name]}.",
                    hint="Rename it, or set core_defaults to change a core option's default.",
                )
            other = name[len("no_") :] if name.startswith("no_") else "no_" + name
            if other in owners:
                raise UsageError(
                    f"{subject} has the flag with which option '{other}' of {owners[other]} is "
                    "switched off or on.",
                    hint="Rename it.",
                )
            owners[name] = f"plugin '{plugin}'"
        bases.append(cls)
    if len(bases) == 1:
        return CoreOptions
    base = tuple(reversed(bases))
    merged = pydantic.create_model("RunOptions", __base__=base)
    assert issubclass(merged, CoreOptions)
    fields = merged.model_fields
    for name, others in conditions(merged).items():
        for other in others:
            if other not in fields:
                raise UsageError(
                    f"Option '{name}' is used depending on '{other}', which is no option.",
                    hint=suggest(other, fields),
                )
    return merged


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
    return isinstance(value, (bool, int, float, str, type(None), enum.Enum))


def _place_of(cls: Type[Options], name: str) -> str:
    """`file:line` of the declaration of an option; "" where the source cannot be read."""
    base = next(base for base in cls.__mro__ if name in getattr(base, "__annotations__", {}))
    with contextlib.suppress(OSError, TypeError):
        lines, first = inspect.getsourcelines(base)
        numbers = [n for n, line in enumerate(lines) if re.match(rf"\s*{name}\s*:", line)]
        return f"{os.path.abspath(inspect.getsourcefile(base) or '')}:{first + [*numbers, 0][0]}"
    return ""
