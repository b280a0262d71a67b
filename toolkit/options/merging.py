"""One class with the options of the core and of all plugins of a run, and options that a plugin
declares in a way in which they cannot be set or saved.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
from typing import Iterable, List, Tuple, Type

import pydantic

from ..errors import ToolkitError, UsageError, suggest
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
    + ["ctx", "print_config", "pause_at", "help"]
    + ["allow", "trust", "run_folder", "from", "from_step", "resume", "is_resume"]
    + ["cluster", "task", "channel_port", "join_secs", "peer_secs"]
    # Those of search, and of plugins check and show.
    + ["search_dir", "vary", "trials", "seeds", "sampler", "examples", "halving", "metric"]
    + ["study_seed", "workers", "dry_run", "name", "words", "exitfirst", "is_short", "summary"]
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
            other = name[3:] if name.startswith("no_") else "no_" + name
            if other in owners:
                raise UsageError(
                    f"{subject} has the flag by which '{other}' of {owners[other]} is set.",
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


def check_declarations(cls: Type[Options], plugin: str, place: str) -> None:
    """Raise ToolkitError for the first option of a plugin's options class without a default that it
    can have. `place` is the plugin's file, for where that of the declaration cannot be read.
    """
    try:
        cls()
        return
    except pydantic.ValidationError as error:
        faults = [each for each in error.errors() if each["loc"]]
    if not faults:  # of the values together: a person may have to set one
        return
    name, text = str(faults[0]["loc"][0]), faults[0]["msg"].replace("Input should", "should")
    problem = f"has the default {faults[0]['input']!r}, which {text}"
    hint = "Give it a default that fits."
    if faults[0]["type"] == "missing":
        problem, hint = "has no default", "Declare it with toolkit.option(default, help)."
    base = next(base for base in cls.__mro__ if name in getattr(base, "__annotations__", {}))
    with contextlib.suppress(OSError, TypeError):  # a source that cannot be read
        lines, first = inspect.getsourcelines(base)
        numbers = [n for n, line in enumerate(lines) if re.match(rf"\s*{name}\s*:", line)]
        place = f"{os.path.abspath(inspect.getsourcefile(base) or '')}:{first + [*numbers, 0][0]}"
    raise ToolkitError(f"Option '{name}' of plugin '{plugin}' {problem} ({place}).", hint=hint)
