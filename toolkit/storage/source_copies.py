"""Copies of the plugins' sources in a run folder, `sources/`.

Each version of a plugin that trained the run has a folder there, `sources/NAME-1a2b3c4d`, whose
name ends in a hash of its files: a session with other code adds a folder, and one with the same
code adds nothing. The hash of each file is in the session's entry of the commit log, and so is
where the copies are: `{"folder": ..., "omitted": [...]}`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple

from ..errors import InterruptedRun, ToolkitError
from ..files import TEMPORARY_PREFIX, sync
from .jsonl import find_damage
from .run_folder import RunFolder

SOURCES = "sources"


class SourceCopy(NamedTuple):
    """The copies of the sources of one plugin, as a session's entry records them."""

    folder: str  # its name in `sources`
    omitted: List[str]  # the files without a copy

    @property
    def place(self) -> str:
        """The path of the copies in the run folder."""
        return f"{SOURCES}/{self.folder}"


def read_copies(session: Dict[str, Any]) -> Dict[str, SourceCopy]:
    """The copies of a session by the plugin's name."""
    return {name: SourceCopy(**values) for name, values in (session.get(SOURCES) or {}).items()}


# ------------------------------------------------------------------------------------------ write


def write_copies(
    folder: RunFolder, name: str, hashes: Dict[str, str], read: Callable[[str], bytes]
) -> SourceCopy:
    """Copy the sources of a plugin to the folder of a run, unless it has them. `hashes` has the
    SHA-256 of each file by its path, and `read` returns its contents. Raises RetryError if the
    folder cannot be written.
    """
    digest = hashlib.sha256(json.dumps([name, hashes], sort_keys=True).encode("ascii")).hexdigest()
    version = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:60] or '_'}-{digest[:8]}"
    path = folder.file(SOURCES, version)
    with folder.writing():
        if not os.path.isdir(path):
            _write_version(folder.make_subfolder(SOURCES), version, hashes, read)
        omitted = [each for each in hashes if not os.path.isfile(_join(path, each))]
    return SourceCopy(version, sorted(omitted))


def _write_version(
    root: str, version: str, hashes: Dict[str, str], read: Callable[[str], bytes]
) -> None:
    """Write a version as a whole: a folder with its name is complete."""
    part = os.path.join(root, TEMPORARY_PREFIX + secrets.token_hex(8))
    os.mkdir(part)
    try:
        for name, sha256 in sorted(hashes.items()):
            try:
                content = b"" if name.startswith("/") or ".." in name.split("/") else read(name)
            except (OSError, ToolkitError):  # removed since it was imported
                continue
            if hashlib.sha256(content).hexdigest() != sha256:  # changed since
                continue
            path = _join(part, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as file:
                file.write(content)
            sync(path)
        os.rename(part, os.path.join(root, version))
        sync(root)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _join(folder: str, name: str) -> str:
    return os.path.join(folder, *name.split("/"))


# ------------------------------------------------------------------------------------------- read


def find_faults(folder: RunFolder, sessions: Iterable[Dict[str, Any]]) -> List[str]:
    """The copies that are missing, or differ from the hashes of their sessions; a clause each."""
    faults: Dict[str, None] = {}  # each once, in their order
    for session in sessions:
        for plugin, copy in read_copies(session).items():
            hashes = (session.get("plugins") or {}).get(plugin) or {}
            for name, sha256 in sorted(hashes.items()):
                path = _join(folder.file(SOURCES, copy.folder), name)
                fault = "" if name in copy.omitted else find_damage(path, sha256)
                if fault:
                    faults[f"{copy.place}/{name} {fault}"] = None
    return list(faults)


@contextlib.contextmanager
def naming_copies(folder: RunFolder) -> Iterator[None]:
    """Within the block, which loads the plugins of a run, let an error name its copies."""
    try:
        yield
    except ToolkitError as error:
        copies = read_copies(folder.commits.last_session()).values()
        places = [f"{folder}/{c.place}" for c in copies if os.path.isdir(folder.file(c.place))]
        if places and not isinstance(error, InterruptedRun):
            text = f"A copy of the code that trained the run is in {' and in '.join(places)}."
            error.hint = " ".join(part for part in (error.hint, text) if part)
        raise
