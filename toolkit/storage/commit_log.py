"""The chain of commits, `commits.jsonl`: which checkpoints a run has, and how each came about.

A line is added for each session of training (where it went on from, with what) and for each
checkpoint (the hashes of its files and of its tensors). Every line ends in its own hash and names
that of the line before, so a line that was changed, left out or put in shows. `kept` in a line says
which checkpoints there are from then on: the last whole line decides.

A checkpoint is committed when its line is on the disk, which is written last.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set

from ..files import to_json_value
from .jsonl import JsonLines, Position, parse_object

FIRST = "0" * 64  # what the first line names as the hash before it
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_OF_SESSIONS = ("versions", "machine", "plugins", "data", "options")  # dictionaries, if there
_HASH = re.compile(r'^(.*), "hash": "([0-9a-f]{64})"}$', re.DOTALL)


class Checkpoint(NamedTuple):
    """A committed checkpoint. `path`: its prefix, for a Saver. `time`: seconds since the epoch.

    files: name -> bytes and sha256. tensors: SHA-256 over all tensors. metrics: how far
    metrics.jsonl had grown.
    """

    step: int
    path: str
    time: float
    files: Dict[str, Dict[str, Any]]
    tensors: str = ""
    metrics: Optional[Position] = None


class Entry(NamedTuple):
    """One line. fault: what is wrong with it, in words, or ''."""

    number: int  # from 1
    values: Dict[str, Any]  # empty where the line cannot be read
    fault: str

    @property
    def kind(self) -> str:
        return self.values.get("kind", "")


class CommitLog:
    """The chain of one run. prefix: step -> path of that checkpoint's files, less their endings."""

    def __init__(self, path: str, prefix: Callable[[int], str]):
        self._file = JsonLines(path)
        self._prefix = prefix
        self._entries: Optional[List[Entry]] = None

    @property
    def path(self) -> str:
        return self._file.path

    def entries(self) -> List[Entry]:
        """Every line, oldest first, each checked."""
        if self._entries is None:
            lines: List[Entry] = []
            before = FIRST
            for text in self._file.texts():
                lines.append(_parse_entry(len(lines) + 1, text, before))
                before = _hash_of(text)
            self._entries = lines
            self._last = before
        return self._entries

    def forget(self) -> None:
        """Read the file anew when it is next needed: another process may have written to it."""
        self._entries = None
        self._file.forget()

    def add(self, kind: str, **values: Any) -> None:
        """Add a line durably."""
        lines = self.entries()
        body = json.dumps(to_json_value(dict({"kind": kind}, **values, previous=self._last)))[:-1]
        digest = hashlib.sha256(body.encode("utf-8")).hexdigest()
        text = f'{body}, "hash": "{digest}"}}'
        self._entries = None  # until it is known that the line is there
        self._file.append_text(text, durable=True)
        lines.append(Entry(len(lines) + 1, json.loads(text), ""))
        self._entries, self._last = lines, digest

    def head(self) -> str:
        """The hash of the last line, 64 hex digits."""
        self.entries()
        return self._last

    def checkpoints(self) -> List[Checkpoint]:
        """The checkpoints that there are, oldest first, their files unverified."""
        kept: Optional[Set[int]] = None
        latest: Dict[int, Checkpoint] = {}
        for entry in reversed(self.entries()):  # most are near the end, however long the chain is
            if kept is None and entry.values:
                kept = set(entry.values["kept"])
            if kept is not None and len(latest) == len(kept):
                break
            step = entry.values.get("step") if entry.kind == "commit" else None
            if step is not None and step in kept and step not in latest:
                latest[step] = self._checkpoint(entry.values)
        return [latest[step] for step in sorted(latest)]

    def find_commit(self, step: int) -> Optional[Checkpoint]:
        """The last commit of that step, also where its files were removed since."""
        for entry in reversed(self.entries()):
            if entry.kind == "commit" and entry.values["step"] == step:
                return self._checkpoint(entry.values)
        return None

    def files(self) -> Set[str]:
        """The names of all files that were ever committed, also of those removed since."""
        return {
            name
            for entry in self.entries()
            if entry.kind == "commit"
            for name in entry.values["files"]
        }

    def sessions(self) -> List[Dict[str, Any]]:
        """What the lines of sessions hold, oldest first."""
        return [entry.values for entry in self.entries() if entry.kind == "session"]

    def faults(self) -> List[str]:
        """What is wrong with the chain, a sentence each."""
        return [f"line {n.number} {n.fault}" for n in self.entries() if n.fault]

    def _checkpoint(self, values: Dict[str, Any]) -> Checkpoint:
        step = values["step"]
        return Checkpoint(
            step,
            self._prefix(step),
            values["time"],
            values["files"],
            values["tensors"],
            Position(**values["metrics"]),
        )


