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

SUFFIXES = (".py", *importlib.machinery.EXTENSION_SUFFIXES)
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
    """Finds the modules in one folder that no other finder has, and all that is below them.

    In `sys.meta_path` it precedes Python's finders, which would read `.pyc` files of what is below.

    Args:
        folder: absolute.
        permit: called with each file before it is executed.
    """

    def __init__(self, folder: str, permit: Permit):
        self.folder = folder
        self._check = functools.partial(permit, folder)
        self._modules: Set[str] = set()  # those that it has found

    def loader(self, name: str, path: str) -> SourceLoader:
        """The loader of a module from a file of the folder."""
        return SourceLoader(self._check, name, path)

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec of a top-level module in the folder, or of one in a package of it, or None."""
        if path is not None:
            is_below = name.partition(".")[0] in self._modules
            return self._find_in(path, name) if is_below else None
        files = [os.path.join(self.folder, name + suffix) for suffix in ("", *SUFFIXES)]
        if not any(map(os.path.exists, files)) or find_module(name) is not None:
            return None
        spec = self._find_in([self.folder], name)
        if spec is not None:
            self._modules.add(name)
        return spec

    def _find_in(
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


def _has_sources(spec: importlib.machinery.ModuleSpec) -> bool:
    """Whether a folder without `__init__.py` is a package: it has Python files."""
    folders: List[str] = list(spec.submodule_search_locations or [])
    return any(name.endswith(".py") for folder in folders for name in os.listdir(folder))


def find_module(name: str) -> Optional[importlib.machinery.ModuleSpec]:
    """The spec of an installed top-level module, or None. Nothing is imported."""
    for finder in sys.meta_path:
        if not isinstance(finder, NeighbourFinder) and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, None)
            if spec is not None:
                return spec
    return None


def let_import(folder: str, permit: Permit) -> NeighbourFinder:
    """Let modules in a folder be imported, before those of other folders; return their finder.

    Args:
        folder: absolute.
        permit: called with each file before it is executed.
    """
    finders: List[Any] = sys.meta_path
    known = [each for each in finders if isinstance(each, NeighbourFinder)]
    finder = next((each for each in known if each.folder == folder), None)
    if finder is None:
        finder = NeighbourFinder(folder, permit)
    else:
        finders.remove(finder)
    finders.insert(0, finder)
    return finder
