"""The commands of `toolkit`, by name; the module of each is imported when it is used.

Behind the core's own come those that installed packages add, see `added`.
"""

from __future__ import annotations

import difflib
import importlib

import click

from .. import __version__
from ..errors import ToolkitError
from ..plugins import summarize_exception
from . import added

# name -> (module, one line for --help)
COMMANDS = {
    "run": ("run", "Train a plugin's model."),
    "resume": ("run", "Go on with a run where it was."),
    "evaluate": ("evaluate", "Measure a trained model on a split."),
    "predict": ("predict", "Apply a trained model to files."),
    "export": ("export", "Write a trained model as a SavedModel."),
    "verify": ("verify", "Prove that a run is what its folder says."),
    "doctor": ("doctor", "Say what state a run is in, and what can be done."),
    "plugins": ("plugins", "List plugins and show what they offer."),
    "data": ("data", "List data sources and check data."),
}

# What a command may raise to end as it likes.
PASSED_ON = (
    ToolkitError,
    click.ClickException,
    click.exceptions.Exit,
    click.Abort,
    BrokenPipeError,
)


class LazyGroup(click.Group):
    """Knows its commands' names and summaries without importing the core's."""

    def list_commands(self, ctx):
        return list(COMMANDS) + added.names(COMMANDS)

    def get_command(self, ctx, name):
        if name not in COMMANDS:
            return added.load(name)
        module = importlib.import_module("toolkit.cli." + COMMANDS[name][0])
        return getattr(module, name)

    def resolve_command(self, ctx, args):
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            known = self.list_commands(ctx)
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"Did you mean '{close[0]}'?" if close else ""
                known = f"Commands: {', '.join(known)}."
                raise click.UsageError(f"There is no command '{name}'.\n{hint or known}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except PASSED_ON:
            raise
        except Exception as error:
            name = ctx.invoked_subcommand
            if name is None or name in COMMANDS:
                raise  # a fault of ours
            raise ToolkitError(
                f"Command '{name}' failed: {summarize_exception(error)}.",
                hint="Set TOOLKIT_VERBOSE=1 for the traceback.",
            ) from error

    def format_commands(self, ctx, formatter):
        with formatter.section("Commands"):
            formatter.write_dl([(name, row[1]) for name, row in COMMANDS.items()])
        more = added.rows(COMMANDS)
        if more:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(more)


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="toolkit")
@click.pass_context
def app(ctx):
    """Train image classifiers and GANs on TensorFlow's graph runtime.

    Start with: toolkit run --plugin classifier
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
