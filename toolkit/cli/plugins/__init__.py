"""`toolkit plugins`: list, show, check and write plugins.

list: the installed plugins.
show: one plugin: its options, hooks and model, and where its code is.
check: the contracts that a plugin keeps.
new: the folder of a new plugin, from the templates in `toolkit/templates`.
"""

from __future__ import annotations

import click

from ...cli_options import HelpGroup
from .check import check
from .list import list_
from .new import new
from .show import show


@click.group(cls=HelpGroup)
def plugins() -> None:
    """List, show and check plugins, and start new ones."""


for command in (list_, show, new, check):
    plugins.add_command(command)
