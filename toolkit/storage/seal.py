"""The seal: the entry at the end of a finished run, for all that people quote of it: the summary,
the length of `metrics.jsonl`, and the hashes of the reports.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List

from ..files import sha256_of
from .folder import Folder
from .jsonl import FileDigest


def hash_reports(folder: Folder, place: str) -> Dict[str, Any]:
    """The size and hash of each file below a folder, by its path in the run folder with "/".

    Args:
        folder: of the run.
        place: the path of the reports in it; '' for none.
    """
    paths = [
        os.path.join(path, name)
        for path, _, names in os.walk(folder.file(place) if place else "")
        for name in names
    ]
    names = {os.path.relpath(path, folder.path).replace(os.sep, "/"): path for path in paths}
    return {name: dict(_digest(names[name])._asdict()) for name in sorted(names)}


def find_report_faults(folder: Folder, seal: Dict[str, Any]) -> List[str]:
    """The reports that are not as they were sealed, a clause each."""
    faults = []
    for name, digest in sorted(seal["reports"].items()):
        try:
            is_same = _digest(folder.file(*name.split("/"))) == FileDigest(**digest)
            fault = "" if is_same else "has changed since it was sealed"
        except FileNotFoundError:
            fault = "is missing"
        except OSError as error:
            fault = f"cannot be read ({error.strerror})"
        if fault:
            faults.append(f"{name} {fault}")
    return faults


def _digest(path: str) -> FileDigest:
    return FileDigest(os.path.getsize(path), sha256_of(path))
