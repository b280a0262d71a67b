"""What is wrong with the module of an entry point, as far as its source shows.

Nothing is imported.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import pkgutil
from typing import Any, List, Optional, Set

from .api_number import describe_other_api


def find_fault(target: str) -> str:
    """Why `module` or `module:attribute` cannot be loaded, as a clause; "" if nothing shows it."""
    module, _, attribute = target.partition(":")
    specs = _find_specs(module)
    if specs[-1] is None:
        missing = ".".join(module.split(".")[: len(specs)])
        return f"module '{missing}' cannot be found"
    path = specs[-1].origin or ""
    return _find_fault_in_source(path, module, attribute) if path.endswith(".py") else ""


def find_file(module: str) -> str:
    """The file of a module; "" if there is none."""
    spec = _find_specs(module)[-1]
    return (spec.origin or "") if spec is not None and spec.has_location else ""


def _find_specs(module: str) -> List[Optional[importlib.machinery.ModuleSpec]]:
    """The specs of the packages around a module and its own; None, the last, for a missing one."""
    specs: List[Optional[importlib.machinery.ModuleSpec]] = []
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        specs.append(_find_spec(".".join(parts[:count]), specs[-1] if specs else None))
        if specs[-1] is None:
            break
    return specs


def _find_spec(
    name: str, parent: Optional[importlib.machinery.ModuleSpec]
) -> Optional[importlib.machinery.ModuleSpec]:
    """The spec of a module. `importlib.util.find_spec` would import its parents."""
    try:
        if parent is None:
            return importlib.util.find_spec(name)
        places: Any = parent.submodule_search_locations or ()
        # Those of a package without __init__.py are computed again for each use, from its parent.
        finders = [pkgutil.get_importer(place) for place in getattr(places, "_path", places)]
        specs = [finder.find_spec(name) for finder in finders if finder is not None]
        return next((spec for spec in specs if spec is not None), None)
    except (ImportError, ValueError, AttributeError):
        return None


def _find_fault_in_source(path: str, module: str, attribute: str) -> str:
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except OSError as error:
        return f"{path}: {error.strerror}"
    except (SyntaxError, ValueError) as error:
        return f"{getattr(error, 'msg', error)} ({path}, line {getattr(error, 'lineno', '?')})"
    name = attribute.partition(".")[0]
    if name and name not in _bound_names(tree):
        return f"module '{module}' has no attribute '{name}'"
    return describe_other_api(_constant(tree, "TOOLKIT_API"))


def _bound_names(tree: ast.Module) -> Any:
    """All names that a module may bind, in any scope; everything if they do not show."""
    names: Set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    return names if not names & {"*", "__getattr__"} else _Everything()


class _Everything:
    """Contains every name."""

    def __contains__(self, name: str) -> bool:
        return True


def _constant(tree: ast.Module, name: str) -> Any:
    """The constant that a module assigns to a name at its top level, or None."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == [name]:
            try:
                return ast.literal_eval(node.value)
            except ValueError:
                return None
    return None
