"""Plugins that a process loads from copies of their sources, instead of what is there today.

A process that repeats a run's steps calls `use_copies` before anything else. From then on the
modules of those plugins come from the copies, and every other module from where it always does.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..files import write_json


class Copy(NamedTuple):
    """The copy of the sources of one plugin."""

    reference: str  # of the plugin, as the run names it
    name: str
    kind: str  # "model" or "extension"
    target: str  # what to load: the name of a file in `folder`, or module:attribute
    folder: str  # absolute
    distribution: str  # as of `Plugin`

    @property
    def is_file(self) -> bool:
        return ":" not in self.target

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]


_copies: Dict[str, Copy] = {}  # of this process, by reference
_path = ""  # of the file that names them


def find_copy(reference: str) -> Optional[Copy]:
    """The copy from which this process loads a plugin; None if it loads the plugin itself."""
    return _copies.get(reference)


def write_list(path: str, copies: Sequence[Copy]) -> None:
    """Write the copies to a file for `use_copies`."""
    write_json(path, [copy._asdict() for copy in copies])


def use_copies(path: str) -> None:
    """Load plugins from copies in this process.

    Args:
        path: of a file of `write_list`, which this user has just written.
    """
    global _path
    with open(path, encoding="utf-8") as file:
        _copies.update((values["reference"], Copy(**values)) for values in json.load(file))
    _path = path
    finders: List[Any] = sys.meta_path
    finders.insert(0, _CopyFinder([copy for copy in _copies.values() if not copy.is_file]))


def prelude() -> str:
    """Python statements with which another process uses the same copies; "" without copies."""
    return f"from {__name__} import use_copies; use_copies({_path!r}); " if _path else ""


class _CopyFinder:
    """Finds the modules that are copied, before any other finder.

    The submodules of a package come from its folder alone, so none of the installed package is
    mixed with the copy.
    """

    def __init__(self, copies: Sequence[Copy]):
        self._folders = {copy.module: copy.folder for copy in copies}

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        folder = self._folders.get(name)
        if folder is None:
            return None
        base = os.path.join(folder, name.rpartition(".")[2])
        if os.path.isdir(base):
            file = os.path.join(base, "__init__.py")
            return importlib.util.spec_from_file_location(
                name, file, submodule_search_locations=[base]
            )
        return importlib.util.spec_from_file_location(name, base + ".py")
