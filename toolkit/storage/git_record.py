"""What a run records of the git work trees of its plugins, and the changes in `sources/`.

Each state is `{"plugins": [...], "commit": ..., "branch": ..., "is_dirty": ..., "is_complete": ...,
"changes": null or {"file": "sources/changes-1a2b3c4d.diff", "bytes": ..., "sha256": ...}}`.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, Dict, Iterable, List

from ..files import atomic_write, sha256_of
from .folder import Folder
from .source_copies import SOURCES

GIT = "git"
_FILE = re.compile(SOURCES + r"/changes-[0-9a-f]{8}\.diff")
_TEXT = (str, type(None))


def describe_changes(difference: bytes) -> Any:
    """Where the changes of a work tree are written; None if there are none."""
    if not difference:
        return None
    digest = hashlib.sha256(difference).hexdigest()
    file = f"{SOURCES}/changes-{digest[:8]}.diff"
    return {"file": file, "bytes": len(difference), "sha256": digest}


def write_changes(folder: Folder, difference: bytes) -> None:
    """Write the changes of a work tree, if there are any and the run does not have them.

    Raises:
        RetryError: the folder cannot be written.
    """
    changes = describe_changes(difference)
    if changes is None or os.path.isfile(folder.file(*changes["file"].split("/"))):
        return
    with folder.writing():
        folder.make_subfolder(SOURCES)
        with atomic_write(folder.file(*changes["file"].split("/")), durable=True) as file:
            file.write(difference)


def is_valid(values: Any) -> bool:
    """Whether the value of an entry or a manifest is a list of such states."""
    return isinstance(values, list) and all(map(_is_state, values))


def _is_state(values: Any) -> bool:
    return (
        isinstance(values, dict)
        and isinstance(values.get("plugins"), list)
        and all(isinstance(name, str) for name in values["plugins"])
        and isinstance(values.get("commit"), _TEXT)
        and isinstance(values.get("branch"), _TEXT)
        and isinstance(values.get("is_dirty"), (bool, type(None)))
        and isinstance(values.get("is_complete"), bool)
        and _are_changes(values.get("changes"))
    )


def _are_changes(values: Any) -> bool:
    return values is None or (
        isinstance(values, dict)
        and isinstance(values.get("file"), str)
        and bool(_FILE.fullmatch(values["file"]))
        and isinstance(values.get("bytes"), int)
        and isinstance(values.get("sha256"), str)
    )


def find_faults(folder: Folder, sessions: Iterable[Dict[str, Any]]) -> List[str]:
    """The files of changes that are not as their sessions recorded them, a clause each."""
    faults: Dict[str, None] = {}
    for session in sessions:
        for state in session.get(GIT) or ():
            changes = state.get("changes")
            fault = _find_damage(folder, changes) if changes else ""
            if fault:
                faults[f"{changes['file']} {fault}"] = None
    return list(faults)


def _find_damage(folder: Folder, changes: Dict[str, Any]) -> str:
    try:
        is_same = sha256_of(folder.file(*changes["file"].split("/"))) == changes["sha256"]
        return "" if is_same else "is not the file that its session recorded"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
