"""`toolkit plugins list` and `toolkit plugins show NAME`."""

from __future__ import annotations

import sys
from typing import Any, Dict, List

import click

from .common import json_option, print_json, verbose_option


@click.group()
def plugins():
    """List plugins and show what they offer."""


@plugins.command("list")
@json_option
def list_(as_json):
    """Every installed plugin, extension and added command, from its metadata alone."""
    from ..plugins import list_plugins
    from .added import entries as commands
    from .app import COMMANDS

    entries = list_plugins() + commands(COMMANDS)
    if as_json:
        return print_json([dict(e._asdict()) for e in entries])
    rows = [("NAME", "KIND", "DISTRIBUTION", "VERSION", "STATE")]
    for e in entries:
        state = e.state + (": " + e.reason if e.reason else "")
        rows.append((e.name, e.kind, e.distribution, e.version, state))
    _print_table(rows)
    return None


@plugins.command()
@click.argument("name")
@json_option
@verbose_option
def show(name, as_json):
    """Where a plugin comes from, its hooks and its options. NAME as for --plugin and --with."""
    shown = _describe(name)
    if as_json:
        print_json(shown)
    else:
        _print_shown(shown)
    return 0 if shown["state"] == "ok" else 1


def _describe(name: str) -> Dict[str, Any]:
    from ..errors import ToolkitError, UsageError
    from ..plugins import Plugins, implemented_hooks, list_plugins, load

    entries = [e for e in list_plugins() if e.name == name]
    kind = entries[0].kind if entries else "model"
    shown: Dict[str, Any] = {"name": name, "kind": kind, "distribution": "", "version": ""}
    shown.update(state="ok", reason="", file="", hooks=[], options=[])
    if entries:
        shown.update(distribution=entries[0].distribution, version=entries[0].version)
    try:
        plugin = load(name, kind)
        classes = Plugins(plugin).options()
    except UsageError as error:
        if not entries and not _names_a_file_or_module(name):
            raise
        conflict = len(entries) > 1
        shown.update(state="conflict" if conflict else "broken", reason=str(error))
        return shown
    except ToolkitError as error:
        shown.update(state="broken", reason=str(error))
        return shown
    shown.update(file=plugin.file, hooks=implemented_hooks(plugin))
    shown["options"] = [field for _, cls in classes for field in _fields(cls)]
    return shown


def _names_a_file_or_module(name: str) -> bool:
    return ":" in name or name.endswith(".py")


def _fields(cls) -> List[Dict[str, Any]]:
    from ..options import describe

    return [dict(field._asdict()) for field in describe(cls)]


def _print_shown(shown: Dict[str, Any]) -> None:
    for key in ("name", "kind", "distribution", "version", "file", "state", "reason"):
        if shown[key]:
            sys.stdout.write(f"{key:13}{shown[key]}\n")
    if shown["hooks"]:
        sys.stdout.write(f"{'hooks':13}{', '.join(shown['hooks'])}\n")
    if shown["options"]:
        sys.stdout.write("\n")
        rows = [("OPTION", "TYPE", "DEFAULT", "LIMITS", "UNIT", "")]
        for f in shown["options"]:
            default = "none" if f["default"] is None else str(f["default"])
            rows.append((f["name"], f["type"], default, f["limits"], f["unit"], f["help"]))
        _print_table(rows)


def _print_table(rows) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = ["{:{}}".format(cell, width) for cell, width in zip(row, widths)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
