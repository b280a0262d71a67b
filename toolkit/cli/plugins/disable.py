"""`toolkit plugins disable NAME` and `toolkit plugins enable NAME`."""

from __future__ import annotations

import sys
from typing import List, Sequence

import click

from ...cli_options import json_option, print_json, writing_output
from ...errors import UsageError, suggest


@click.command()
@click.argument("name")
@json_option
def disable(name: str, as_json: bool) -> None:
    """Disable an installed plugin, extension or command, for this user.

    It is neither loaded nor in conflict with another of its name. NAME@DISTRIBUTION disables that
    of one distribution alone.
    """
    from ...plugins import disabled

    _check_installed(name)
    names = disabled.read_names()
    _write([*names, name])
    return _report(name, "is disabled" if name in names else "disabled", as_json)


@click.command()
@click.argument("name")
@json_option
def enable(name: str, as_json: bool) -> None:
    """Enable what 'toolkit plugins disable' disabled."""
    from ...plugins import disabled

    names = disabled.read_names()
    others = [each for each in names if each != name and each.partition("@")[0] != name]
    if others == names:
        if name.partition("@")[0] in names:
            raise UsageError(
                f"'{name.partition('@')[0]}' is disabled whatever its distribution.",
                hint=f"Enable it: toolkit plugins enable {name.partition('@')[0]}.",
            )
        _check_installed(name)
    else:
        _write(others)
    return _report(name, "is enabled" if others == names else "enabled", as_json)


def _check_installed(name: str) -> None:
    """Refuse a name that nothing has."""
    from ...plugins import list_commands, list_plugins

    entries = list_plugins() + list_commands()
    names = list(dict.fromkeys(entry.name for entry in entries))
    names += [f"{entry.name}@{entry.distribution}" for entry in entries if "@" in name]
    if name not in names:
        raise UsageError(
            f"There is no installed plugin or command '{name}'.", hint=suggest(name, names)
        )


def _write(names: Sequence[str]) -> None:
    from ...plugins import disabled

    path = disabled.list_path()
    if not path:
        raise UsageError("There is no home folder to keep this in.", hint="Set XDG_STATE_HOME.")
    with writing_output(path):
        disabled.write_names(names)


def _report(name: str, change: str, as_json: bool) -> None:
    """Print what is disabled now.

    Args:
        change: "disabled", or "is disabled" if it was before.
    """
    from ...plugins import disabled

    names: List[str] = disabled.read_names()
    if as_json:
        return print_json({"name": name, "disabled": names})
    words = change.split()
    text = f"{name} is {words[1]} already" if len(words) > 1 else f"{change:10}{name}"
    sys.stdout.write(text + "\n")
    return None
