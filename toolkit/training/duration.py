"""How long a run trained in all of its sessions.

`seconds` in the manifest is the sum of the sessions that ended, and `session_start` the time at
which the last one began. Of a session that was killed, nobody knows the end: it counts up to its
last commit, as its steps do.
"""

from __future__ import annotations

from typing import Any

from ..storage.run_folder import RunFolder

RUNNING = "running"  # the status of a session that has not ended, or was killed


def seconds_before(folder: RunFolder) -> float:
    """The seconds of all sessions so far of a run that is about to continue."""
    facts = folder.read_manifest()
    start = facts.get("session_start")
    total = _seconds(facts.get("seconds"))
    if facts["status"] != RUNNING or start is None:
        return total
    entries = folder.commits.entries()
    return total + max([0.0, *(e.values["time"] - start for e in entries if e.is_commit)])


def _seconds(value: Any) -> float:
    """A duration from a manifest; 0 for what is none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return max(0.0, float(value)) if is_number else 0.0
