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
from typing import Any, List, Optional, Sequence, Set

from . import trust
from .modules import SUFFIXES, find_installed


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles the very bytes of a module's file that a plugin in an absolute folder may import."""

    def __init__(self, folder: str, name: str, path: str):
        super().__init__(name, path)
        self._folder = folder

    def get_code(self, fullname: str) -> Any:
        source = self.get_data(self.path)
        _permit(self._folder, self.path, source)
        return self.source_to_code(source, self.path)


class NeighbourFinder:
    """Finds the modules in one absolute folder that no other finder has, and all below them.

    In `sys.meta_path` it precedes Python's finders, which would read `.pyc` files of what is below.
    """

    finds_installed = False  # see `find_installed`

    def __init__(self, folder: str):
        self.folder = folder
        self._modules: Set[str] = set()  # those that it has found

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec of a top-level module in the folder, or of one in a package of it, or None."""
        if path is not None:
            is_below = name.partition(".")[0] in self._modules
            return self._find_in(path, name) if is_below else None
        files = [os.path.join(self.folder, name + suffix) for suffix in ("", *SUFFIXES)]
        if not any(map(os.path.exists, files)) or find_installed(name) is not None:
            return None
        spec = self._find_in([self.folder], name)
        if spec is not None:
            self._modules.add(name)
        return spec

    def _find_in(
        self, folders: Sequence[str], name: str
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec of a module in one of these folders, or None."""
        extension = importlib.machinery.ExtensionFileLoader
        loaders: Any = [
            (extension, importlib.machinery.EXTENSION_SUFFIXES),
            (functools.partial(SourceLoader, self.folder), [".py"]),
        ]
        for folder in folders:
            spec = importlib.machinery.FileFinder(folder, *loaders).find_spec(name)
            if spec is None:
                continue
            if spec.loader is None:  # a folder without __init__.py: is it a package?
                places = spec.submodule_search_locations or ()
                files = [file for place in places for file in os.listdir(place)]
                if not any(file.endswith(".py") for file in files):
                    continue
            if isinstance(spec.loader, extension):
                with open(str(spec.origin), "rb") as file:
                    _permit(self.folder, str(spec.origin), file.read())
            return spec
        return None


def _permit(folder: str, path: str, content: bytes) -> None:
    """Raise UsageError if a plugin in a folder may not import a file of this content."""
    trust.permit(folder, os.path.abspath(path), hashlib.sha256(content).hexdigest())


def let_import(folder: str) -> None:
    """Let modules in a folder, an absolute path, be imported, before those of other folders."""
    finders: List[Any] = sys.meta_path
    known = (f for f in finders if isinstance(f, NeighbourFinder) and f.folder == folder)
    finder = next(known, None) or NeighbourFinder(folder)
    finders[:] = [finder, *(each for each in finders if each is not finder)]
