"""One class with the options of the core and of all plugins of a run."""

from __future__ import annotations

import functools
from typing import Iterable, List, Mapping, Tuple, Type

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
            _check_name(plugin, name, owners)
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


def _check_name(plugin: str, name: str, owners: Mapping[str, str]) -> None:
    """Refuse an option of a plugin whose name, or whose flag, is in use."""
    subject = f"Option '{name}' of plugin '{plugin}'"
    if name in FIXED_FLAGS or name.upper() in RESERVED_VARIABLES or name in (FOLDER, ORIGINS):
        raise UsageError(
            f"{subject} has a name that the toolkit uses for a flag, a variable or an entry of "
            "config.json.",
            hint="Rename it.",
        )
    if name in owners:
        raise UsageError(
            f"{subject} is already an option of {owners[name]}.",
            hint="Rename it, or set core_defaults to change a core option's default.",
        )
    for other in (name[len("no_") :] if name.startswith("no_") else "", "no_" + name):
        if other in owners:
            raise UsageError(
                f"{subject} has the flag with which option '{other}' of {owners[other]} is "
                "switched off or on.",
                hint="Rename it.",
            )
