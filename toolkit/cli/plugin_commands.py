"""Commands that installed packages add to `toolkit`, by two groups of entry points.

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

import os
from typing import Iterable, List, Optional, Sequence, Tuple

import click

from ..errors import ToolkitError, UsageError
from ..plugins import Entry, list_commands, list_drivers, load_command

# They execute what a run is made of; all other commands read its folder alone.
EXECUTING = ("resume", "evaluate", "predict", "sample", "export")


def list_entries(core: Iterable[str]) -> List[Entry]:
    """Return every added command as its metadata describes it; `core`: the core's commands."""
    conflict = {"state": "conflict", "reason": "toolkit has a command of this name"}
    return [e._replace(**conflict) if e.name in core else e for e in list_commands()]


def list_names(core: Iterable[str]) -> List[str]:
    """Return the names of the added commands that can be called."""
    return sorted({entry.name for entry in list_commands()} - set(core))


def load(name: str) -> Optional[click.Command]:
    """Return the command of that name, or None. Raises UsageError, ToolkitError."""
    entries = [entry for entry in list_commands() if entry.name == name]
    if not entries:
        return None
    if len(entries) > 1:
        packages = " and by ".join(entry.distribution for entry in entries)
        text = f"Command '{name}' is offered by {packages}."
        raise UsageError(text, hint="Uninstall one of them.")
    command = load_command(entries[0])
    if not isinstance(command, click.Command):
        raise ToolkitError(
            f"Command '{name}' ({entries[0].target}) is {command!r}, expected a click command.",
            hint="Write module:attribute, where the attribute is made by @click.command().",
        )
    return command


def help_rows(core: Iterable[str]) -> List[Tuple[str, str]]:
    """Return (name, summary) of each added command for `--help`; of a broken one, the reason."""
    rows = []
    for name in list_names(core):
        try:
            command = load(name)
        except ToolkitError as error:
            rows.append((name, "broken: " + error.message))
            continue
        if command is not None and not command.hidden:
            rows.append((name, command.get_short_help_str(limit=100)))
    return rows


def find_driven(name: str, words: Sequence[str]) -> Optional[click.Command]:
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
