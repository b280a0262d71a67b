"""`toolkit plugins`: list, show, write, check, disable and enable plugins.

list: the installed plugins.
show: one plugin: its options, hooks and model, and where its code is.
check: the contracts that a plugin keeps.
disable: disable and enable a plugin.
new: the folder of a new plugin, from the templates in `toolkit/templates`.
"""

from __future__ import annotations

import click

from ...cli_options import HelpGroup
from .check import check
from .disable import disable, enable
from .list import list_
from .new import new
from .show import show


@click.group(cls=HelpGroup)
def plugins() -> None:
    """List, show, check and disable plugins, and start new ones."""


for command in (list_, show, new, check, disable, enable):
    plugins.add_command(command)
