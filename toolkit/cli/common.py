"""Shared by the commands: how a flag is declared, and how a result is printed."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Iterable, Tuple, Union

import click

from .. import cli_options as shared
from ..display.escapes import escape_line
from ..display.numbers import describe_level, describe_omissions, format_count, join_metrics


def flag(names: str, metavar: str, text: str, type: Any = None, **more: Any) -> Callable:
    """A flag of a command: `--out`, `-o --out` or `--where wheres`, its last word the parameter if
    it has no dash; what stands for its value; and its line of the help, without the default.
    """
    if more.get("default") is not None:
        text = f"{text[:-1]} [default {more['default']}]."
    return click.option(*names.split(), type=type, metavar=metavar, help=text, **more)


def switch(names: str, text: str) -> Callable:
    """A flag without a value, named as by `flag`; False by default."""
    return click.option(*names.split(), is_flag=True, help=text)


def output_flags(command: shared.Command) -> shared.Command:
    """Add `--json` and `-v`."""
    return shared.json_option(shared.verbose_option(command))


def model_flags(command: shared.Command) -> shared.Command:
    """Add what the commands share that execute plugins: `--trust`, `--json` and `-v`."""
    return shared.trust_option(output_flags(command))


def tta_option(command: shared.Command) -> shared.Command:
    """Add `--tta/--no-tta`, whose value `Trained.set_tta` takes; None by default."""
    return click.option(
        "--tta/--no-tta",
        default=None,
        help="Test-time augmentation: predict with the mean over several views of each image; "
        "default: as in the run.",
    )(command)


def print_metrics(result: Dict[str, Any]) -> None:
    """Print the lines of an evaluation: split, metrics, number of examples and step; below them
    those of a plugin's scorers.
    """
    count = format_count(result["examples"], "example")
    facts = f"{count}, step {result['step']}{describe_level(result)}"
    sys.stdout.write(f"{result['split']:7} {join_metrics(result)}  ({facts})\n")
    for line in [*describe_omissions(result), *result.get("lines", ())]:
        sys.stdout.write(f"{'':8}{line}\n")


def print_result(
    as_json: bool,
    facts: Any,
    lines: Iterable[Union[str, Tuple[str, str]]],
    width: int = 0,
) -> None:
    """Print what a command found: the facts as JSON, or the lines, texts or titles (of a width)
    with a text, each in a line.
    """
    if as_json:
        shared.print_json(facts)
    else:
        print_lines(lines, width)


def print_lines(lines: Iterable[Union[str, Tuple[str, str]]], width: int = 0) -> None:
    """Print texts, or titles of this width with a text, each in its line."""
    for line in lines:
        text = line if isinstance(line, str) else f"{line[0]:{width - 1}} {line[1]}".rstrip()
        sys.stdout.write(escape_line(text) + "\n")


def say(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
