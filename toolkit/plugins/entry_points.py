"""The installed plugins and commands: entry points of distributions, read without importing."""

from __future__ import annotations

import importlib
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from .. import __version__
from .modules import find_fault

GROUPS = {
    "model": "toolkit.plugins",
    "extension": "toolkit.extensions",
    "command": "toolkit.commands",
    "driver": "toolkit.drivers",
}
_OF_TOOLKIT = re.compile(r"toolkit\s*([\[(<>=!~;@ ]|$)", re.IGNORECASE)


class Entry(NamedTuple):
    """An installed plugin or command, as the metadata of its distribution describes it."""

    name: str
    kind: str  # "model", "extension", "command" or "driver"
    target: str  # "module" or "module:attribute"
    distribution: str
    version: str
    state: str  # "ok", "broken" or "conflict"
    reason: str  # why the state is not "ok"


def list_plugins() -> List[Entry]:
    """Every installed plugin and extension, without importing any."""
    return list_entries("model", "extension")


def list_entries(*kinds: str) -> List[Entry]:
    """The entry points of these kinds, sorted by kind, name and distribution, one for each, without
    importing any.
    """
    kind_of = {GROUPS[kind]: kind for kind in kinds}
    points: Dict[Tuple[str, str, str], Any] = {}
    try:
        metadata: Any = importlib.import_module("importlib.metadata")
    except ImportError:  # Python 3.7
        metadata = importlib.import_module("importlib_metadata")
    for distribution in metadata.distributions():
        for point in distribution.entry_points:
            if point.group in kind_of:
                try:
                    owner = distribution.metadata.get("Name")  # [...] will raise KeyError
                except FileNotFoundError:  # since version 9 of importlib_metadata
                    owner = None
                if owner is None:  # an interrupted removal has left its entry points
                    continue
                key = (kind_of[point.group], point.name, owner)
                # A distribution may be on sys.path twice, for example with the metadata of an
                # earlier version in the working directory: as of modules, the first counts.
                points.setdefault(key, (point.value, distribution))
    entries = []
    for kind, name, owner in sorted(points):
        target, distribution = points[kind, name, owner]
        others = [each[2] for each in sorted(points) if each[:2] == (kind, name)]
        others.remove(owner)
        reason = f"also provided by {', '.join(others)}" if others else ""
        reason = reason or find_unmet(distribution.requires or ()) or find_fault(target)
        state = "conflict" if others else "broken" if reason else "ok"
        version = distribution.metadata["Version"] or ""
        entries.append(Entry(name, kind, target, owner, version, state, reason))
    return entries


def find_unmet(requirements: Iterable[str], version: str = __version__) -> str:
    """`needs toolkit>=9, this is 0.2.0`; "" if the version of the toolkit fits the requirements of
    a distribution, as in its metadata. One with a marker, such as an extra, is not looked at.
    """
    for text in filter(_OF_TOOLKIT.match, requirements):
        from packaging import requirements as reading  # only here: it takes a while

        try:
            requirement = reading.Requirement(text)
        except reading.InvalidRequirement:
            return f"needs '{text}', which is no requirement"
        if requirement.marker is None and not requirement.specifier.contains(version, True):
            return f"needs toolkit{requirement.specifier}, this is {version}"
    return ""
