"""Commands that installed packages add to `toolkit`: entry points of the group `toolkit.commands`.

    [project.entry-points."toolkit.commands"]
    NAME = "module:click_command"

A command of the core takes precedence over one of the same name. A broken command is reported where
it is listed or called.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Tuple

import click

from ..errors import ToolkitError, UsageError
from ..plugins import Entry, list_commands, load_command


def list_entries(core: Iterable[str]) -> List[Entry]:
    """Return every added command as its metadata describes it.

    Args:
        core: the names of the core's commands.
    """
    return [_mark_conflict(entry) if entry.name in core else entry for entry in list_commands()]


def _mark_conflict(entry: Entry) -> Entry:
    return entry._replace(state="conflict", reason="toolkit has a command of this name")


def list_names(core: Iterable[str]) -> List[str]:
    """Return the names of the added commands that can be called."""
    return sorted({entry.name for entry in list_commands()} - set(core))


def load(name: str) -> Optional[click.Command]:
    """Return the command of that name, or None. Raises UsageError, ToolkitError."""
    entries = [entry for entry in list_commands() if entry.name == name]
    if len(entries) > 1:
        packages = " and by ".join(entry.distribution for entry in entries)
        raise UsageError(
            f"Command '{name}' is offered by {packages}.", hint="Uninstall one of them."
        )
    return _import_command(entries[0]) if entries else None


def _import_command(entry: Entry) -> click.Command:
    command = load_command(entry)
    if not isinstance(command, click.Command):
        raise ToolkitError(
            f"Command '{entry.name}' ({entry.target}) is {command!r}, expected a click command.",
            hint="Write module:attribute, where the attribute is made by @click.command().",
        )
    return command


def help_rows(core: Iterable[str]) -> List[Tuple[str, str]]:
    """Return (name, summary) of each added command for `--help`; of a broken one, the reason."""
    summaries: Dict[str, str] = {}
    for name in list_names(core):
        try:
            command = load(name)
        except ToolkitError as error:
            summaries[name] = "broken: " + error.message
            continue
        if command is not None and not command.hidden:
            summaries[name] = command.get_short_help_str(limit=100)
    return list(summaries.items())
