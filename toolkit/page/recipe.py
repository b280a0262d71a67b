"""The command that trains a run again, and what else that takes."""

from __future__ import annotations

import os
from typing import List, Sequence, Tuple

from ..comparison.differences import find_option_changes
from ..comparison.record import RunRecord
from ..options import map_reference
from ..storage.commit_log import Entry
from ..storage.entries import Parent
from ..storage.folder import shell_argument


def find_place(record: RunRecord) -> str:
    """The folder of a run for a shell: as the user named it, else as the console does."""
    place = record.name if os.sep in record.name else os.path.join("runs", record.name)
    for before, word in zip(record.argv, [*record.argv[1:], ""]):
        if before == "--run-dir" or before.startswith("--run-dir="):
            place = before.partition("=")[2] or word
    return shell_argument(place)


def describe_recipe(record: RunRecord, entries: Sequence[Entry]) -> Tuple[str, List[str]]:
    """The command that trains a run again, by the options in its folder, and what else it takes."""
    sessions = [entry.values for entry in entries if entry.is_session]
    branches = [entry.values for entry in entries if entry.values.get("kind") == "branch"]
    branch = Parent.from_json(branches[-1].get("parent")) if branches else None
    weights = Parent.from_json(record.manifest.get("parent"))
    place = find_place(record)
    command = f"toolkit run --config {place}/config.json --run-dir {place}-again"
    needs = []
    if branch is not None:
        command = f"toolkit resume {shell_argument(branch.name)} --from {branch.step}"
        needs.append(f"{branch.sentence()[:-1]}; it needs that run, and the options below.")
    if weights is not None and record.options.get("init_from"):
        needs.append(f"{weights.sentence()[:-1]}, which it needs.")
    if any(find_option_changes(*pair) for pair in zip(sessions, sessions[1:])):
        needs.append("One command is not enough: a resume changed options, as the events say.")
    plugins = (record.plugin, *record.extensions)
    if any(map_reference(name, lambda path: "") == "" for name in plugins):
        needs.append("The code of a file is as it is now; the folder of the run has that of then.")
    return command, needs
