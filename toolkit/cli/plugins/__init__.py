"""`toolkit plugins`: list, show, check and write plugins.

list: the installed plugins.
show: one plugin: its options, hooks and model, and where its code is.
check: the contracts that a plugin keeps.
new: the folder of a new plugin, from the templates in `toolkit/templates`.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import click

from ...cli_options import HelpGroup, json_option
from ...display.table import format_table
from ...plugins import list_entries
from ..common import print_result
from .check import check
from .new import new
from .show import show


@click.group(cls=HelpGroup)
def plugins() -> None:
    """List, show and check plugins, and start new ones."""


@plugins.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the installed plugins, extensions and commands of plugins.

    Only the metadata of packages is read; no plugin is imported.
    """
    entries = list_entries("model", "extension") + list_entries("command")
    print_result(as_json, [dict(entry._asdict()) for entry in entries], _describe(entries))


def _describe(entries: Sequence[Any]) -> Iterator[str]:
    header = ("NAME", "KIND", "DISTRIBUTION", "VERSION", "STATE")
    states = [each.state + (": " + each.reason if each.reason else "") for each in entries]
    rows = [
        (each.name, each.kind, each.distribution, each.version, state)
        for each, state in zip(entries, states)
    ]
    yield from format_table(header, rows)


for command in (show, new, check):
    plugins.add_command(command)
