"""What several commands share: flags, output, and opening a finished run."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click


def verbose_option(command):
    """`-v`: TensorFlow's own log, and tracebacks. Takes effect before TensorFlow is imported."""

    def enable(ctx, param, value):
        if value:
            os.environ["TOOLKIT_VERBOSE"] = "1"

    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=enable,
        help="Show TensorFlow's log, and tracebacks.",
    )(command)


def json_option(command):
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")(
        command
    )


def checkpoint_option(command):
    return click.option(
        "--checkpoint",
        default=None,
        metavar="best|last|STEP",
        help="Which checkpoint; default: best where there is one, else last.",
    )(command)


def print_json(value: Any) -> None:
    from ..files import to_json_value

    sys.stdout.write(json.dumps(to_json_value(value), indent=2) + "\n")
    sys.stdout.flush()


def opened(path: str, checkpoint):
    """The `Trained` that the arguments name. Damaged checkpoints that are passed over are told."""
    from ..api import open_trained

    return open_trained(path, checkpoint, lambda text: sys.stderr.write("warning: " + text + "\n"))


def print_lines(lines) -> None:
    """What scorers have to tell, below the line of the metrics."""
    for line in lines:
        sys.stdout.write(f"{'':8}{line}\n")
