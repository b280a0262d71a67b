"""Where modules are. Nothing is imported."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import pkgutil
import sys
from typing import Any, List, Optional

SUFFIXES = (".py", *importlib.machinery.EXTENSION_SUFFIXES)


def find_fault(target: str) -> str:
    """Why `module` or `module:attribute` cannot be imported, as a clause; "" if it is there."""
    module = target.partition(":")[0]
    specs = _find_specs(module)
    missing = ".".join(module.split(".")[: len(specs)])
    return "" if specs[-1] is not None else f"module '{missing}' cannot be found"


def find_file(module: str) -> str:
    """The file of a module; "" if there is none."""
    spec = _find_specs(module)[-1]
    return (spec.origin or "") if spec is not None and spec.has_location else ""


def find_installed(name: str) -> Optional[importlib.machinery.ModuleSpec]:
    """The spec of an installed top-level module, or None."""
    for finder in sys.meta_path:
        if getattr(finder, "finds_installed", hasattr(finder, "find_spec")):
            spec = finder.find_spec(name, None)
            if spec is not None:
                return spec
    return None


def _find_specs(module: str) -> List[Optional[importlib.machinery.ModuleSpec]]:
    """The specs of the packages around a module and its own; None, the last, for a missing one.

    Nothing is imported; `importlib.util.find_spec` would import the parents of a module.
    """
    specs: List[Optional[importlib.machinery.ModuleSpec]] = []
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name, spec = ".".join(parts[:count]), None
        with contextlib.suppress(ImportError, ValueError, AttributeError):
            if not specs or specs[-1] is None:
                spec = importlib.util.find_spec(name)
            else:
                places: Any = specs[-1].submodule_search_locations or ()
                # Those of a package without __init__.py are computed again for each use, from its
                # parent.
                finders = map(pkgutil.get_importer, getattr(places, "_path", places))
                found = (finder.find_spec(name) for finder in finders if finder is not None)
                spec = next((each for each in found if each is not None), None)
        specs.append(spec)
        if spec is None:
            break
    return specs
