"""What differs between two sessions of a run on which its bits depend, as their entries say."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from .parent import Parent

THREADS = "threads within an op"
# The recorded facts on which bits depend.
DECISIVE = {
    "versions": ("tensorflow", "numpy", "toolkit"),
    "machine": ("processor", "cores", THREADS),
}


def find_session_changes(session: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """The differences between two sessions for which the later one is not bit-exact.

    Options are not compared: a resume changes them only on request.

    Args:
        session: the entry of the earlier session; some of its facts may be missing.
        now: the facts of the later one, likewise.
    """
    return [
        *_decisive_changes(session, now),
        *_reader_changes(session, now),
        *_compiler_changes(session, now),
        *_cluster_changes(session, now),
        *_plugin_changes(_dict(session, "plugins"), _dict(now, "plugins")),
        *_data_changes(session, now),
    ]


def describe_cluster(cluster: Any) -> str:
    """The processes that train in a session, in words.

    Args:
        cluster: as recorded; None for one process alone.
    """
    if not isinstance(cluster, dict):
        return "one process"
    if cluster.get("ps"):
        return f"{cluster.get('workers')} workers with {cluster['ps']} parameter servers"
    if cluster.get("devices"):
        return f"{cluster['devices']} devices of one process"
    return f"{cluster.get('replicas')} replicas"


def _decisive_changes(session: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    changes = []
    for title, names in DECISIVE.items():
        before, after = _dict(session, title), _dict(now, title)
        for name in [n for n in names if n in before and n in after]:
            if before[name] != after[name]:
                changes.append(f"{name} was {before[name]}, now {after[name]}")
    return changes


def _reader_changes(session: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """Whether the examples come in another order; "mapped" and "stream" have one order."""
    before, after = session.get("reader"), now.get("reader")
    if None not in (before, after) and (before == "resident") != (after == "resident"):
        return [f"reader was {before}, now {after}"]
    return []


def _compiler_changes(session: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    before, after = (facts.get("compiled") for facts in (session, now))
    if None in (before, after) or before == after:
        return []
    return [f"compiled by XLA was {_yes_no(before)}, now {_yes_no(after)}"]


def _cluster_changes(session: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """Whether another number of processes trains, which changes the order of sums."""
    before, after = (describe_cluster(facts.get("cluster")) for facts in (session, now))
    return [] if before == after else [f"trained by {before} before, now by {after}"]


def _plugin_changes(before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """The plugins whose files have changed."""
    changes = []
    for plugin, files in sorted(before.items()):
        others = after.get(plugin, files)
        hashed = set(files)  # a plugin that imports another file has changed itself
        if any(os.path.basename(name) == "__init__.py" for name in files):
            hashed |= set(others)  # all files of a package
        file_names = sorted(n for n in hashed if files.get(n) != others.get(n))
        if file_names:
            changes.append(f"plugin '{plugin}' has changed ({', '.join(file_names[:3])})")
    return changes


def _data_changes(session: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """Whether files of the data, its splits or the weights to begin with have changed."""
    changes = []
    if _dict(session, "data") and _dict(now, "data") and session["data"] != now["data"]:
        changes.append("the data has changed")
    if _is_other(session, now, "partition"):
        changes.append("other examples are held out")
    before, after = (Parent.from_json(facts.get("parent")) for facts in (session, now))
    if before and after and before.tensors != after.tensors:
        changes.append("the weights to begin with have changed")
    return changes


def _is_other(session: Dict[str, Any], now: Dict[str, Any], name: str) -> bool:
    return name in session and name in now and session[name] != now[name]


def _dict(facts: Dict[str, Any], name: str) -> Dict[str, Any]:
    value = facts.get(name)
    return value if isinstance(value, dict) else {}


def _yes_no(value: Any) -> str:
    return "yes" if value else "no"
