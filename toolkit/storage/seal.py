"""The seal: the entry of the commit log at the end of a finished run, for all that people quote.

It contains the manifest, with one hash for the table of the data's files, and the hashes of the
reports. The manifest is written after it, so it is never ahead of the commit log.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, Iterable, Iterator, List

from ..files import sha256_of, to_json_value
from .folder import Folder
from .jsonl import FileDigest


def seal_values(folder: Folder, manifest: Dict[str, Any], reports: str) -> Dict[str, Any]:
    """What a seal contains besides `kept`.

    Args:
        folder: of the run.
        manifest: as it is written afterwards.
        reports: the path of the reports in the run folder; '' if there are none.
    """
    names = sorted(_list_files(folder, reports)) if reports else []
    return {
        "step": manifest["step"],
        "manifest": _sealed_part(to_json_value(manifest)),
        "reports": {name: _digest(folder.file(*name.split("/")))._asdict() for name in names},
    }


def find_changes(
    folder: Folder, manifest: Dict[str, Any], seal: Dict[str, Any], pending: Iterable[str] = ()
) -> List[str]:
    """The values of the manifest, and the reports, that are not as they were sealed; a clause each.

    Args:
        folder: of the run.
        manifest: as it is now.
        seal: the values of the entry.
        pending: the names of values that the manifest need not have yet.
    """
    sealed, values = dict(seal["manifest"]), dict(_sealed_part(manifest))
    for name in pending:
        if values.get(name) is None:
            sealed.pop(name, None)
            values.pop(name, None)
    changes = list(_compare(sealed, values))
    for name, digest in sorted(seal["reports"].items()):
        fault = _find_damage(folder.file(*name.split("/")), FileDigest(**digest))
        if fault:
            changes.append(f"{_escape(name)} {fault}")
    return changes


def _sealed_part(manifest: Dict[str, Any]) -> Dict[str, Any]:
    """The manifest with one hash in place of the table of the data's files, which may be long."""
    data = manifest.get("data")
    if not isinstance(data, dict) or "sha256" not in data:
        return manifest
    text = json.dumps(data["sha256"], sort_keys=True)
    table = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return dict(manifest, data=dict(data, sha256=table))


def _list_files(folder: Folder, place: str) -> Iterator[str]:
    """The files below a folder, as paths in the run folder with "/"."""
    for path, _, names in os.walk(folder.file(place)):
        for name in names:
            relative = os.path.relpath(os.path.join(path, name), folder.path)
            yield relative.replace(os.sep, "/")


def _digest(path: str) -> FileDigest:
    return FileDigest(os.path.getsize(path), sha256_of(path))


def _find_damage(path: str, digest: FileDigest) -> str:
    """What happened to a file, as a clause; '' if nothing."""
    try:
        return "" if _digest(path) == digest else "has changed since it was sealed"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _compare(sealed: Any, value: Any, place: str = "") -> Iterator[str]:
    """Each value that differs, by its place in the manifest."""
    if isinstance(sealed, dict) and isinstance(value, dict):
        for name in sorted(set(sealed) | set(value)):
            inner = f"{place}.{_escape(name)}".lstrip(".")
            if name not in value:
                yield f"{inner} is missing, sealed as {_format(sealed[name])}"
            elif name not in sealed:
                yield f"{inner} is {_format(value[name])}, which was not sealed"
            else:
                yield from _compare(sealed[name], value[name], inner)
    elif _format(sealed, None) != _format(value, None):
        yield f"{place} is {_format(value)}, sealed as {_format(sealed)}"


def _escape(name: str) -> str:
    """A name as in JSON, which stays in its line."""
    return json.dumps(name, ensure_ascii=False)[1:-1]


def _format(value: Any, length: Any = 80) -> str:
    """A value as JSON, which has no control characters, cut to a length (None: not cut)."""
    text = json.dumps(value, sort_keys=True)
    return text if length is None or len(text) <= length else text[: length - 3] + "..."
