"""Where the modules of entry points are. Nothing is imported."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import pkgutil
from typing import Any, List, Optional


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
