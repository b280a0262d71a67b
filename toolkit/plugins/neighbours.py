"""Import the modules beside a plugin's file, its neighbours, always from their source.

A plugin's folder is not added to `sys.path`, where a `numpy.py` in it would replace the installed
module for everybody: installed modules come first. The `.pyc` files of `__pycache__` are neither
read nor written, since nothing shows that they belong to the source.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import os
import sys
from typing import Any, Callable, List, Optional, Sequence, Set

# (folder of the plugin, path, SHA-256): raises an error to refuse the file
Permit = Callable[[str, str, str], None]


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles the very bytes that were permitted.

    Args:
        check: called with path and SHA-256 before the file is compiled.
        name: of the module.
        path: of its file.
    """

    def __init__(self, check: Callable[[str, str], None], name: str, path: str):
        super().__init__(name, path)
        self._check = check

    def get_code(self, fullname: str) -> Any:
        source = self.get_data(self.path)
        self._check(os.path.abspath(self.path), hashlib.sha256(source).hexdigest())
        return self.source_to_code(source, self.path)


class NeighbourFinder:
    """Finds top-level modules in one folder. In `sys.meta_path`, it follows Python's finders.

    Args:
        folder: absolute.
        permit: called with each file before it is executed.
    """

    def __init__(self, folder: str, permit: Permit):
        self.folder = folder
        self._check = functools.partial(permit, folder)
        self._modules: Set[str] = set()
        self._submodules = _SubmoduleFinder(self)

    def move_to_front(self) -> None:
        """Take the first place after Python's finders, before those of other folders."""
        finders: List[Any] = sys.meta_path
        if self in finders:
            finders.remove(self)
        else:
            finders.insert(0, self._submodules)
        others = [each for each in finders if not isinstance(each, NeighbourFinder)]
        finders.insert(len(others), self)

    def loader(self, name: str, path: str) -> SourceLoader:
        """The loader of a module from a file of the folder."""
        return SourceLoader(self._check, name, path)

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec of a top-level module in the folder, or None."""
        spec = None if path is not None else self.find_in([self.folder], name)
        if spec is not None:
            self._modules.add(name)
        return spec

    def is_owner(self, name: str) -> bool:
        """Whether a module is in a package that this finder found."""
        return name.partition(".")[0] in self._modules

    def find_in(
        self, folders: Sequence[str], name: str
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec of a module in one of these folders, or None."""
        source: Any = (functools.partial(SourceLoader, self._check), [".py"])
        extension = (
            importlib.machinery.ExtensionFileLoader,
            importlib.machinery.EXTENSION_SUFFIXES,
        )
        for folder in folders:
            finder: Any = importlib.machinery.FileFinder(folder, extension, source)
            spec = finder.find_spec(name)
            if spec is None or spec.loader is None and not _has_sources(spec):
                continue
            if isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
                with open(spec.origin, "rb") as file:
                    self._check(spec.origin, hashlib.sha256(file.read()).hexdigest())
            return spec
        return None


class _SubmoduleFinder:
    """Finds the submodules of a neighbour that is a package, before Python does.

    It is the first of `sys.meta_path`.
    """

    def __init__(self, owner: NeighbourFinder):
        self._owner = owner

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if path is None or not self._owner.is_owner(name):
            return None
        return self._owner.find_in(list(path), name)


def _has_sources(spec: importlib.machinery.ModuleSpec) -> bool:
    """Whether a folder without `__init__.py` is a package: it has Python files."""
    folders: List[str] = list(spec.submodule_search_locations or [])
    return any(name.endswith(".py") for folder in folders for name in os.listdir(folder))


def let_import(folder: str, permit: Permit) -> NeighbourFinder:
    """Let modules in a folder be imported, before those of other folders; return their finder.

    Args:
        folder: absolute.
        permit: called with each file before it is executed.
    """
    finders = [each for each in sys.meta_path if isinstance(each, NeighbourFinder)]
    finder = next(
        (each for each in finders if each.folder == folder), NeighbourFinder(folder, permit)
    )
    finder.move_to_front()
    return finder
