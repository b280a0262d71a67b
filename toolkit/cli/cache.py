"""`toolkit cache list` and `toolkit cache clear`."""

from __future__ import annotations

import sys
import time
from typing import List, Sequence

import click

from ..cli_options import HelpGroup, json_option, warn
from ..display.numbers import format_bytes
from .common import print_result, switch


@click.group(cls=HelpGroup)
def cache() -> None:
    """List and remove downloads and converted data."""


@cache.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List what is in the cache: its size, and when it was written."""
    from ..data.files.cache import cache_folder

    entries = _entries()
    dates = [time.strftime("%Y-%m-%d", time.localtime(each.last_change)) for each in entries]
    rows = [(each.num_bytes, f"{date}  {each.name}") for each, date in zip(entries, dates)]
    rows.append((sum(entry.num_bytes for entry in entries), f"in {cache_folder()}"))
    lines = [f"{format_bytes(size):>10}  {text}" for size, text in rows]
    print_result(as_json, [dict(entry._asdict()) for entry in entries], lines)


@cache.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@switch("--all everything", "Remove everything that the list names.")
def clear(names: Sequence[str], everything: bool) -> None:
    """Remove entries of the cache, by the names that the list gives.

    A name without a slash removes all that it holds, for example 'decoded'. What is removed is
    downloaded or computed again when it is needed, but for 'arrays': those that a Python program
    gave, which runs that were trained on them need until it gives them again.
    """
    from ..data.files.cache import remove_entries
    from ..storage.folder_lock import is_locked

    if bool(names) == everything:
        raise click.UsageError("Name entries of 'toolkit cache list', or write --all.")
    entries = _entries()
    names = [entry.name for entry in entries] if everything else names
    removed, in_use = remove_entries(entries, names, is_locked)
    total = format_bytes(sum(entry.num_bytes for entry in removed))
    for entry in in_use:
        warn(f"{entry.name} stays: a process uses it")
    sys.stdout.write(f"removed {len(removed)} entries, {total}\n")


def _entries() -> List:
    from ..data.arrays.download import DATASETS
    from ..data.files.cache import list_entries

    return list_entries({name: d.files for name, d in DATASETS.items()})
