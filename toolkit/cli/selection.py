"""From arguments to plugins and resolved options: the flags of `run` and `resume` depend on the
plugin.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import click

from .. import config as configuration
from .. import options as typed
from ..errors import UsageError, nearest
from ..plugins import Plugins, installed


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


def select_saved(folder) -> Selection:
    """What the saved configuration of a run names."""
    read = configuration.read_run_config(folder)
    plugins = Plugins.load(read.plugin, read.extensions)
    return Selection(
        read.plugin, read.extensions, plugins, [(folder.file("config.json"), read.values)]
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
    names = [e.name for e in installed() if e.kind == "model"]
    return UsageError(
        "No plugin is named.",
        hint="Write --plugin NAME; installed: {}.".format(", ".join(names) or "none"),
    )


# ----------------------------------------------------------------------------------- option flags


class FieldOption(click.Option):
    """A flag made from an option's declaration; its text is typed later, with all others."""

    def __init__(self, field: typed.Field, group: str):
        self.field = field
        self.group = group
        name = "--" + field.name.replace("_", "-")
        told = _told(field)
        if field.type == "bool":
            super().__init__(
                ["{}/--no-{}".format(name, name[2:]), field.name], default=None, help=told
            )
        else:
            super().__init__(
                [name, field.name], default=None, metavar=_metavar(field), help=told, type=str
            )


def _metavar(field: typed.Field) -> str:
    short = {"str": "TEXT", "int": "N", "float": "X"}
    return short.get(field.type, field.type)


def _told(field: typed.Field) -> str:
    facts = [field.unit, field.limits]
    if field.default not in (None, [], {}):
        facts.append("default {}".format(_plain(field.default)))
    facts = [fact for fact in facts if fact]
    return field.help + (" [{}]".format("; ".join(facts)) if facts else "")


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def option_flags(plugins: Optional[Plugins]) -> List[FieldOption]:
    """A flag for each option of the core and of the plugins, under headings."""
    classes = plugins.options() if plugins else []
    typed.merge(classes)  # a name that is declared twice is refused here, before click meets it
    defaults: Dict[str, Any] = {}
    for _, cls in classes:
        defaults.update(cls.core_defaults)
        defaults.update(typed.preset_of(cls))
    flags = []
    for field in typed.describe(typed.CoreOptions):
        default = defaults.get(field.name, field.default)
        flags.append(FieldOption(field._replace(default=default), field.group))
    for name, cls in classes:
        for field in typed.describe(cls):
            default = defaults.get(field.name, field.default)
            flags.append(FieldOption(field._replace(default=default), "Plugin " + name))
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
            raise UsageError("--set {}: expected name=value.".format(text))
        flags[name.strip().replace("-", "_")] = value
    return flags


def resolve(selection: Selection, flags: Dict[str, Any], use_environment: bool = True):
    """The resolved options of a selection. Warns of variables that look like a misspelt option."""
    classes = selection.plugins.options() if selection.plugins else []
    variables = typed.environment() if use_environment else None
    resolved = typed.resolve(classes, selection.layers, variables, flags)
    if variables:
        for sentence in typed.misspelt_variables(resolved.origins, variables):
            sys.stderr.write("warning: {}\n".format(sentence))
    return resolved


# ----------------------------------------------------------------------------- changes of a resume

# What a run computes does not depend on these groups of options, or it is what a resume is for.
FREE = {"Length", "Reports", "Checkpoints", "Evaluation", "Machine"}
FIXED = {"seed"}


def changes_options(command):
    """The flags that allow what a resume otherwise refuses."""
    for option in (
        click.option(
            "--drop", is_flag=True, help="Drop what the checkpoint has and the model has not."
        ),
        click.option(
            "--map",
            "maps",
            multiple=True,
            metavar="OLD=NEW",
            help="Restore variable (or scope/) OLD of the checkpoint as NEW.",
        ),
        click.option(
            "--init-new", is_flag=True, help="Initialise what the model has and the checkpoint not."
        ),
        click.option(
            "--allow", multiple=True, metavar="NAME", help="Allow a change of this option, or data."
        ),
    ):
        command = option(command)
    return command


def changed_options(folder, selection: Selection, resolved) -> List[Tuple[str, Any, Any]]:
    """(name, saved, now) of the options that a run has to go on with, and that are others now.

    They are compared with those of the run's last session, so that an edited config.json shows.
    """
    sessions = folder.commits.sessions()
    saved = sessions[-1].get("options") if sessions else None
    if not isinstance(saved, dict):
        return []
    now = resolved.options.model_dump(mode="json")
    groups = {field.name: field.group for field in typed.describe(type(resolved.options))}
    changed = [
        (name, saved.get(name), value)
        for name, value in now.items()
        if name in FIXED or groups.get(name) not in FREE
        if name != "data" and name in saved and saved[name] != value
    ]
    before, after = saved.get("with", []), list(selection.extensions)
    if len(before) != len(after):
        changed.append(("with", before, after))
    return changed


def refuse_changes(folder, selection: Selection, resolved, allowed: Sequence[str]) -> None:
    """Raise UsageError where options that a run depends on have changed and that is not allowed."""
    names = [field.name for field in typed.describe(type(resolved.options))] + ["with"]
    allowed = [name.replace("-", "_") for name in allowed]
    for name in allowed:
        if name not in names:
            raise UsageError("--allow {}: no such option.".format(name), hint=nearest(name, names))
    left = [row for row in changed_options(folder, selection, resolved) if row[0] not in allowed]
    if left:
        raise UsageError(
            "The run was trained with other options: {}.".format(
                "; ".join("{} was {}, now {}".format(n, _plain(a), _plain(b)) for n, a, b in left)
            ),
            hint="Leave them as they were, start a new run, or go on with them all the same: "
            + " ".join("--allow {}".format(name) for name, _, _ in left),
        )
