"""Flags that depend on the plugin: from the arguments of a command to resolved options."""

from __future__ import annotations

import difflib
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

import click
from click.shell_completion import CompletionItem

from .. import config as configuration
from .. import options as typed
from ..cli_options import warn
from ..errors import UsageError
from ..plugins import (
    Plugins,
    choose,
    is_chosen,
    is_name,
    list_plugins,
    load,
    locate,
    trust_everything,
)
from .help import ALL, HELP, group_flags, split_topic, write_short, write_topic
from .interrupts import report_interrupt_of_loading


class Selection(NamedTuple):
    """The plugins and configuration files that the arguments name.

    Attributes:
        plugin: the reference of the model plugin, or "".
        extensions: the references of the extensions.
        plugins: the loaded plugins, or None if no model plugin is named.
        layers: the values of each configuration file, weakest first.
        unloaded: the references of files and modules that this command does not execute; the
            values of their options are not typed.
        permission: the flag to add to have them executed; "" for the one that names them.
    """

    plugin: str
    extensions: List[str]
    plugins: Optional[Plugins]
    layers: List[typed.Layer]
    unloaded: Sequence[str] = ()
    permission: str = ""

    @property
    def note(self) -> str:
        """What the command lacks without the code that it does not execute."""
        flag = "--plugin" if self.plugin in self.unloaded else "--with"
        condition = f"name it ({flag} {self.unloaded[0]})"
        if self.permission:
            condition = f"trust it ({self.permission})"
        return (
            f"This command does not execute {' and '.join(self.unloaded)} unless you {condition}, "
            "and so does not know its options."
        )


NO_SELECTION = Selection("", [], None, [])


def select(args: List[str]) -> Selection:
    """Find --plugin, --with and --config before the arguments are parsed, and load the plugins."""
    layers: List[typed.Layer] = []
    plugin = ""
    extensions: List[str] = []
    origins: Dict[str, str] = {}
    for path in flag_values(args, "--config"):
        config = configuration.read(path)
        plugin = config.plugin or plugin
        extensions = config.extensions or extensions
        origins.update(dict.fromkeys([config.plugin, *config.extensions], path))
        layers.append(config.layer(path))
    variable = os.environ.get(typed.variable_name("plugin"))
    if variable is not None:
        plugin = variable
    plugin = (flag_values(args, "--plugin") or [plugin])[-1]
    extensions = flag_values(args, "--with") or extensions
    return load_selection(plugin, extensions, origins, layers, not only_prints(args))


def only_prints(args: Sequence[str]) -> bool:
    """Whether the arguments ask for the help or the configuration alone."""
    return any(word == "--print-config" or HELP.fullmatch(word) for word in args)


def choose_named_plugins(args: List[str]) -> None:
    """Note which plugins the flags of the command name: they are the user's own choice."""
    for reference in flag_values(args, "--plugin") + flag_values(args, "--with"):
        choose(reference)
    if "--trust" in args:
        trust_everything()


def load_selection(
    plugin: str,
    extensions: Sequence[str],
    origins: Mapping[str, str],
    layers: List[typed.Layer],
    executes_code: bool,
    distributions: Optional[Mapping[str, str]] = None,
) -> Selection:
    """Load the plugins that the arguments name.

    Args:
        plugin: reference of the model plugin, or "".
        extensions: references of the extensions.
        origins: reference -> the file that names it.
        layers: see `Selection`.
        executes_code: whether to load files and modules that a file names, as far as they are
            trusted. What the user names, and installed plugins, are loaded in any case.
        distributions: name -> the distribution of each installed plugin of a run; None for a new
            run.
    """
    unloaded = [] if executes_code else [r for r in [plugin, *extensions] if _is_code(r, origins)]
    for reference in unloaded:
        locate(reference)  # refuses what does not exist
    if not plugin or plugin in unloaded:
        return Selection(plugin, list(extensions), None, layers, unloaded)
    owners = distributions or {}
    model, *others = (
        load(name, kind, origins.get(name, ""), owners.get(name, ""))
        for name, kind in [(plugin, "model"), *((name, "extension") for name in extensions)]
        if name not in unloaded
    )
    return Selection(plugin, list(extensions), Plugins(model, others), layers, unloaded)


def _is_code(reference: str, origins: Mapping[str, str]) -> bool:
    """Whether a reference is a file or a module that the user does not name."""
    return reference in origins and not is_name(reference) and not is_chosen(reference)


def flag_values(args: List[str], flag: str) -> List[str]:
    """Return the values of a flag, before the arguments are parsed."""
    values = []
    for position, argument in enumerate(args):
        if argument == flag and position + 1 < len(args):
            values.append(args[position + 1])
        elif argument.startswith(flag + "="):
            values.append(argument[len(flag) + 1 :])
    return values


