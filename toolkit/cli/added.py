"""Commands that installed packages add to `toolkit`: entry points of the group `toolkit.commands`.

    [project.entry-points."toolkit.commands"]
    NAME = "module:click_command"

A name of the core stays the core's. What is broken is told where it is listed or called.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import click

from ..errors import ToolkitError, UsageError
from ..plugins import Entry, list_commands, load_command


def entries(core: Iterable[str]) -> List[Entry]:
    """Every added command as its metadata tells it. core: the names that the core has taken."""
    found = []
    for entry in list_commands():
        if entry.name in core:
            reason = "toolkit has a command of this name"
            entry = entry._replace(state="conflict", reason=reason)
        found.append(entry)
    return found


def names(core: Iterable[str]) -> List[str]:
    """The names that may be called, without the core's."""
    return sorted({entry.name for entry in list_commands()} - set(core))


def load(name: str) -> Optional[click.Command]:
    """The command of that name, or None. Raises UsageError, ToolkitError."""
    rows = [entry for entry in list_commands() if entry.name == name]
    if len(rows) > 1:
        raise UsageError(
            f"Command '{name}' is offered by {' and by '.join(row.distribution for row in rows)}.",
            hint="Uninstall one of them.",
        )
    return _loaded(rows[0]) if rows else None


def _loaded(entry: Entry) -> click.Command:
    try:
        found = load_command(entry)
    except SystemExit as error:
        raise ToolkitError(
            f"Command '{entry.name}' cannot be imported: it ended the process ({error})."
        ) from error
    if not isinstance(found, click.Command):
        raise ToolkitError(
            f"Command '{entry.name}' ({entry.target}) is {found!r}, expected a click command.",
            hint="Write module:attribute, where the attribute is made by @click.command().",
        )
    return found


def rows(core: Iterable[str]) -> List[Tuple[str, str]]:
    """(name, one line) for `--help`, with the reason where a command cannot be called."""
    told: Dict[str, str] = {}
    for name in names(core):
        try:
            command: Any = load(name)
        except ToolkitError as error:
            told[name] = "broken: " + error.message
            continue
        if not command.hidden:
            told[name] = command.get_short_help_str(limit=100)
    return list(told.items())
