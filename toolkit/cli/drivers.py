"""Commands of runs whose steps a driver makes: entry points of the group `toolkit.drivers`.

    [project.entry-points."toolkit.drivers"]
    NAME = "module:attribute"

The attribute maps the names of commands to click commands with the same argument RUN. In place of
the core's own they are called for the runs whose config.json names the driver.
"""

from __future__ import annotations

import os
from typing import Optional, Sequence

import click

from ..errors import UsageError
from ..plugins import list_drivers, load_command

# They execute what a run is made of; all other commands read its folder alone.
EXECUTING = ("resume", "evaluate", "predict", "sample", "export")


def find_command(name: str, words: Sequence[str]) -> Optional[click.Command]:
    """Return the driver's command for the run that some words name; None if it is the core's.

    Args:
        name: of the command.
        words: its arguments, as they were typed.

    Raises:
        UsageError: the driver is not installed, or has no such command.
    """
    if name not in EXECUTING:
        return None
    from ..storage.run_folder import driver_of  # what it imports takes a while

    folder = next((word for word in words if os.path.isdir(word) and driver_of(word)), "")
    if not folder:
        return None
    driver = driver_of(folder)
    entries = [entry for entry in list_drivers() if entry.name == driver]
    if not entries:
        raise UsageError(
            f"The steps of {folder} were made by the driver '{driver}', which is not installed.",
            hint="Install the package that offers it.",
        )
    commands = load_command(entries[0])
    if name not in commands:
        raise UsageError(
            f"'{name}' is no command of runs like {folder}, whose steps the driver '{driver}' "
            "makes.",
            hint=f"It has: {', '.join(sorted(commands))}.",
        )
    command: click.Command = commands[name]
    return command
