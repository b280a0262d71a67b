"""Shared by the commands that use a trained run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, Optional

import click

from ..api import open_trained
from ..cli_options import Command, warn
from ..display.metrics_line import describe_level, describe_omissions, join_metrics

if TYPE_CHECKING:
    from ..inference.trained_model import Trained


def open_with_warnings(path: str, checkpoint: Optional[str]) -> Trained:
    """Open a trained run; warn of each damaged checkpoint that is not used."""
    return open_trained(path, checkpoint, warn)


def tta_option(command: Command) -> Command:
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
    facts = f"{result['examples']} examples, step {result['step']}{describe_level(result)}"
    sys.stdout.write(f"{result['split']:7} {join_metrics(result)}  ({facts})\n")
    for line in [*describe_omissions(result), *result.get("lines", ())]:
        sys.stdout.write(f"{'':8}{line}\n")


def say(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
