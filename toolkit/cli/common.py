"""What several commands share: flags, output, and opening a finished run."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, NamedTuple

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
    from ..files import finite

    sys.stdout.write(json.dumps(finite(value), indent=2) + "\n")
    sys.stdout.flush()


class OpenRun(NamedTuple):
    """A run on disk with its plugins and options loaded. spec: the `DataSpec` it was trained on."""

    folder: Any
    plugins: Any
    options: Any
    spec: Any
    manifest: Dict[str, Any]


def open_trained(path: str) -> OpenRun:
    """Load what a run's folder names. Raises UsageError, CheckpointError or a plugin's error."""
    from ..config import read_run_config
    from ..data.examples import DataSpec
    from ..folder import open_run
    from ..options import resolve
    from ..plugins import Plugins

    folder = open_run(path)
    config = read_run_config(folder)
    plugins = Plugins.load(config.plugin, config.extensions)
    options = resolve(plugins.options(), [(folder.file("config.json"), config.values)]).options
    manifest = folder.read_manifest()
    return OpenRun(folder, plugins, options, DataSpec.from_json(manifest["data"]["spec"]), manifest)


def choose_checkpoint(trained: OpenRun, which):
    """The checkpoint that the flag names, or the best, or the last one."""
    if which is None:
        which = "best" if trained.manifest.get("best") else "last"
    return trained.folder.checkpoint(
        which, lambda text: sys.stderr.write("warning: " + text + "\n")
    )
