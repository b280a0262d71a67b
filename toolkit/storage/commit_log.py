"""The commit log, `commits.jsonl`: which checkpoints a run has, and how each was trained.

There is one entry per training session (the step that it started from, and its options, versions
and data), one per checkpoint (the hashes of its files and of its tensors), and one at the end of a
finished run, its seal (what people quote of it, see seal.py). The log of a branch begins with the
entries of its parent and one that names the parent (see branch.py). Each entry ends in its own hash
and contains the hash of the entry before it, so that a changed, removed or inserted entry is
detected. `kept` lists the steps whose checkpoints exist from this entry on; the last readable entry
decides.

An entry is written after the files that it lists, so a checkpoint is committed once its entry is on
the disk.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set

from ..files import to_json_value
from . import source_copies
from .jsonl import FileDigest, JsonLines, parse_object
from .parent import is_record

NO_HASH = "0" * 64  # what the first entry contains as the hash of the entry before it
NO_METRICS = FileDigest(0, hashlib.sha256(b"").hexdigest())
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_SESSION_DICTS = ("versions", "machine", "plugins", "data", "options")  # optional, each a dict
_HASH = re.compile(r'^(.*), "hash": "([0-9a-f]{64})"}$', re.DOTALL)


class Checkpoint(NamedTuple):
    """A committed checkpoint."""

    step: int
    path: str  # the prefix of its files, as a Saver takes it
    time: float  # of the commit, in seconds since the epoch
    files: Dict[str, FileDigest]  # by name
    tensors: str = ""  # the SHA-256 over all tensors, see checkpoint_reader.fingerprint
    metrics: FileDigest = NO_METRICS  # of metrics.jsonl at the commit


class Entry(NamedTuple):
    """An entry of the commit log."""

    number: int  # from 1
    values: Dict[str, Any]  # empty if the entry cannot be read
    fault: str  # what is wrong with the entry, as a clause; '' if nothing is

    @property
    def is_session(self) -> bool:
        return self.values.get("kind") == "session"

    @property
    def is_commit(self) -> bool:
        return self.values.get("kind") == "commit"

    @property
    def is_seal(self) -> bool:
        return self.values.get("kind") == "seal"

    @property
    def step(self) -> int:
        """The step that was committed or sealed, or from which the session or branch started."""
        return self.values["from" if self.is_session else "step"]


class CommitLog:
    """The commit log of one run.

    Args:
        path: of commits.jsonl.
        prefix: returns the path prefix of the checkpoint files of a step.
    """

    def __init__(self, path: str, prefix: Callable[[int], str]):
        self._file = JsonLines(path)
        self._prefix = prefix
        self._entries: Optional[List[Entry]] = None
        self._head = NO_HASH

    @property
    def path(self) -> str:
        return self._file.path

    def entries(self) -> List[Entry]:
        """All entries, oldest first, each verified."""
        if self._entries is None:
            entries: List[Entry] = []
            head = NO_HASH
            for text in self._file.lines():
                entries.append(_parse_entry(len(entries) + 1, text, head))
                head = _entry_hash(text)
            self._entries, self._head = entries, head
        return self._entries

    def invalidate_cache(self) -> None:
        """Read the file again when it is next needed: another process may have written to it."""
        self._entries = None
        self._file.invalidate_cache()

    def add(self, kind: str, **values: Any) -> None:
        """Append an entry, and wait until it is on the disk.

        Args:
            kind: "session", "commit", "seal" or "branch".
            values: what the entry contains besides; `kept` is required.
        """
        entries = self.entries()
        body = json.dumps(to_json_value(dict({"kind": kind}, **values, previous=self._head)))[:-1]
        digest = hashlib.sha256(body.encode("utf-8")).hexdigest()
        text = f'{body}, "hash": "{digest}"}}'
        self._entries = None  # a failed write leaves it unknown what the file contains
        self._file.append_line(text, durable=True)
        entries.append(Entry(len(entries) + 1, json.loads(text), ""))
        self._entries, self._head = entries, digest

    def head(self) -> str:
        """The hash of the last entry, 64 hex digits."""
        self.entries()
        return self._head

    def checkpoints(self) -> List[Checkpoint]:
        """The checkpoints that should exist, oldest first; their files are not verified."""
        steps: Optional[Set[int]] = None
        latest: Dict[int, Checkpoint] = {}
        for entry in reversed(self.entries()):  # most are near the end, however long the log is
            if steps is None and entry.values:
                steps = set(entry.values["kept"])
            if steps is not None and len(latest) == len(steps):
                break
            if steps and entry.is_commit and entry.step in steps and entry.step not in latest:
                latest[entry.step] = self.checkpoint(entry)
        return [latest[step] for step in sorted(latest)]

    def find_commit(self, step: int) -> Optional[Checkpoint]:
        """The last commit of a step, even if its files have been deleted since; None if none."""
        for entry in reversed(self.entries()):
            if entry.is_commit and entry.step == step:
                return self.checkpoint(entry)
        return None

    def current_commits(self) -> Dict[int, Entry]:
        """Step -> its commit, without those that a later session discarded.

        A session that starts from an earlier step discards the commits after that step.
        """
        commits: Dict[int, Entry] = {}
        for entry in self.entries():
            if entry.is_session:
                commits = {step: old for step, old in commits.items() if step <= entry.step}
            elif entry.is_commit:
                commits[entry.step] = entry
        return commits

    def file_names(self) -> Set[str]:
        """The names of all files that were ever committed, including those deleted since."""
        commits = [entry for entry in self.entries() if entry.is_commit]
        return {name for entry in commits for name in entry.values["files"]}

    def sessions(self) -> List[Dict[str, Any]]:
        """The contents of the session entries, oldest first."""
        return [entry.values for entry in self.entries() if entry.is_session]

    def parents(self) -> List[Dict[str, Any]]:
        """The records of what the run began from, as sessions and branches have them; the oldest
        first.
        """
        records = [entry.values.get("parent") for entry in self.entries()]
        return [record for record in records if record]

    def seal(self) -> Optional[Entry]:
        """The seal at the end of the log; None if the run is not finished, or not sealed."""
        last = self.entries()[-1:]
        return last[0] if last and last[0].is_seal else None

    def faults(self) -> List[str]:
        """What is wrong with the log, one clause per faulty entry."""
        return [f"entry {entry.number} {entry.fault}" for entry in self.entries() if entry.fault]

    def checkpoint(self, entry: Entry) -> Checkpoint:
        """The checkpoint of a commit entry."""
        values = entry.values
        return Checkpoint(
            step=entry.step,
            path=self._prefix(entry.step),
            time=values["time"],
            files={name: FileDigest(**digest) for name, digest in values["files"].items()},
            tensors=values["tensors"],
            metrics=FileDigest(**values["metrics"]),
        )


def current_sessions(entries: Iterable[Entry]) -> List[Dict[str, Any]]:
    """The contents of the sessions that trained the steps before the end of the entries, in the
    order of steps: without those of which a later session discarded all steps.
    """
    sessions: List[Dict[str, Any]] = []
    for entry in entries:
        if entry.is_session:
            # The new session discards what was trained after the step that it starts from.
            sessions = [session for session in sessions if session["from"] < entry.step]
            sessions.append(entry.values)
    return sessions


def _entry_hash(text: str) -> str:
    """The hash that an entry ends in, which the next entry repeats; of the text if it has none."""
    match = _HASH.match(text)
    return match.group(2) if match else hashlib.sha256(text.encode("utf-8")).hexdigest()


def _parse_entry(number: int, text: str, previous: str) -> Entry:
    """Parse and verify one line.

    Args:
        number: of the entry, from 1.
        text: the line.
        previous: the hash of the entry before it.
    """
    match = _HASH.match(text)
    if not match or hashlib.sha256(match.group(1).encode("utf-8")).hexdigest() != match.group(2):
        return Entry(number, {}, "has changed since it was written")
    values = parse_object(text)
    if values is None or not _is_valid(values):
        return Entry(number, {}, "is not in the format of this version")
    fault = ""
    if values["previous"] != previous:
        fault = "does not follow the entry before it: entries were removed, inserted or moved"
    return Entry(number, values, fault)


def _is_valid(values: Dict[str, Any]) -> bool:
    """Whether an entry has all values that its kind requires, each of its type."""
    try:
        steps = values["kept"]
        if not isinstance(values["previous"], str) or not isinstance(steps, list):
            return False
        if not all(map(_is_count, steps)):
            return False
        if values["kind"] == "session":
            return _is_valid_session(values)
        if values["kind"] == "seal":
            return _is_valid_seal(values)
        if values["kind"] == "branch":
            return _is_count(values["step"]) and is_record(values["parent"])
        return values["kind"] == "commit" and _is_valid_commit(values)
    except (KeyError, TypeError, AttributeError):
        return False


def _is_valid_session(values: Dict[str, Any]) -> bool:
    return (
        _is_count(values["from"])
        and all(isinstance(values.get(name, {}), dict) for name in _SESSION_DICTS)
        and all(isinstance(files, dict) for files in values.get("plugins", {}).values())
        and (values.get("parent") is None or is_record(values["parent"]))
        and source_copies.is_valid(values.get(source_copies.SOURCES, {}))
    )


def _is_valid_commit(values: Dict[str, Any]) -> bool:
    step = values["step"]
    return (
        _is_count(step)
        and _is_time(values["time"])
        and isinstance(values["tensors"], str)
        and _is_digest(values["metrics"])
        and all(_is_file(step, name, digest) for name, digest in values["files"].items())
    )


def _is_valid_seal(values: Dict[str, Any]) -> bool:
    return (
        _is_count(values["step"])
        and isinstance(values["manifest"], dict)
        and all(_is_report(name, digest) for name, digest in values["reports"].items())
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= sys.maxsize


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.maxsize


def _is_digest(values: Dict[str, Any]) -> bool:
    """Whether it is the JSON form of a FileDigest."""
    return (
        set(values) == {"bytes", "sha256"}
        and _is_count(values["bytes"])
        and isinstance(values["sha256"], str)
    )


def _is_file(step: int, name: str, digest: Dict[str, Any]) -> bool:
    """Whether it is a checkpoint file of this step, inside the checkpoints folder."""
    start = f"model.ckpt-{step}."
    return name.startswith(start) and bool(_FILE_NAME.fullmatch(name)) and _is_digest(digest)


def _is_report(name: str, digest: Dict[str, Any]) -> bool:
    """Whether it is a file inside the folder of the reports."""
    parts = name.split("/")
    is_inside = parts[0] == "reports" and not {"", ".", ".."} & set(parts)
    return is_inside and "\0" not in name and _is_digest(digest)


RetentionRule = Callable[[List[Checkpoint]], Iterable[int]]


def retention_rule(
    keep: int, every_hours: Optional[float], always: Iterable[int] = ()
) -> RetentionRule:
    """A function from the checkpoints, oldest first, to the steps whose files are kept.

    The result depends on the committed checkpoints and their times alone, so a restart changes
    nothing. A clock that is set back starts a new count.

    Args:
        keep: how many of the newest checkpoints to keep, at least 1.
        every_hours: also keep one checkpoint per so many hours; None: no such checkpoints.
        always: steps to keep in any case.
    """

    def rule(checkpoints: List[Checkpoint]) -> List[int]:
        steps = [checkpoint.step for checkpoint in checkpoints[-keep:]] + list(always)
        if every_hours is not None:
            steps += _steps_by_time(checkpoints, every_hours * 3600)
        return steps

    return rule


def _steps_by_time(checkpoints: List[Checkpoint], seconds: float) -> List[int]:
    """The steps of the first checkpoint, and of each one `seconds` after the one before it."""
    steps: List[int] = []
    last = 0.0
    for checkpoint in checkpoints:
        is_due = not steps or checkpoint.time - last >= seconds
        if is_due:
            steps.append(checkpoint.step)
        if is_due or checkpoint.time < last:
            last = checkpoint.time
    return steps
