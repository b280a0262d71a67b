"""`toolkit plugins list` and `toolkit plugins show NAME`."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Sequence

import click

from ..cli_options import HelpGroup, json_option, print_json, verbose_option


@click.group(cls=HelpGroup)
def plugins() -> None:
    """List plugins, and show their hooks and options."""


@plugins.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the installed plugins, extensions and commands of plugins.

    Only the metadata of packages is read; no plugin is imported.
    """
    from ..plugins import list_plugins
    from .app import COMMANDS
    from .plugin_commands import list_entries

    entries = list_plugins() + list_entries(COMMANDS)
    if as_json:
        return print_json([dict(entry._asdict()) for entry in entries])
    rows = [("NAME", "KIND", "DISTRIBUTION", "VERSION", "STATE")]
    for entry in entries:
        state = entry.state + (": " + entry.reason if entry.reason else "")
        rows.append((entry.name, entry.kind, entry.distribution, entry.version, state))
    _print_table(rows)
    return None


@plugins.command()
@click.argument("name")
@json_option
@verbose_option
def show(name: str, as_json: bool) -> int:
    """Show the file, hooks and options of a plugin.

    NAME is a plugin as for --plugin or --with of 'toolkit run'.
    """
    facts = _describe(name)
    if as_json:
        print_json(facts)
    else:
        _print_facts(facts)
    return 0 if facts["state"] == "ok" else 1


def _describe(name: str) -> Dict[str, Any]:
    from ..errors import ToolkitError, UsageError
    from ..options import describe
    from ..plugins import Plugins, hook_names, list_plugins, load

    entries = [entry for entry in list_plugins() if entry.name == name]
    kind = entries[0].kind if entries else "model"
    facts: Dict[str, Any] = {"name": name, "kind": kind, "distribution": "", "version": ""}
    facts.update(state="ok", reason="", file="", hooks=[], options=[])
    if entries:
        facts.update(distribution=entries[0].distribution, version=entries[0].version)
    try:
        plugin = load(name, kind)
        classes = Plugins(plugin).options()
    except UsageError as error:
        if not entries and not _exists(name):
            raise
        conflict = len(entries) > 1
        return dict(facts, state="conflict" if conflict else "broken", reason=str(error))
    except ToolkitError as error:
        return dict(facts, state="broken", reason=str(error))
    fields = [dict(field._asdict()) for _, cls in classes for field in describe(cls)]
    return dict(facts, file=plugin.file, hooks=hook_names(plugin), options=fields)


def _exists(name: str) -> bool:
    """Whether a reference that is no installed name has a file or a module behind it."""
    from ..errors import UsageError
    from ..plugins import is_name, locate

    try:
        return not is_name(name) and bool(locate(name))
    except UsageError:
        return False


def _print_facts(facts: Dict[str, Any]) -> None:
    for key in ("name", "kind", "distribution", "version", "file", "state", "reason"):
        if facts[key]:
            sys.stdout.write(f"{key:13}{facts[key]}\n")
    if facts["hooks"]:
        sys.stdout.write(f"{'hooks':13}{', '.join(facts['hooks'])}\n")
    if facts["options"]:
        sys.stdout.write("\n")
        _print_options(facts["options"])


def _print_options(fields: List[Dict[str, Any]]) -> None:
    rows = [("OPTION", "TYPE", "DEFAULT", "LIMITS", "UNIT", "")]
    for field in fields:
        default = "none" if field["default"] is None else str(field["default"])
        limits, unit = field["limits"], field["unit"]
        rows.append((field["name"], field["type"], default, limits, unit, field["help"]))
    _print_table(rows)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