def missing_plugin_error() -> UsageError:
    """Return the error for a command that needs a plugin, with the names to choose from."""
    names = [entry.name for entry in list_plugins() if entry.kind == "model"]
    return UsageError(
        "No plugin is named.",
        hint=f"Write --plugin NAME; installed: {', '.join(names) or 'none'}.",
    )


# ------------------------------------------------------------------------------------------- flags


class FieldOption(click.Option):
    """The flag of an option. Its text becomes a typed value later, together with all others."""

    def __init__(self, field: typed.Field, group: str, hidden: bool = False):
        self.field = field
        self.group = group
        flag = typed.flag_name(field.name)
        help = _help_text(field)
        if field.type == "bool":
            names = [f"{flag}/--no-{flag[2:]}", field.name]
            super().__init__(names, default=None, help=help, hidden=hidden)
        else:
            super().__init__(
                [flag, field.name],
                default=None,
                metavar=_metavar(field.type),
                help=help,
                hidden=hidden,
                type=str,
                multiple=field.is_list,
                callback=_join_values if field.is_list else None,
            )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> List[CompletionItem]:
        """Complete one of a few words; a shell completes the rest as files."""
        words = self.field.type.split("|") if "|" in self.field.type else []
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _join_values(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> Any:
    """Return the values of a flag that may be repeated as one text; None without the flag."""
    return ",".join(values) if values else None


_METAVARS = {"str": "TEXT", "int": "N", "float": "X", "name": "NAME", "value": "VALUE"}


def _metavar(name: str) -> str:
    """As TEXT, `NAME=X,...` or `a|b`, from the name of a type."""
    if "|" in name:
        return name
    return re.sub(r"\w+", lambda match: _METAVARS.get(match.group(), match.group()), name)


def _help_text(field: typed.Field) -> str:
    facts = [field.unit, field.limits]
    if field.default not in (None, [], {}):
        facts.append(f"default {typed.format_value(field.default)}")
    facts = [fact for fact in facts if fact]
    return field.help + (f" [{'; '.join(facts)}]" if facts else "")


def option_flags(plugins: Optional[Plugins]) -> List[FieldOption]:
    """Return a flag for each option of the core and of the plugins.

    Raises UsageError where two of them declare an option of the same name.
    """
    classes = plugins.options() if plugins else []
    merged = typed.merge(classes)
    defaults: Dict[str, Any] = {}
    for _, cls in classes:
        defaults.update(cls.core_defaults)
        defaults.update(typed.preset_values(cls))
    defaults = typed.current_names(merged, defaults)
    flags = class_flags(typed.CoreOptions, defaults)
    for name, cls in classes:
        flags += class_flags(cls, defaults, "Plugin " + name)
    return flags


def class_flags(
    cls: Type[typed.Options], defaults: Mapping[str, Any], group: str = ""
) -> List[FieldOption]:
    """Return the flags of the options of a class, each followed by its earlier names, hidden."""
    flags = []
    core_names = typed.CoreOptions.model_fields
    own = vars(cls).get("__annotations__", {})
    aliases = {a: name for a, name in typed.alias_names(cls).items() if a not in core_names}
    # Those that the class inherits, as the changes of images, come after its own.
    for field in sorted(typed.describe(cls), key=lambda field: field.name not in own):
        field = field._replace(default=defaults.get(field.name, field.default))
        flags.append(FieldOption(field, group or field.group))
        for alias in (alias for alias, name in aliases.items() if name == field.name):
            flags.append(FieldOption(field._replace(name=alias), group, hidden=True))
    return flags


class UnknownFlag(click.NoSuchOption):
    """A flag that does not exist. The message names similar ones, none by an earlier name.

    Args:
        cause: click's error.
        params: of the command.
    """

    def __init__(self, cause: click.NoSuchOption, params: Iterable[click.Parameter]):
        super().__init__(cause.option_name, cause.message, ctx=cause.ctx)
        self.similar = similar_flags(cause.option_name, present_flags(params))

    def format_message(self) -> str:
        similar = ", ".join(self.similar)
        return f"{self.message} (Possible options: {similar})" if similar else self.message


def present_flags(params: Iterable[click.Parameter]) -> Dict[str, str]:
    """Return each flag's present name; earlier names, which are hidden, follow their option."""
    names: Dict[str, str] = {}
    present = ""
    for param in (param for param in params if isinstance(param, click.Option)):
        present = present if param.hidden else param.opts[0]
        for flag in [*param.opts, *param.secondary_opts]:
            names[flag] = present if param.hidden else flag
    return names


# What other tools call a flag -> its name here.
OTHER_NAMES = {
    "--lr": "--learning-rate",
    "--rate": "--learning-rate",
    "--bs": "--batch-size",
    "--batch": "--batch-size",
    "--epoch": "--epochs",
    "--num-epochs": "--epochs",
    "--max-epochs": "--epochs",
    "--max-steps": "--steps",
    "--num-steps": "--steps",
    "--iterations": "--steps",
    "--iters": "--steps",
    "--wd": "--weight-decay",
    "--l2": "--weight-decay",
    "--optim": "--optimizer",
    "--scheduler": "--schedule",
    "--lr-schedule": "--schedule",
    "--warmup": "--warmup-steps",
    "--clip-norm": "--clip-limit",
    "--grad-clip": "--clip-limit",
    "--grad-accum": "--accumulate",
    "--dataset": "--data",
    "--data-dir": "--data",
    "--data-path": "--data",
    "--train-dir": "--data",
    "--label": "--label-column",
    "--target": "--label-column",
    "--img-size": "--image-size",
    "--resize": "--image-size",
    "--val-split": "--validation-share",
    "--model": "--plugin",
    "--arch": "--network",
    "--backbone": "--network",
    "--out": "--run-dir",
    "--output": "--run-dir",
    "--output-dir": "--run-dir",
    "--logdir": "--run-dir",
    "--log-dir": "--run-dir",
    "--save-dir": "--run-dir",
    "--model-dir": "--run-dir",
    "--name": "--run-dir",
    "--overwrite": "--force",
    "--pretrained": "--init-from",
    "--weights": "--init-from",
    "--ckpt": "--init-from",
    "--checkpoint": "--init-from",
    "--restore": "--init-from",
    "--continue": "--resume",
    "--save-steps": "--checkpoint-steps",
    "--log-interval": "--log-steps",
    "--early-stop": "--early-stopping",
    "--patience": "--early-stopping",
    "--device": "--devices",
    "--gpu": "--devices",
    "--gpus": "--devices",
    "--debug": "--verbose",
}


def similar_flags(name: str, names: Mapping[str, str]) -> List[str]:
    """Return the flag that other tools call so, else those that have the name as one of their
    words, then those spelled like it.
    """
    if OTHER_NAMES.get(name) in names:
        return [OTHER_NAMES[name]]
    relatives = [flag for flag in names.values() if name.lstrip("-") in flag.split("-")]
    matches = [names[flag] for flag in difflib.get_close_matches(name, names)]
    return list(dict.fromkeys([*relatives, *matches]))


class OptionsCommand(click.Command):
    """A command whose flags depend on the plugin that its arguments name.

    The `Selection` is the context's `obj`.

    Args:
        examples: commands for the help; "{plugin}" is the plugin, or an installed one.
        most_used: name -> a line, for each flag that the short help shows; by default the
            command's own flags.

    Attributes:
        is_short: whether the help leaves out what is not the command's own.
    """

    is_short = True

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        most_used: Optional[Mapping[str, str]] = None,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self._own_params = list(self.params)
        self._examples, self._most_used = examples, most_used or {}
        self._topic = ""

    def select(self, args: List[str]) -> Selection:
        return select(args)

    def plugin_flags(self, selection: Selection) -> List[FieldOption]:
        """Return the flags that the selection adds: by default, all options of a run."""
        return option_flags(selection.plugins)

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        args, self._topic = split_topic(args)
        choose_named_plugins(args)
        with report_interrupt_of_loading():
            ctx.obj = self.select(args)
        own = {flag for param in self._own_params for flag in param.opts}
        flags = [flag for flag in self.plugin_flags(ctx.obj) if not own & set(flag.opts)]
        self.params = [*self._own_params, *flags]
        for param in self.params:
            _refuse_two_values(param, args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as cause:
            error = UnknownFlag(cause, self.params)
            if ctx.obj.unloaded:
                raise click.UsageError(f"{error.format_message()}\n{ctx.obj.note}") from None
            raise error from None

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._topic:
            return
        super().format_help_text(ctx, formatter)
        installed = [entry.name for entry in list_plugins() if entry.kind == "model"]
        name = ctx.obj.plugin or next(iter(installed), "NAME")
        if self._examples:
            formatter.write_paragraph()
        for example in self._examples:
            formatter.write(f"  {example.format(plugin=name)}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = group_flags(ctx, self.get_params(ctx))
        if self._topic or not self.is_short:
            write_topic(ctx, formatter, sections, self._topic or ALL)
        else:
            write_short(ctx, formatter, sections, self._most_used)
        if ctx.obj.unloaded:
            formatter.write_paragraph()
            formatter.write_text(ctx.obj.note)


class PluginCommand(OptionsCommand):
    """A command whose first word may be the plugin: `run NAME` is `run --plugin NAME`.

    Only the first, since words after flags may be their values.
    """

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        args = name_plugin(args)
        topic = split_topic(args)[1]
        if topic and topic in [entry.name for entry in list_plugins() if entry.kind == "model"]:
            args = ["--plugin", topic, *args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if ctx.obj.plugin or getattr(error, "similar", ()):
                raise
            text = f"{error.format_message()}\nThe options of a plugin need its name first: "
            raise click.UsageError(f"{text}{ctx.command_path} PLUGIN {error.option_name}") from None
        except click.UsageError as error:
            word = re.search(r"unexpected extra arguments? \((\S+)", error.message)
            if word is None:
                raise
            raise click.UsageError(
                f"{error.message}\nThe plugin is the first word: {ctx.command_path} "
                f"{word.group(1).rstrip(')')} [OPTIONS]"
            ) from None


def name_plugin(words: Sequence[str]) -> List[str]:
    """Return arguments with --plugin before the plugin that is their first word."""
    words = list(words)
    return words if not words or words[0].startswith("-") else ["--plugin", *words]


def _refuse_two_values(param: click.Parameter, args: List[str]) -> None:
    """Raise UsageError if a flag that takes one value is set twice, to different values."""
    if not isinstance(param, click.Option) or param.multiple:
        return
    if param.is_flag:
        values = [flag for flag in [*param.opts, *param.secondary_opts] if flag in args]
        sides = [param.opts, param.secondary_opts]
        is_twice = not any(set(values) <= set(side) for side in sides)
    else:
        values = [value for flag in param.opts for value in flag_values(args, flag)]
        values = [f"{param.opts[0]} {value}" for value in dict.fromkeys(values)]
        is_twice = len(values) > 1
    if is_twice:
        raise UsageError(f"Both {' and '.join(values)} are set.", hint="Set one of them.")


# ------------------------------------------------------------------------------------------ values


def option_values(flags: Mapping[str, Any], sets: Iterable[str]) -> Dict[str, typed.Value]:
    """Return the text of each option that a flag or a `--set name=value` sets.

    Raises:
        UsageError: a `--set` has another form, or sets what has another value already.
    """
    values = {
        name: typed.Value(value, typed.Origin(typed.FLAG, typed.flag_name(name)))
        for name, value in flags.items()
        if value is not None
    }
    for text in sets:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise UsageError(f"--set {text}: expected name=value.")
        before = values.get(name)
        former = before and str(before.value)
        if former in ("True", "False"):  # of a flag without a value
            value = value.lower().replace("true", "True").replace("false", "False")
        if before is not None and former != value:
            raise UsageError(
                f"'{name}' is set to {before.value} ({before.origin.place}) and to {value} "
                f"(--set {name}).",
                hint="Set it once.",
            )
        values[name] = typed.Value(value, typed.Origin(typed.FLAG, f"--set {name}"))
    return values


def resolve(
    selection: Selection, values: Mapping[str, typed.Value], use_environment: bool = True
) -> typed.Resolved:
    """Resolve the options of a selection. Warns of variables that look like a misspelt option.

    Args:
        selection: the plugins and configuration files.
        values: of each option that a flag sets.
        use_environment: whether `TOOLKIT_*` variables count.
    """
    classes = selection.plugins.options() if selection.plugins else []
    variables = typed.environment() if use_environment else {}
    for text in [
        *(each.value for each in values.values()),
        *(text for name, text in variables.items() if name.startswith(typed.ENVIRONMENT_PREFIX)),
    ]:
        choose(str(text))  # the value of an option may be the reference of a plugin
    resolved = typed.resolve(classes, _typed_layers(selection), variables, values)
    for sentence in typed.misspelt_variables(type(resolved.options), variables):
        warn(sentence)
    return resolved


def untyped_values(selection: Selection) -> Dict[str, Tuple[Any, str]]:
    """Return the value and the file of each saved option that no loaded plugin declares."""
    if not selection.unloaded:
        return {}
    options = typed.merge(selection.plugins.options() if selection.plugins else [])
    names = {*options.model_fields, *typed.alias_names(options)}
    return {
        name: (value, layer.file)
        for layer in selection.layers
        for name, value in layer.values.items()
        if name not in names
    }


def _typed_layers(selection: Selection) -> List[typed.Layer]:
    """Return the layers without the options of plugins that are not loaded."""
    others = untyped_values(selection)
    return [
        layer._replace(values={n: v for n, v in layer.values.items() if n not in others})
        for layer in selection.layers
    ]
