"""The commands of `toolkit` by name. The module of a command is imported when it is used.

After the core's own commands come those of installed packages, see `plugin_commands`.
"""

from __future__ import annotations

import difflib
import importlib
import os
from typing import List, Optional

import click

from .. import __version__
from ..cli_options import HelpGroup
from ..errors import InterruptedRun, ToolkitError, UsageError
from ..plugins import choose, describe_failure
from . import plugin_commands
from .streams import OutputError

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
    "data": ("data", "List data sources, and check data."),
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


class LazyGroup(HelpGroup):
    """A group that knows the names and summaries of its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(COMMANDS) + plugin_commands.list_names(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> Optional[click.Command]:
        if name not in COMMANDS:
            return plugin_commands.load(name)
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
        driven = plugin_commands.find_driven(name, args[1:])
        return (name, driven, args[1:]) if driven else super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context):
        try:
            return super().invoke(ctx)
        except (ToolkitError, click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError as error:  # click would exit with 1
            raise OutputError(error) from error
        except KeyboardInterrupt:  # click would print an empty line
            raise InterruptedRun("Interrupted.") from None
        except Exception as error:
            if isinstance(error, FileNotFoundError):
                _refuse_missing_directory()
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
        rows = plugin_commands.help_rows(COMMANDS)
        if rows:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)


def _refuse_missing_directory() -> None:
    try:
        os.getcwd()
    except FileNotFoundError as error:
        text = "The working directory no longer exists."
        raise UsageError(text, hint="Change to another folder.") from error


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
