"""Which folders belong to runs and studies, by the names of the files in them."""

from __future__ import annotations

import os
from typing import Collection, Optional

from .folder_lock import LOCK

CONFIG, MANIFEST, COMMITS = "config.json", "manifest.json", "commits.jsonl"
STUDY = "study.json"
_OF_STUDIES = ("table.json", "trials")


def is_run_listing(names: Collection[str]) -> bool:
    """Whether a folder with files of these names is that of a run, perhaps a damaged one.

    Other software has files config.json and manifest.json, too, but not both; a run that has not
    started has a file .lock beside its config.json.
    """
    present = {CONFIG, MANIFEST, COMMITS, LOCK}.intersection(names)
    is_begun = CONFIG in present and len(present) > 1
    return is_begun or COMMITS in present


def find_owner(path: str) -> Optional[str]:
    """The folder of the run or of the study in which an absolute path without symbolic links is or
    would be; None if it is in neither.
    """
    folder = os.path.dirname(path)
    while True:
        if is_run(folder):
            return folder
        if _list_present(folder, (STUDY,)) and _list_present(folder, _OF_STUDIES):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def is_run(folder: str) -> bool:
    """Whether a folder is that of a run, perhaps a damaged one."""
    return is_run_listing(_list_present(folder, (CONFIG, MANIFEST, COMMITS, LOCK)))


def _list_present(folder: str, names: Collection[str]) -> Collection[str]:
    """Which of the names exist; a folder on the way may not be listed, but its files may be."""
    return [name for name in names if os.path.lexists(os.path.join(folder, name))]
