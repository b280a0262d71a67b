"""The installed plugins and commands: entry points of distributions, read without importing."""

from __future__ import annotations

import importlib
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from .. import __version__
from .modules import find_fault

GROUPS = {"model": "toolkit.plugins", "extension": "toolkit.extensions"}
COMMANDS = {"command": "toolkit.commands"}
DRIVERS = {"driver": "toolkit.drivers"}
_OF_TOOLKIT = re.compile(r"toolkit\s*([\[(<>=!~;@ ]|$)", re.IGNORECASE)


class Entry(NamedTuple):
    """An installed plugin or command, as the metadata of its distribution describes it."""

    name: str
    kind: str  # "model", "extension" or "command"
    target: str  # "module" or "module:attribute"
    distribution: str
    version: str
    state: str  # "ok", "broken" or "conflict"
    reason: str  # why the state is not "ok"


class EntryPoint(NamedTuple):
    """An entry point with its distribution."""

    name: str
    kind: str  # as of `Entry`
    target: str  # likewise
    distribution: str
    version: str
    requires: Tuple[str, ...]  # what the distribution requires

    @property
    def unmet_requirement(self) -> str:
        """`needs toolkit>=9, this is 0.2.0`; "" if this version fits."""
        return find_unmet(self.requires)


def find_unmet(requirements: Iterable[str], version: str = __version__) -> str:
    """`needs toolkit>=9, this is 0.2.0`; "" if the version of the toolkit fits.

    Args:
        requirements: of a distribution, as in its metadata. One with a marker, such as an extra, is
            not looked at.
        version: of the toolkit.
    """
    for text in filter(_OF_TOOLKIT.match, requirements):
        from packaging.requirements import Requirement  # only here: it takes a while

        requirement = Requirement(text)
        if requirement.marker is None and not requirement.specifier.contains(version, True):
            return f"needs toolkit{requirement.specifier}, this is {version}"
    return ""


def list_plugins() -> List[Entry]:
    """Every installed plugin and extension, without importing any."""
    return _list_entries(GROUPS)


def list_commands() -> List[Entry]:
    """Every command that a distribution adds to `toolkit`, without importing any."""
    return _list_entries(COMMANDS)


def list_drivers() -> List[Entry]:
    """Every driver that a distribution offers, without importing any."""
    return _list_entries(DRIVERS)


def find_entry_points(groups: Dict[str, str]) -> List[EntryPoint]:
    """The entry points of these groups, sorted by kind, name and distribution; one for each."""
    kinds = {group: kind for kind, group in groups.items()}
    points: Dict[Tuple[str, str, str], EntryPoint] = {}
    for distribution in _metadata().distributions():
        matches = [each for each in distribution.entry_points if each.group in kinds]
        for entry_point in matches:
            info = distribution.metadata
            point = EntryPoint(
                entry_point.name,
                kinds[entry_point.group],
                entry_point.value,
                info["Name"],
                info["Version"] or "",
                tuple(distribution.requires or ()),
            )
            # A distribution may be on sys.path twice, for example with the metadata of an earlier
            # version in the working directory: as of modules, the first counts.
            points.setdefault((point.kind, point.name, point.distribution), point)
    return sorted(points.values(), key=lambda point: (point.kind, point.name, point.distribution))


def normalize_distribution(name: str) -> str:
    """The name of a distribution in the form in which two of them are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _list_entries(groups: Dict[str, str]) -> List[Entry]:
    points = find_entry_points(groups)
    return [_entry(point, [each for each in points if each[:2] == point[:2]]) for point in points]


def _entry(point: EntryPoint, same_name: List[EntryPoint]) -> Entry:
    others = {other.distribution for other in same_name} - {point.distribution}
    if others:
        return Entry(*point[:5], "conflict", f"also provided by {', '.join(sorted(others))}")
    reason = find_fault(point.target) or point.unmet_requirement
    return Entry(*point[:5], "broken" if reason else "ok", reason)


def _metadata() -> Any:
    try:
        return importlib.import_module("importlib.metadata")
    except ImportError:  # Python 3.7
        return importlib.import_module("importlib_metadata")
