"""The commit log, `commits.jsonl`: all that is known of a run, entry by entry (see entries.py).

Each entry ends in its own hash and contains the hash of the entry before it, so that a changed,
removed or inserted entry is detected. `kept` lists the steps whose checkpoints exist from this
entry on; the last readable entry with it decides.

An entry is written after the files that it lists, so a checkpoint is committed once its entry is on
the disk. The state that the entries give is also written to `manifest.json`, for people and for
`jq`; the toolkit reads it from here alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..errors import CheckpointError
from ..files import atomic_write, to_json_value
from .entries import FORMAT, Parent, apply, is_sound
from .jsonl import FileDigest, JsonLines, parse_object
from .own_folders import MANIFEST

NO_HASH = "0" * 64  # what the first entry contains as the hash of the entry before it
NO_METRICS = FileDigest(0, hashlib.sha256(b"").hexdigest())
_HASH = re.compile(r'^(.*), "hash": "([0-9a-f]{64})"}$', re.DOTALL)


class FormatError(CheckpointError):
    """The commit log of another version of the toolkit."""


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
    def kind(self) -> str:
        """See entries.py; "" if the entry cannot be read."""
        return str(self.values.get("kind", ""))

    @property
    def step(self) -> int:
        """The step that the entry is of, or from which the session or branch started."""
        return self.values.get("from" if self.kind == "session" else "step", 0)


class CommitLog(JsonLines):
    """The commit log of one run. `prefix` returns the path prefix of the checkpoint files of a
    step.
    """

    def __init__(self, path: str, prefix: Callable[[int], str]):
        super().__init__(path)
        self._prefix = prefix
        self._entries: Optional[List[Entry]] = None
        self._head = NO_HASH
        self._state: Dict[str, Any] = {}

    def entries(self) -> List[Entry]:
        """All entries, oldest first, each verified."""
        if self._entries is None:
            entries: List[Entry] = []
            head = NO_HASH
            for text in self.lines():
                entry, head = _parse_entry(len(entries) + 1, text, head)
                entries.append(entry)
            self._entries, self._head, self._state = entries, head, fold(entries)
        return self._entries

    def state(self) -> Dict[str, Any]:
        """What the entries say of the run as it is now, by name; see entries.py. Raises
        CheckpointError if the file is missing, or its first entry is damaged; FormatError if
        another version of the toolkit wrote it.
        """
        self.check_format()
        if self._state:
            return dict(self._state)
        fault = "is missing, or has no entries"
        for entry in self.entries()[:1]:
            fault = f"is damaged: entry 1 {entry.fault}"
        raise CheckpointError(f"{self.path} {fault}.", path=self.path)

    def check_format(self) -> None:
        """Raise FormatError if another version of the toolkit wrote the entries."""
        first = next((entry.values for entry in self.entries()), {})
        if first and not self._state:
            version = (first.get("versions") or {}).get("toolkit")
            raise FormatError(
                f"{self.path} is not of format {FORMAT}; version {str(version or 'unknown'):.20} "
                "of the toolkit wrote it.",
                hint="Read the run with the version that wrote it, or train it again: toolkit run "
                "--config RUN/config.json",
                path=self.path,
            )

    def invalidate_cache(self) -> None:
        super().invalidate_cache()
        self._entries = None

    def add(self, kind: str, **values: Any) -> None:
        """Append an entry of a kind (see entries.py), wait until it is on the disk, then write the
        manifest.
        """
        entries = self.entries()
        body = json.dumps(to_json_value(dict({"kind": kind}, **values, previous=self._head)))[:-1]
        digest = hashlib.sha256(body.encode("utf-8")).hexdigest()
        text = f'{body}, "hash": "{digest}"}}'
        self._entries = None  # a failed write leaves it unknown what the file contains
        self.append_line(text, durable=True)
        entries.append(Entry(len(entries) + 1, json.loads(text), ""))
        self._entries, self._head = entries, digest
        apply(self._state, entries[-1].values)
        if self._state:
            with atomic_write(os.path.join(os.path.dirname(self.path), MANIFEST)) as file:
                file.write(render_manifest(self._state))

    def head(self) -> str:
        """The hash of the last entry, 64 hex digits."""
        self.entries()
        return self._head

    def checkpoints(self) -> List[Checkpoint]:
        """The checkpoints that should exist, oldest first; their files are not verified."""
        kept: List[int] = []
        latest: Dict[int, Entry] = {}
        for entry in self.entries():
            kept = entry.values.get("kept", kept)
            if entry.kind == "commit":
                latest[entry.step] = entry
        return [self.checkpoint(latest[step]) for step in sorted(set(kept)) if step in latest]

    def find_commit(self, step: int) -> Optional[Checkpoint]:
        """The last commit of a step, even if its files have been deleted since; None if none."""
        for entry in reversed(self.entries()):
            if entry.kind == "commit" and entry.step == step:
                return self.checkpoint(entry)
        return None

    def current_commits(self) -> Dict[int, Entry]:
        """Step -> its commit, without those that a later session discarded.

        A session that starts from an earlier step discards the commits after that step.
        """
        commits: Dict[int, Entry] = {}
        for entry in self.entries():
            if entry.kind == "session":
                commits = {step: old for step, old in commits.items() if step <= entry.step}
            elif entry.kind == "commit":
                commits[entry.step] = entry
        return commits

    def state_at(self, step: int) -> Dict[str, Any]:
        """What the entries said of the run when it committed a step; {} without this commit."""
        entry = self.current_commits().get(step)
        return fold(self.entries()[: entry.number]) if entry else {}

    def sessions(self) -> List[Dict[str, Any]]:
        """The contents of the session entries, oldest first."""
        return [entry.values for entry in self.entries() if entry.kind == "session"]

    def last_session(self) -> Dict[str, Any]:
        """The contents of the newest session entry; {} without one."""
        return (self.sessions() or [{}])[-1]

    def parents(self) -> Dict[str, Parent]:
        """What the run began from, by kind, as sessions and branches have it; later records replace
        earlier ones.
        """
        records = filter(None, (entry.values.get("parent") for entry in self.entries()))
        return {record["kind"]: Parent(**record) for record in records}

    def seal(self) -> Optional[Entry]:
        """The seal at the end of the log; None if the run is not finished."""
        last = self.entries()[-1:]
        return last[0] if last and last[0].kind == "seal" else None

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


def fold(entries: Iterable[Entry]) -> Dict[str, Any]:
    """The state of a run after these entries; {} if none is that of its beginning."""
    state: Dict[str, Any] = {}
    for entry in entries:
        if entry.values:
            apply(state, entry.values)
    return state


def render_manifest(state: Dict[str, Any]) -> bytes:
    """The contents of manifest.json."""
    return (json.dumps(state, indent=2) + "\n").encode("utf-8")


def current_sessions(entries: Iterable[Entry]) -> List[Dict[str, Any]]:
    """The contents of the sessions that trained the steps before the end of the entries, in the
    order of steps: without those of which a later session discarded all steps.
    """
    sessions: List[Dict[str, Any]] = []
    for entry in entries:
        if entry.kind == "session":
            # The new session discards what was trained after the step that it starts from.
            sessions = [session for session in sessions if session["from"] < entry.step]
            sessions.append(entry.values)
    return sessions


def _parse_entry(number: int, text: str, previous: str) -> Tuple[Entry, str]:
    """Parse and verify one line; also return the hash that the next entry has to repeat."""
    match = _HASH.match(text)
    digest = match.group(2) if match else hashlib.sha256(text.encode("utf-8")).hexdigest()
    if not match or hashlib.sha256(match.group(1).encode("utf-8")).hexdigest() != digest:
        return Entry(number, {}, "has changed since it was written"), digest
    values = parse_object(text)
    if values is None or not is_sound(values):
        return Entry(number, {}, "is not in the format of this version"), digest
    fault = ""
    if values["previous"] != previous:
        fault = "does not follow the entry before it: entries were removed, inserted or moved"
    return Entry(number, values, fault), digest


def retained_steps(
    checkpoints: List[Checkpoint], keep: int, every_hours: Optional[float] = None
) -> Set[int]:
    """The steps whose files are kept of checkpoints, oldest first: the newest `keep`, and one per
    so many hours.

    The result depends on the committed checkpoints and their times alone, so a restart changes
    nothing. A clock that is set back starts a new count.
    """
    steps = {checkpoint.step for checkpoint in checkpoints[-keep:]}
    last = float("-inf")  # when the last checkpoint was committed that counts
    for checkpoint in checkpoints if every_hours else ():
        is_due = checkpoint.time - last >= 3600 * (every_hours or 0)
        if is_due:
            steps.add(checkpoint.step)
        if is_due or checkpoint.time < last:
            last = checkpoint.time
    return steps
