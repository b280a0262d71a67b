"""From arguments to plugins and resolved options: the flags of `run` and `resume` depend on the
plugin.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Type

import click

from .. import config as configuration
from .. import options as typed
from ..errors import UsageError
from ..plugins import Plugins, list_plugins


class Selection(NamedTuple):
    """The plugins that the arguments name, and the configuration files in their order."""

    plugin: str
    extensions: List[str]
    plugins: Optional[Plugins]  # None where no plugin is named
    layers: List[Tuple[str, Dict[str, Any]]]


def select(args: List[str]) -> Selection:
    """Read --plugin, --with and --config ahead of the parser, and load what they name."""
    layers, plugin, extensions = [], "", []  # type: ignore[var-annotated]
    for path in _values_of(args, "--config"):
        read = configuration.read(path)
        plugin = read.plugin or plugin
        extensions = read.extensions or extensions
        layers.append((path, read.values))
    plugin = os.environ.get(typed.ENVIRONMENT_PREFIX + "PLUGIN", plugin)
    plugin = (_values_of(args, "--plugin") or [plugin])[-1]
    extensions = list(_values_of(args, "--with") or extensions)
    return Selection(
        plugin, extensions, Plugins.load(plugin, extensions) if plugin else None, layers
    )


def _values_of(args: List[str], flag: str) -> List[str]:
    values = []
    for position, argument in enumerate(args):
        if argument == flag and position + 1 < len(args):
            values.append(args[position + 1])
        elif argument.startswith(flag + "="):
            values.append(argument[len(flag) + 1 :])
    return values


def which_plugin() -> UsageError:
    names = [e.name for e in list_plugins() if e.kind == "model"]
    return UsageError(
        "No plugin is named.",
        hint=f"Write --plugin NAME; installed: {', '.join(names) or 'none'}.",
    )


# ----------------------------------------------------------------------------------- option flags


class FieldOption(click.Option):
    """The flag of an option. Its text becomes a typed value later, together with all others."""

    def __init__(self, field: typed.Field, group: str, hidden: bool = False):
        self.field = field
        self.group = group
        flag = typed.flag_name(field.name)
        if field.type == "bool":
            flags, more = [f"{flag}/--no-{flag[2:]}", field.name], {}
        else:
            flags, more = [flag, field.name], {"metavar": _metavar(field), "type": str}
        super().__init__(flags, default=None, help=_help(field), hidden=hidden, **more)


def _metavar(field: typed.Field) -> str:
    short = {"str": "TEXT", "int": "N", "float": "X"}
    return short.get(field.type, field.type)


def _help(field: typed.Field) -> str:
    facts = [field.unit, field.limits]
    if field.default not in (None, [], {}):
        facts.append(f"default {plain(field.default)}")
    facts = [fact for fact in facts if fact]
    return field.help + (f" [{'; '.join(facts)}]" if facts else "")


def plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def option_flags(plugins: Optional[Plugins]) -> List[FieldOption]:
    """A flag for each option of the core and of the plugins, under headings."""
    classes = plugins.options() if plugins else []
    merged = typed.merge(
        classes
    )  # a name that is declared twice is refused here, before click meets it
    defaults: Dict[str, Any] = {}
    for _, cls in classes:
        defaults.update(cls.core_defaults)
        defaults.update(typed.preset_values(cls))
    defaults = typed.current_names(merged, defaults)
    flags = _class_flags(typed.CoreOptions, defaults)
    for name, cls in classes:
        flags += _class_flags(cls, defaults, "Plugin " + name)
    return flags


def _class_flags(
    cls: Type[typed.Options], defaults: Mapping[str, Any], group: str = ""
) -> List[FieldOption]:
    """Return the flags of the options of a class, each followed by its earlier names, hidden."""
    flags = []
    aliases = typed.alias_names(cls)
    for field in typed.describe(cls):
        field = field._replace(default=defaults.get(field.name, field.default))
        flags.append(FieldOption(field, group or field.group))
        for alias in (alias for alias, name in aliases.items() if name == field.name):
            flags.append(FieldOption(field._replace(name=alias), group, hidden=True))
    return flags


class OptionsCommand(click.Command):
    """A command whose flags follow from the plugin that its arguments name."""

    def fixed_params(self):
        if not hasattr(self, "_fixed"):
            self._fixed = list(self.params)
        return self._fixed

    def selection(self, args: List[str]) -> Selection:
        return select(args)

    def parse_args(self, ctx, args):
        fixed = self.fixed_params()
        ctx.obj = self.selection(args)
        self.params = fixed + option_flags(ctx.obj.plugins)
        return super().parse_args(ctx, args)

    def format_options(self, ctx, formatter):
        groups: Dict[str, List[Tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(param, "group", "Options"), []).append(record)
        # The plugin's own options last, nearest to the prompt.
        for title in sorted(groups, key=lambda t: t.startswith("Plugin ")):
            with formatter.section(title):
                formatter.write_dl(groups[title])


def flag_values(given: Dict[str, Any], sets: List[str]) -> Dict[str, Any]:
    """Option name -> text, of the flags that were given and of each `--set name=value`."""
    flags = {name: value for name, value in given.items() if value is not None}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: expected name=value.")
        flags[name.strip().replace("-", "_")] = value
    return flags


def resolve(selection: Selection, flags: Dict[str, Any], use_environment: bool = True):
    """The resolved options of a selection. Warns of variables that look like a misspelt option."""
    classes = selection.plugins.options() if selection.plugins else []
    variables = typed.environment() if use_environment else None
    resolved = typed.resolve(classes, selection.layers, variables, flags)
    for use in resolved.earlier_names:
        if not configuration.is_saved(use.layer):
            sys.stderr.write(f"warning: {_earlier_name_note(use)}\n")
    if variables:
        for sentence in typed.misspelt_variables(type(resolved.options), variables):
            sys.stderr.write(f"warning: {sentence}\n")
    return resolved


def _earlier_name_note(use: typed.EarlierName) -> str:
    """Return a sentence about the use of an option's earlier name."""
    if use.layer == typed.FLAGS:
        return f"{typed.flag_name(use.alias)} is now called {typed.flag_name(use.name)}."
    if use.layer == typed.VARIABLES:
        return f"{typed.variable_name(use.alias)} is now called {typed.variable_name(use.name)}."
    return f"{use.layer}: {use.alias} is now called {use.name}."
