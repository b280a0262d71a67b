"""Which code the toolkit may execute: installed plugins, and what is the user's own choice.

A run's folder and a configuration file can name a plugin that is a file or a module. It is loaded
only if the user names it too, if the command has `--trust`, or if its files are the same as when
this user last ran them. The user's state folder has a record of those, a JSON object per line:
{"plugin": NAME, "folder": FOLDER, "files": {PATH: SHA-256}}.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import Any, Dict, Iterator, List, Set

from ..errors import UsageError, join_names
from .source_files import SourceFiles, is_file, locate_file


class UntrustedCode(UsageError):
    """A file names code that the user has not run before; it was not executed."""


class _Choice:
    """What the user of a command chose, and what it may therefore execute."""

    def __init__(self) -> None:
        self.everything = False  # whether the command has `--trust`
        self.references: Set[str] = set()  # identities of what its flags and variables name
        self.folders: Set[str] = set()  # of the user's own choices; their neighbours are, too
        self.files: Dict[str, str] = {}  # path -> SHA-256 of each file that was checked


_choice = _Choice()


@contextlib.contextmanager
def separate_command() -> Iterator[None]:
    """Forget in the block, and again after it, what the user of another command chose."""
    global _choice
    outer, _choice = _choice, _Choice()
    try:
        yield
    finally:
        _choice = outer


def trust_everything() -> None:
    """Let the command load whatever a file names."""
    _choice.everything = True


def is_everything_trusted() -> bool:
    """Whether the command loads whatever a file names."""
    return _choice.everything


def choose(reference: str) -> None:
    """Note that a flag or a variable of the command names a plugin."""
    _choice.references.add(_identity(reference))


def _identity(reference: str) -> str:
    """What two references of the same plugin have in common.

    A link to a file is another plugin than the file, since it has other neighbours.
    """
    if not is_file(reference):
        return reference
    folder, name = os.path.split(os.path.abspath(os.path.expanduser(reference)))
    return os.path.join(os.path.realpath(folder), name)


def check(reference: str, files: SourceFiles, named_by: str) -> None:
    """Check that a plugin of these files may be loaded, which the file `named_by` names ("": the
    user); record it if it is the user's own choice. Raises UsageError if it may not.
    """
    if not named_by or _choice.everything or _identity(reference) in _choice.references:
        _record(files)
        _choice.folders.add(files.folder)
    elif not _is_recorded(files):
        places, history = (files.name, files.folder), UNKNOWN
        former = [e["files"] for e in _read() if (e["plugin"], e.get("folder")) == places]
        if former:
            changed = [n for n, h in sorted(files.hashes.items()) if former[-1].get(n) != h]
            history = f"that has changed since you ran it ({join_names(changed, 3)})"
        raise UntrustedCode(
            f"{named_by} names the plugin '{reference}', code {history}; it was not executed.",
            hint=HINT,
        )
    for name, sha256 in files.hashes.items():
        _choice.files[os.path.join(files.folder, name)] = sha256


UNKNOWN = "that you have not run before"
HINT = "Read it first. To run it, add --trust (in Python: trust=True)."


def permit(folder: str, path: str, sha256: str) -> None:
    """Check the file at an absolute path before what has this hash is executed: the file of the
    plugin in a folder, or of a neighbour that it imports. Raises UsageError if it may not be.
    """
    if _choice.files.get(path) == sha256:
        return
    files = locate_file(path)  # no import statement of the plugin names it
    if folder in _choice.folders:
        _record(files)
    elif files.hashes[files.name] != sha256 or not _is_recorded(files):
        raise UntrustedCode(
            f"A plugin imports '{path}', code {UNKNOWN}; it was not executed.", hint=HINT
        )


# ----------------------------------------------------------------------------------------- record

# What this process recorded, by the path of the record: the file may be one that cannot be written.
_recorded: Dict[str, List[Dict[str, Any]]] = {}


def record_path() -> str:
    """The file that records which code this user ran; "" without a home folder.

    It is never relative: a stranger could have written the record of the working directory.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "toolkit", "trusted-plugins.jsonl") if os.path.isabs(state) else ""


def _record(files: SourceFiles) -> None:
    """Record that the user ran a plugin. Where that cannot be written, only this process knows."""
    if _is_recorded(files):
        return
    entry = {"plugin": files.name, "folder": files.folder, "files": files.hashes}
    path = record_path()
    _recorded.setdefault(path, []).append(entry)
    if path:
        with contextlib.suppress(OSError, ValueError):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                if _is_private(os.fstat(descriptor)):  # else no entry of it counts
                    file.write((json.dumps(entry, sort_keys=True) + "\n").encode("ascii"))


def _is_recorded(files: SourceFiles) -> bool:
    """Whether the user ran a plugin with these files, here or in another folder."""
    entries = (entry["files"] for entry in _read() if entry["plugin"] == files.name)
    return any(files.hashes.items() <= former.items() for former in entries)


def _read() -> List[Dict[str, Any]]:
    """The entries of the record, the oldest first. Lines that are none are ignored."""
    path = record_path()
    entries: List[Dict[str, Any]] = []
    with contextlib.suppress(OSError, ValueError):  # also for the path ""
        with open(path, encoding="ascii", errors="replace") as file:
            lines = file.readlines() if _is_private(os.fstat(file.fileno())) else []
        for line in lines:
            entry: Any = None
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("plugin"), str):
                entries += [entry] if isinstance(entry.get("files"), dict) else []
    return entries + _recorded.get(path, [])


def _is_private(status: os.stat_result) -> bool:
    """Whether nobody but this user can write a file."""
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
