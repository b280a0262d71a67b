"""`PluginCommand`: a command whose flags depend on the plugins that its arguments name.

click reads the words of a command twice. The first time, the flags of plugins are not known yet
(`read_words`); what the words name is then loaded, and all flags are read.
"""

from __future__ import annotations

import difflib
import os
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence

import click

from .. import config as configuration
from ..cli_options import Command
from ..errors import UsageError
from ..options import variable_name
from ..plugins import Plugins, choose, is_name, trust_everything
from ..storage.branch import find_branch_point
from ..storage.own_folders import is_run
from ..storage.run_folder import RunFolder, open_run
from ..storage.source_copies import naming_copies
from .common import flag
from .help import ShortCommand
from .plugin_options import (
    NO_SELECTION,
    FieldOption,
    Selection,
    installed_models,
    load_selection,
    option_flags,
)

# A flag -> what other tools call it.
_NAMES_ELSEWHERE = {
    "--learning-rate": "--lr --rate",
    "--batch-size": "--bs --batch",
    "--epochs": "--epoch --num-epochs --max-epochs",
    "--steps": "--max-steps --num-steps --iterations --iters",
    "--weight-decay": "--wd --l2",
    "--optimizer": "--optim",
    "--schedule": "--scheduler --lr-schedule",
    "--warmup-steps": "--warmup",
    "--clip-limit": "--clip-norm --grad-clip",
    "--accumulate": "--grad-accum",
    "--data": "--dataset --data-dir --data-path --train-dir",
    "--label-column": "--label --target",
    "--image-size": "--img-size --resize",
    "--validation-share": "--val-split",
    "--plugin": "--model",
    "--network": "--arch --backbone",
    "--run-dir": "--out --output --output-dir --logdir --log-dir --save-dir --model-dir --name",
    "--force": "--overwrite",
    "--init-from": "--pretrained --weights --ckpt --checkpoint --restore",
    "--resume": "--continue",
    "--checkpoint-steps": "--save-steps",
    "--log-steps": "--log-interval",
    "--early-stopping": "--early-stop --patience",
    "--devices": "--device --gpu --gpus",
    "--verbose": "--debug",
}
OTHER_NAMES = {other: name for name, others in _NAMES_ELSEWHERE.items() for other in others.split()}


class Words(NamedTuple):
    """The words of a command."""

    # By each flag that is known, in its longest form: its texts in order; of a flag without a
    # value, the forms that were used.
    values: Mapping[str, Sequence[str]]
    rest: Sequence[str]  # in order: arguments, and the flags of plugins with their values

    def all(self, flag: str) -> List[str]:
        """Return the values of a flag; [] without it."""
        return list(self.values.get(flag, ()))

    def argument(self, is_likely: Callable[[str], bool] = lambda word: False) -> str:
        """Return the first argument, or "". `is_likely` says whether a word that may also be the
        value of a plugin's flag is an argument.
        """

        words = [word for word in self.rest if not word.startswith("-")]
        before = ["", *self.rest]
        free = [
            word
            for word, flag in zip(self.rest, before)
            if word in words and ("=" in flag or not flag.startswith("-"))
        ]
        return next(iter([*free, *filter(is_likely, words), *words]), "")


def read_words(params: Sequence[click.Parameter], args: Sequence[str]) -> Words:
    """Read the flags that are known, without their types; a value that is missing is left out."""
    command = click.Command("", add_help_option=False)
    context = click.Context(command, ignore_unknown_options=True, resilient_parsing=True)
    parser = command.make_parser(context)
    for option in (param for param in params if isinstance(param, click.Option)):
        action = "append_const" if option.is_flag or option.count else "append"
        for form in [*option.opts, *option.secondary_opts]:
            parser.add_option(option, [form], _long_form(option), action, const=form)
    values, rest, _ = parser.parse_args(list(args))
    return Words(values, rest)


def _long_form(option: click.Option) -> str:
    return max(option.opts, key=len)


def selection_options(command: Command) -> Command:
    """Add `--plugin`, `--with` and `--config`, which `select_named` reads, and not the command."""
    for facts in (  # the last one of the help first
        ("--config", "FILE", "TOML or JSON file with options."),
        ("--with extensions", "NAME", "Add an extension, in place of those of --config."),
    ):
        command = flag(*facts, multiple=True, expose_value=False)(command)
    text = "Model plugin: NAME, module:[attribute], ./file.py."
    return flag("--plugin", "NAME", text, expose_value=False)(command)


def select_named(words: Words) -> Selection:
    """Load the plugins that --plugin, --with, --config and the environment name; for the help,
    those of --config only if they are installed: it may name code that nobody trusts.
    """
    plugin, layers = "", []
    extensions: Sequence[str] = []
    origins: Dict[str, str] = {}
    for path in words.all("--config"):
        try:
            config = configuration.read(path)
        except UsageError:
            if words.all("--help"):
                continue
            raise
        if words.all("--help") and not all(map(is_name, config.references)):
            continue
        plugin = config.plugin or plugin
        extensions = config.extensions or extensions
        origins.update(dict.fromkeys(config.references, path))
        layers.append(config)
    plugin = os.environ.get(variable_name("plugin")) or plugin
    plugin = [plugin, *words.all("--plugin")][-1]
    extensions = words.all("--with") or extensions
    return load_selection(plugin, extensions, origins, layers)


def select_run(words: Words) -> Selection:
    """Load the plugins of the run in the arguments."""
    path = find_run(words)
    if not path or words.all("--help"):
        return NO_SELECTION
    return select_from_run(open_run(path, allow_unstarted=True), ["", *words.all("--from")][-1])


