"""Flags that depend on the plugin: from the arguments of a command to resolved options."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Type

import click
from click.shell_completion import CompletionItem

from .. import options as typed
from ..cli_options import warn
from ..errors import UsageError
from ..plugins import Plugins, choose, list_plugins, load


class Selection(NamedTuple):
    """The plugins and configuration files that the arguments name."""

    plugin: str  # the reference of the model plugin, or ""
    extensions: List[str]  # their references
    plugins: Optional[Plugins]  # None if no model plugin is named
    layers: List[typed.Config]  # the configuration files, weakest first


NO_SELECTION = Selection("", [], None, [])


def load_selection(
    plugin: str,
    extensions: Sequence[str],
    origins: Mapping[str, str],
    layers: List[typed.Config],
) -> Selection:
    """Load the plugins that the arguments name by their references, with the file that names each.
    Raises UsageError for code that is not trusted.
    """
    plugins = None
    if plugin:
        model = load(plugin, "model", origins.get(plugin, ""))
        plugins = Plugins(model, [load(n, "extension", origins.get(n, "")) for n in extensions])
    return Selection(plugin, list(extensions), plugins, layers)


def installed_models() -> List[str]:
    """Return the names of the model plugins that are installed."""
    return [entry.name for entry in list_plugins() if entry.kind == "model"]


def missing_plugin_error() -> UsageError:
    """Return the error for a command that needs a plugin, with the names to choose from."""
    names = ", ".join(installed_models()) or "none"
    return UsageError("No plugin is named.", hint=f"Write --plugin NAME; installed: {names}.")


# ------------------------------------------------------------------------------------------- flags

_METAVARS = {"str": "TEXT", "int": "N", "float": "X", "name": "NAME", "value": "VALUE"}


class FieldOption(click.Option):
    """The flag of an option. Its text becomes a typed value later, together with all others."""

    def __init__(self, field: typed.Field, group: str = ""):
        self.field, self.group = field, group or field.group
        facts = [field.unit, field.limits]
        if field.default not in (None, [], {}):
            facts.append(f"default {typed.format_value(field.default)}")
        text = "; ".join(filter(None, facts))
        flag = typed.flag_name(field.name)
        more: Dict[str, Any] = {"help": field.help + (f" [{text}]" if text else "")}
        if field.type == "bool":
            flag = f"{flag}/--no-{flag[2:]}"
        else:
            metavar = field.type  # TEXT, `NAME=X,...` or `a|b`
            if "|" not in metavar:
                metavar = re.sub(r"\w+", lambda m: _METAVARS.get(m.group(), m.group()), metavar)
            more.update(type=str, metavar=metavar)
        if field.is_list:  # which may be repeated: all are one text
            more.update(
                multiple=True, callback=lambda *args: ",".join(args[2]) if args[2] else None
            )
        super().__init__([flag, field.name], default=None, **more)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> List[CompletionItem]:
        """Complete one of a few words; a shell completes the rest as files."""
        words = self.field.type.split("|") if "|" in self.field.type else []
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def option_flags(plugins: Optional[Plugins]) -> List[FieldOption]:
    """Return a flag for each option of the core and of the plugins.

    Raises UsageError where two of them declare an option of the same name.
    """
    classes = plugins.options() if plugins else []
    typed.merge(classes)
    defaults: Dict[str, Any] = {}
    for _, cls in classes:
        defaults.update(cls.core_defaults)
        defaults.update(typed.preset_values(cls))
    flags = class_flags(typed.CoreOptions, defaults)
    for name, cls in classes:
        flags += class_flags(cls, defaults, "Plugin " + name)
    return flags


def class_flags(
    cls: Type[typed.Options], defaults: Mapping[str, Any], group: str = ""
) -> List[FieldOption]:
    """Return the flags of the options of a class."""
    own = vars(cls).get("__annotations__", {})
    # Those that the class inherits, as the changes of images, come after its own.
    fields = sorted(typed.describe(cls), key=lambda field: field.name not in own)
    return [
        FieldOption(field._replace(default=defaults.get(field.name, field.default)), group)
        for field in fields
    ]


# ------------------------------------------------------------------------------------------ values


def resolve(
    selection: Selection, flags: Mapping[str, Optional[str]], use_environment: bool = True
) -> typed.Resolved:
    """Resolve the options of a selection, with the text of each flag that is set, and by default
    with `TOOLKIT_*` variables. Warns of variables that look like a misspelt option.
    """
    variables: Mapping[str, str] = os.environ if use_environment else {}
    flags = {name: text for name, text in flags.items() if text is not None}
    texts = list(flags.values())
    texts += [v for name, v in variables.items() if name.startswith(typed.ENVIRONMENT_PREFIX)]
    for text in texts:
        choose(str(text))  # the value of an option may be the reference of a plugin
    classes = selection.plugins.options() if selection.plugins else []
    resolved = typed.resolve(classes, selection.layers, variables, flags)
    for sentence in typed.misspelt_variables(type(resolved.options), variables):
        warn(sentence)
    return resolved
