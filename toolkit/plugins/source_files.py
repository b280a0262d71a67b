"""The source files that a reference to code consists of, located without importing any."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import warnings
from typing import Dict, List, NamedTuple, Set

from ..errors import UsageError, suggest_path
from .modules import SUFFIXES, find_installed


class SourceFiles(NamedTuple):
    """The files of a plugin that is a file or a module."""

    name: str  # in the record of trusted code: a file's name, or a module's reference
    folder: str  # in which the files are
    # Whether Python finds the module by itself; otherwise, the modules in `folder` are its
    # neighbours, which it may import.
    is_installed: bool
    # Path in `folder` -> SHA-256 of the plugin's file and of the neighbours that it imports; of an
    # installed module, of its file and those of the packages around it.
    hashes: Dict[str, str]


def is_file(reference: str) -> bool:
    """Whether a reference of a plugin is a path."""
    return reference.endswith(".py") or os.sep in reference


def is_name(reference: str) -> bool:
    """Whether a reference is the name of an installed plugin, neither a file nor a module."""
    return not is_file(reference) and ":" not in reference


def locate(reference: str) -> SourceFiles:
    """Locate the files behind a reference. Raises UsageError if it names no file and no module."""
    return locate_file(reference) if is_file(reference) else _locate_module(reference)


def locate_file(path: str) -> SourceFiles:
    """Locate a Python file and its neighbours. Raises UsageError if it does not exist."""
    if not os.path.isfile(path):
        data = f"A folder of data is named with --data {path}, after a plugin."
        hint = data if os.path.isdir(path) else suggest_path(path)
        raise UsageError(f"There is no plugin file '{path}'.", hint=hint)
    folder, name = os.path.split(os.path.abspath(path))
    return SourceFiles(name, folder, False, _hash_with_neighbours(folder, [name]))


def _locate_module(reference: str) -> SourceFiles:
    parts = reference.partition(":")[0].split(".")
    if not all(part.isidentifier() for part in parts):
        raise UsageError(f"'{reference}' names no module.", hint="Write module:attribute.")
    here = os.getcwd()
    spec = find_installed(parts[0])
    if spec is None:
        names = _module_files(here, parts[0])
        if not names and parts[0] in sys.modules:  # made by code that ran before
            return SourceFiles(reference, "", True, {})
        if not names:
            raise UsageError(f"There is no module '{parts[0]}'.")
        return SourceFiles(reference, here, False, _hash_with_neighbours(here, names))
    places = list(spec.submodule_search_locations or [])
    place = places[0] if places else spec.origin if spec.has_location else None
    folder = os.path.dirname(os.path.abspath(place)) if place else ""  # "" for a built-in module
    if folder and os.path.realpath(folder) == os.path.realpath(here):
        names = _module_files(folder, parts[0])
        return SourceFiles(reference, folder, False, _hash_with_neighbours(folder, names))
    hashes = {}
    for count in range(1, len(parts) + 1 if folder else 0):  # the packages around it, and itself
        path = os.path.join(*parts[:count])
        for name in (os.path.join(path, "__init__.py"), path + ".py"):
            if os.path.isfile(os.path.join(folder, name)):
                hashes[name] = hashlib.sha256(_read(os.path.join(folder, name))).hexdigest()
    return SourceFiles(reference, folder, True, hashes)


# ------------------------------------------------------------------------------------- neighbours


def _hash_with_neighbours(folder: str, names: List[str]) -> Dict[str, str]:
    """Path -> SHA-256 of files in a folder, and of the neighbours that they import, and so on."""
    hashes: Dict[str, str] = {}
    remaining = list(names)
    while remaining:
        name = remaining.pop()
        if name in hashes:
            continue
        content = _read(os.path.join(folder, name))
        hashes[name] = hashlib.sha256(content).hexdigest()
        if name.endswith(".py"):
            for module in _imported_modules(content):
                remaining += _module_files(folder, module)
    return hashes


def _imported_modules(source: bytes) -> Set[str]:
    """The top-level modules that import statements anywhere in the source name, but for the
    toolkit: it runs already, so one in the folder is not imported.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()  # its import will fail
    modules: Set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module)
    return {module.partition(".")[0] for module in modules} - {__name__.partition(".")[0]}


def _module_files(folder: str, module: str) -> List[str]:
    """The files in a folder of a top-level module; for a package, all of its files."""
    files = [module + suffix for suffix in SUFFIXES]
    files = [name for name in files if os.path.isfile(os.path.join(folder, name))]
    for root, _, names in os.walk(os.path.join(folder, module)):
        paths = [os.path.join(root, name) for name in names if name.endswith(SUFFIXES)]
        files += [os.path.relpath(path, folder) for path in paths if os.path.isfile(path)]
    return sorted(files)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