def _hash_of(text: str) -> str:
    """What the next line names: the hash that the line has, or where it has none, of its text."""
    match = _HASH.match(text)
    return match.group(2) if match else hashlib.sha256(text.encode("utf-8")).hexdigest()


def _parse_entry(number: int, text: str, before: str) -> Entry:
    match = _HASH.match(text)
    if not match or hashlib.sha256(match.group(1).encode("utf-8")).hexdigest() != match.group(2):
        return Entry(number, {}, "has changed since it was written")
    values = parse_object(text)
    if values is None or not _is_sound(values):
        return Entry(number, {}, "is no line of this format")
    fault = ""
    if values["previous"] != before:
        fault = "does not follow the line before it: lines were left out, put in or moved"
    return Entry(number, values, fault)


def _is_sound(values: Dict[str, Any]) -> bool:
    """Whether a line has what its kind has to have, each of its type."""
    try:
        kept = values["kept"]
        if not isinstance(values["previous"], str) or not isinstance(kept, list):
            return False
        if not all(map(_is_count, kept)):
            return False
        if values["kind"] == "session":
            return _is_count(values["from"]) and all(
                isinstance(values.get(name, {}), dict) for name in _OF_SESSIONS
            )
        step, metrics = values["step"], values["metrics"]
        return (
            values["kind"] == "commit"
            and _is_count(step)
            and _is_time(values["time"])
            and isinstance(values["tensors"], str)
            and _is_hashed(metrics)
            and all(_is_file(step, name, facts) for name, facts in values["files"].items())
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= sys.maxsize


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.maxsize


def _is_hashed(facts: Dict[str, Any]) -> bool:
    """Whether it is a size with its hash, and nothing else."""
    return (
        set(facts) == {"bytes", "sha256"}
        and _is_count(facts["bytes"])
        and isinstance(facts["sha256"], str)
    )


def _is_file(step: int, name: str, facts: Dict[str, Any]) -> bool:
    """Whether it is a file of that step, in the folder of the checkpoints."""
    start = f"model.ckpt-{step}."
    return name.startswith(start) and bool(_NAME.fullmatch(name)) and _is_hashed(facts)


def retention_rule(keep: int, every_hours: Optional[float], always: Iterable[int] = ()):
    """A rule, checkpoints (oldest first) -> steps to keep: the `keep` newest, `always`, and one per
    `every_hours`.

    It is a function of the committed checkpoints and their times alone, so a restart forgets
    nothing. A clock that was set back begins a new count.
    """

    def rule(checkpoints: List[Checkpoint]) -> List[int]:
        kept = [c.step for c in checkpoints[-keep:]] + list(always)
        if every_hours is not None and checkpoints:
            last = checkpoints[0].time
            kept.append(checkpoints[0].step)
            for checkpoint in checkpoints[1:]:
                if checkpoint.time < last:
                    last = checkpoint.time
                elif checkpoint.time - last >= every_hours * 3600:
                    kept.append(checkpoint.step)
                    last = checkpoint.time
        return kept

    return rule
