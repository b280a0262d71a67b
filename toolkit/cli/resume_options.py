"""The plugins that the saved configuration of a run names, before click has read the arguments."""

from __future__ import annotations

import os

from .. import config as configuration
from ..storage.run_folder import RunFolder, open_run
from ..storage.source_copies import naming_copies
from .plugin_command import Words
from .plugin_options import NO_SELECTION, Selection, load_selection


def select_run(words: Words) -> Selection:
    """Load the plugins of the run in the arguments."""
    path = find_run(words)
    if not path or words.all("--help"):
        return NO_SELECTION
    return select_from_run(open_run(path, allow_unstarted=True), ["", *words.all("--from")][-1])


def find_run(words: Words) -> str:
    """Return the argument that names the run, before the flags of its plugin are known."""
    return words.argument(lambda word: os.path.isfile(os.path.join(word, "manifest.json")))


def select_from_run(folder: RunFolder, step: str = "") -> Selection:
    """Return the selection that the saved configuration of a run names.

    Args:
        folder: of the run.
        step: at which a branch begins, with the configuration of then; "" for the newest one.
    """
    if step.isdecimal():  # click refuses what is no number
        from ..storage.branch import find_branch_point

        values = find_branch_point(folder, int(step)).config(folder)
        config = configuration.parse_values(folder.path, values, folder.file("config.json"))
    else:
        config = configuration.read_run_config(folder)
    with naming_copies(folder):
        return load_selection(
            config.plugin,
            config.extensions,
            dict.fromkeys(config.references, os.path.join(str(folder), "config.json")),
            [config],
        )
