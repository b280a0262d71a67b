"""The commands of `toolkit` by name. The module of a command is imported when it is used.

After the core's own commands come those that installed packages add, by two groups of entry points:

    [project.entry-points."toolkit.commands"]
    NAME = "module:click_command"

A command of the core takes precedence over one of the same name. A broken command is reported where
it is listed or called.

    [project.entry-points."toolkit.drivers"]
    NAME = "module:attribute"

A driver makes the steps of runs in place of the core's loop. The attribute maps the names of
commands to click commands with the same argument RUN. In place of the core's own they are called
for the runs whose config.json names the driver.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
from typing import List, Mapping, Optional, Sequence

import click

from .. import __version__
from ..cli_options import HelpGroup
from ..errors import InterruptedRun, ToolkitError, UsageError
from ..plugins import (
    choose,
    describe_failure,
    list_entries,
    load_command,
)

# name -> (module, one line for --help)
COMMANDS = {
    "run": ("run", "Train a plugin's model."),
    "resume": ("run", "Continue a run from its last checkpoint."),
    "launch": ("launch", "Train with several processes on this machine."),
    "search": ("search", "Train many configurations at equal budgets."),
    "evaluate": ("evaluate", "Evaluate a trained model on a split of the data."),
    "predict": ("predict", "Apply a trained model to files."),
    "sample": ("sample", "Draw samples from a trained model that generates."),
    "export": ("export", "Write a trained model as a SavedModel."),
    "report": ("report", "Write the page of a run, or of several."),
    "runs": ("runs", "List runs: state, metric, and what is special about each."),
    "compare": ("compare", "Compare runs: options, metrics, and where they parted."),
    "verify": ("verify", "Check the integrity of a run folder."),
    "doctor": ("doctor", "Report the state of a run, and what to do about faults."),
    "plugins": ("plugins", "List, show and check plugins, and start new ones."),
    "data": ("data", "List data sources, check data, and show examples."),
    "cache": ("cache", "List and remove downloads and converted data."),
}

# A command -> what other tools call it.
_NAMES_ELSEWHERE = {
    "run": "train fit start",
    "resume": "continue",
    "evaluate": "test eval validate",
    "predict": "infer classify",
    "sample": "generate",
    "search": "tune sweep",
    "export": "save serve",
    "runs": "ls list",
    "compare": "diff",
    "doctor": "check",
    "plugins": "new init",
}
OTHER_NAMES = {other: name for name, others in _NAMES_ELSEWHERE.items() for other in others.split()}

# They execute what a run is made of; all other commands read its folder alone.
EXECUTING = ("resume", "evaluate", "predict", "sample", "export")


class LazyGroup(HelpGroup):
    """A group that knows the names and summaries of its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        added = {each.name for each in list_entries("command")}
        return list(COMMANDS) + sorted(added - set(COMMANDS))

    def get_command(self, ctx: click.Context, name: str) -> Optional[click.Command]:
        if name not in COMMANDS:
            return load_added(name)
        module = importlib.import_module("toolkit.cli." + COMMANDS[name][0])
        return getattr(module, name)

    def resolve_command(self, ctx: click.Context, args: List[str]):
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            names = self.list_commands(ctx)
            if name not in names:
                close = difflib.get_close_matches(name, names, n=1)
                close = [OTHER_NAMES[name]] if name in OTHER_NAMES else close
                hint = f"Did you mean '{close[0]}'?" if close else f"Commands: {', '.join(names)}."
                raise click.UsageError(f"There is no command '{name}'.\n{hint}")
        driven = _find_driven(name, args[1:])
        return (name, driven, args[1:]) if driven else super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context):
        try:
            return super().invoke(ctx)
        except (ToolkitError, click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:  # click would print an empty line
            raise InterruptedRun("Interrupted.") from None
        except Exception as error:
            if isinstance(error, FileNotFoundError) and not _has_directory():
                text = "The working directory no longer exists."
                raise UsageError(text, hint="Change to another folder.") from error
            name = ctx.invoked_subcommand
            if name is None or name in COMMANDS:
                raise  # a fault of the core shows its traceback
            raise ToolkitError(
                f"Command '{name}' failed: {describe_failure(error).text}.",
                hint="Set TOOLKIT_VERBOSE=1 for the traceback.",
            ) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])
        rows = []
        for name in self.list_commands(ctx)[len(COMMANDS) :]:
            try:
                command = load_added(name)
            except ToolkitError as error:
                rows.append((name, "broken: " + error.message))
                continue
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=100)))
        if rows:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)


def _has_directory() -> bool:
    with contextlib.suppress(FileNotFoundError):
        return bool(os.getcwd())
    return False


def load_added(name: str) -> Optional[click.Command]:
    """Return the command of that name, or None. Raises UsageError, ToolkitError."""
    entries = [entry for entry in list_entries("command") if entry.name == name]
    if not entries:
        return None
    command = load_command(entries[0])
    if not isinstance(command, click.Command):
        raise ToolkitError(
            f"Command '{name}' ({entries[0].target}) is {command!r}, expected a click command.",
            hint="Write module:attribute, where the attribute is made by @click.command().",
        )
    return command


def _find_driven(name: str, words: Sequence[str]) -> Optional[click.Command]:
    """Return the driver's command for the run that some words name; None if it is the core's.
    Raises UsageError if the driver is not installed, or has no such command.
    """
    if name not in EXECUTING:
        return None
    from ..storage.own_folders import is_run
    from ..storage.run_folder import driver_of  # what it imports takes a while

    def may_be_value(place: int) -> bool:
        """Whether a word may be the value of a flag, such as --init-from, and not RUN."""
        flag = words[place - 1] if place else ""
        return flag.startswith("-") and "=" not in flag

    places = [place for place, word in enumerate(words) if is_run(word)]
    folder = words[min(places, key=may_be_value)] if places else ""
    driver = driver_of(folder) if folder else ""
    if not driver:
        return None
    entries = [entry for entry in list_entries("driver") if entry.name == driver]
    commands: Mapping[str, click.Command] = load_command(entries[0]) if entries else {}
    if name not in commands:
        has = f"It has: {', '.join(sorted(commands))}." if commands else "It is not installed."
        raise UsageError(
            f"'{name}' needs a command of the driver '{driver}', which made the steps of {folder}.",
            hint=has,
        )
    return commands[name]


@click.command(
    cls=LazyGroup,
    # Without colour: streams.py would show the codes of plugins' commands as text.
    context_settings={"help_option_names": ["-h", "--help"], "color": False},
)
@click.version_option(__version__, prog_name="toolkit")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Train image classifiers and GANs on TensorFlow's graph runtime.

    Start with: toolkit run classifier
    """
    variable = os.environ.get("TOOLKIT_PLUGIN")
    if variable:  # for every command: what it names is the user's own choice, as of a flag
        choose(variable)