def find_run(words: Words) -> str:
    """Return the argument that names the run, before the flags of its plugin are known."""
    return words.argument(is_run)


def select_from_run(folder: RunFolder, step: str = "") -> Selection:
    """Return the selection that the saved configuration of a run names: that of the step at which a
    branch begins, by default the newest one.
    """
    if re.fullmatch(r"\s*\+?\d+\s*", step):  # click refuses what is no number
        values = find_branch_point(folder, int(step)).config(folder)
        config = configuration.parse_values(folder.path, values, folder.file("config.json"))
    else:
        config = configuration.read_run_config(folder)
    with naming_copies(folder):
        return load_selection(
            config.plugin,
            config.extensions,
            dict.fromkeys(config.references, os.path.join(str(folder), "config.json")),
            [config],
        )


class PluginCommand(ShortCommand):
    """A command whose flags depend on the plugin that its arguments name. The `Selection` is the
    context's `obj`.

    `select` loads what the words of the command name, by default what --plugin names, or the first
    word: `run NAME` is `run --plugin NAME`. Only the first, since words after flags may be their
    values. `plugin_flags` gives the flags that the plugins add, by default all options of a run. In
    the examples for the help, "{plugin}" is the plugin.
    """

    def __init__(
        self,
        *args: Any,
        select: Callable[[Words], Selection] = select_named,
        plugin_flags: Callable[[Optional[Plugins]], List[FieldOption]] = option_flags,
        examples: Sequence[str] = (),
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.own_params = list(self.params)  # those that do not depend on plugins
        self._select, self._plugin_flags = select, plugin_flags
        self._names_plugin = select is select_named
        self._examples = examples

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        if self._names_plugin:
            args = name_plugin(args)
            if self.topic in installed_models():
                args = ["--plugin", self.topic, *args]
        help_option = self.get_help_option(ctx)
        assert help_option is not None
        words = read_words([*self.own_params, *option_flags(None), help_option], args)
        for reference in words.all("--plugin") + words.all("--with"):
            choose(reference)  # what the flags name is the user's own choice
        if words.all("--trust"):
            trust_everything()
        ctx.obj = self._select(words)
        own = {flag for param in self.own_params for flag in param.opts}
        flags = [flag for flag in self._plugin_flags(ctx.obj.plugins) if not own & set(flag.opts)]
        self.params = [*self.own_params, *flags]
        refuse_two_values(self, ctx, args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            message = self._describe_unknown(ctx, error)
            raise click.NoSuchOption(error.option_name, message, ctx=ctx) from None
        except click.UsageError as error:
            word = re.search(r"unexpected extra arguments? \((\S+)", error.message)
            if word is None or not self._names_plugin:
                raise
            name = word.group(1).rstrip(")")
            hint = f"The plugin is the first word: {ctx.command_path} {name} [OPTIONS]"
            option, equals, value = name.partition("=")
            if equals:
                hint = f"Options are flags: --{option.lstrip('-').replace('_', '-')} {value}"
            elif ctx.obj.plugin:
                hint = f"The plugin is {ctx.obj.plugin}; options are flags, as --steps 100."
            if os.path.exists(name):
                hint = f"Data are named by a flag: --data {name}"
            raise click.UsageError(f"{error.message}\n{hint}") from None

    def _describe_unknown(self, ctx: click.Context, error: click.NoSuchOption) -> str:
        """Say which flags are like one that does not exist: what other tools call so, else those
        that have the name as one of their words, then those spelled like it.
        """
        selection: Selection = ctx.obj
        name, names, more = error.option_name, list_flags(self.params), ""
        relatives = [flag for flag in names if name.lstrip("-") in flag.split("-")]
        relatives += difflib.get_close_matches(name, names)
        similar = [OTHER_NAMES[name]] if OTHER_NAMES.get(name) in names else relatives
        if name in ("--plugin", "--with") and ctx.info_name == "resume":
            more = "\nA run keeps its plugins; to train another, start a new run."
        elif similar:
            more = f" (Possible options: {', '.join(dict.fromkeys(similar))})"
        elif self._names_plugin and not selection.plugin:
            more = "\nThe options of a plugin need its name first: "
            more += f"{ctx.command_path} PLUGIN {error.option_name}"
        return error.message + more

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if self.topic:
            return
        name = ctx.obj.plugin or "PLUGIN"
        if self._examples:
            formatter.write_paragraph()
        for example in self._examples:
            formatter.write(f"  {example.format(plugin=name)}\n")


def name_plugin(words: Sequence[str]) -> List[str]:
    """Return arguments with --plugin before the plugin that is their first word."""
    words = list(words)
    return words if not words or words[0].startswith("-") else ["--plugin", *words]


def refuse_two_values(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    """Raise UsageError if flags set an option to different values."""
    params = command.get_params(ctx)
    words = read_words(params, args)
    if ctx.resilient_parsing or words.all("--help"):
        return
    for option in (param for param in params if isinstance(param, click.Option)):
        written: Dict[str, str] = {}  # its value -> the words that set it
        for text in [] if option.multiple else words.all(_long_form(option)):
            if option.is_flag:
                written.setdefault(str(text in option.secondary_opts), text)
            else:
                written.setdefault(text, f"{option.opts[0]} {text}")
        if len(written) > 1:
            message = f"Both {' and '.join(written.values())} are set."
            raise UsageError(message, hint="Set one of them.")


def list_flags(params: Iterable[click.Parameter]) -> List[str]:
    """Return all flags of a command, also those that switch something off."""
    return [flag for param in params for flag in [*param.opts, *param.secondary_opts]]
