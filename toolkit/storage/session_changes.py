"""What differs between two sessions of a run on which its bits depend, as their entries say."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from ..errors import join_names

THREADS = "threads within an op"
# The recorded facts on which bits depend.
DECISIVE = {
    "versions": ("tensorflow", "numpy", "toolkit"),
    "machine": ("processor", "cores", THREADS),
}


def find_session_changes(
    session: Dict[str, Any], now: Dict[str, Any], words: str = "{} was {}, now {}"
) -> List[str]:
    """The differences between two sessions, an entry and the facts of a later one, of which some
    may be missing, for which the later one is not bit-exact; `words` are for a name and two values.
    Options are not compared: a resume changes them only on request.
    """
    both = session, now
    pairs = [
        (name, *((facts.get(title) or {}).get(name) for facts in both))
        for title, names in DECISIVE.items()
        for name in names
    ]
    before, after = (facts.get("reader") for facts in both)
    if (before == "resident") != (after == "resident"):  # older runs have "mapped", too
        pairs.append(("reader", before, after))
    answers: Dict[Any, str] = {True: "yes", False: "no"}
    pairs.append(("compiled by XLA", *(answers.get(facts.get("compiled")) for facts in both)))
    changes = [
        words.format(name, before, after)
        for name, before, after in pairs
        if None not in (before, after) and before != after
    ]
    before, after = (describe_cluster(facts.get("cluster")) for facts in both)
    if before != after:  # another order of sums
        changes.append(f"trained by {before} before, now by {after}")
    plugins, others = (facts.get("plugins") or {} for facts in both)
    for plugin, files in sorted(plugins.items()):
        now_files = others.get(plugin, files)
        hashed = set(files)  # a plugin that imports another file has changed itself
        if any(os.path.basename(name) == "__init__.py" for name in files):
            hashed |= set(now_files)  # all files of a package
        changed = sorted(n for n in hashed if files.get(n) != now_files.get(n))
        if changed:
            changes.append(f"plugin '{plugin}' has changed ({join_names(changed, 3)})")
    for name, text in (
        ("data", "the data has changed"),
        ("partition", "other examples are held out"),
    ):
        if session.get(name) and now.get(name) and session[name] != now[name]:
            changes.append(text)
    before, after = ((facts.get("parent") or {}).get("tensors") for facts in both)
    if None not in (before, after) and before != after:
        changes.append("the weights to begin with have changed")
    return changes


def describe_cluster(cluster: Any) -> str:
    """The processes that train in a session, as recorded (None: one process alone), in words."""
    if not isinstance(cluster, dict):
        return "one process"
    if cluster.get("ps"):
        return f"{cluster.get('workers')} workers with {cluster['ps']} parameter servers"
    if cluster.get("devices"):
        return f"{cluster['devices']} devices of one process"
    return f"{cluster.get('replicas')} replicas"
