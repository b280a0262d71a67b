"""The installed plugins and commands: entry points of distributions, read without importing."""

from __future__ import annotations

import importlib.util
from typing import Any, Dict, List, NamedTuple, Tuple

GROUPS = {"model": "toolkit.plugins", "extension": "toolkit.extensions"}
COMMANDS = {"command": "toolkit.commands"}


class Entry(NamedTuple):
    """An installed plugin or command, as the metadata of its distribution describes it."""

    name: str
    kind: str  # "model", "extension" or "command"
    target: str  # "module" or "module:attribute"
    distribution: str
    version: str
    state: str  # "ok", "broken" or "conflict"
    reason: str  # why the state is not "ok"


def list_plugins() -> List[Entry]:
    """Every installed plugin and extension, without importing any."""
    return _list_entries(GROUPS)


def list_commands() -> List[Entry]:
    """Every command that a distribution adds to `toolkit`, without importing any."""
    return _list_entries(COMMANDS)


class _EntryPoint(NamedTuple):
    """An entry point with its distribution."""

    target: str
    distribution: str
    version: str


def _list_entries(groups: Dict[str, str]) -> List[Entry]:
    return [
        _entry(name, kind, point, points)
        for (kind, name), points in sorted(_entry_points(groups).items())
        for point in points
    ]


def _entry_points(groups: Dict[str, str]) -> Dict[Tuple[str, str], List[_EntryPoint]]:
    """(kind, name) -> the entry points of these groups with that name."""
    kinds = {group: kind for kind, group in groups.items()}
    points: Dict[Tuple[str, str], List[_EntryPoint]] = {}
    for distribution in _metadata().distributions():
        for entry_point in distribution.entry_points:
            if entry_point.group not in kinds:
                continue
            point = _EntryPoint(entry_point.value, *_identity(distribution))
            same_name = points.setdefault((kinds[entry_point.group], entry_point.name), [])
            # A distribution may be on sys.path twice, for example with the metadata of an earlier
            # version in the working directory: as of modules, the first counts.
            if all(other.distribution != point.distribution for other in same_name):
                same_name.append(point)
    return points


def _entry(name: str, kind: str, point: _EntryPoint, same_name: List[_EntryPoint]) -> Entry:
    reason = _missing_module(point.target)
    state = "broken" if reason else "ok"
    others = {other.distribution for other in same_name} - {point.distribution}
    if others:
        state, reason = "conflict", f"also provided by {', '.join(sorted(others))}"
    return Entry(name, kind, *point, state, reason)


def _metadata() -> Any:
    try:
        return importlib.import_module("importlib.metadata")
    except ImportError:  # Python 3.7
        return importlib.import_module("importlib_metadata")


def _identity(distribution) -> Tuple[str, str]:
    info = distribution.metadata
    return info["Name"], info["Version"] or ""


def _missing_module(target: str) -> str:
    """Why the package of a target cannot be imported, or ''. Imports nothing."""
    package = target.partition(":")[0].partition(".")[0]
    try:
        exists = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        exists = False
    return "" if exists else f"module '{package}' cannot be found"
