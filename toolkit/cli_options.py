"""Flags and output that all commands share, for the core and for the commands of plugins.

from toolkit import cli_options

@click.command()
@cli_options.json_option
@cli_options.verbose_option
def count(as_json): ...
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, Callable, ContextManager, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Add `--json`, which the command receives as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")(
        command
    )


def verbose_option(command: Command) -> Command:
    """Add `-v`: show TensorFlow's log and tracebacks. It applies before TensorFlow is imported."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_enable_verbose,
        help="Show TensorFlow's log, and tracebacks.",
    )(command)


def _enable_verbose(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        os.environ["TOOLKIT_VERBOSE"] = "1"


def checkpoint_option(command: Command) -> Command:
    """Add `--checkpoint`, whose value `toolkit.open_trained` takes; None by default."""
    return click.option(
        "--checkpoint",
        default=None,
        metavar="best|last|STEP",
        help="Checkpoint to use; default: best if the run has one, else last.",
    )(command)


def print_json(value: Any) -> None:
    """Print a value as JSON on stdout; numbers that are not finite become null."""
    from .files import to_json_value

    text = json.dumps(to_json_value(value), indent=2)
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")  # DEL is no control character of JSON
    sys.stdout.flush()


def optional_output() -> ContextManager[None]:
    """Within the block, what cannot be written to stdout is dropped with a warning.

    For a command whose result is in files, so that its exit code says whether these are complete.
    Elsewhere the command ends with the exit code 138 if stdout is closed or full.
    """
    optional: Callable[[], ContextManager[None]]
    optional = getattr(sys.stdout, "optional", contextlib.nullcontext)
    return optional()


def warn(text: str) -> None:
    """Print a warning on stderr."""
    sys.stderr.write(f"warning: {text}\n")
