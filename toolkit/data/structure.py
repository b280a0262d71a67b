"""Structures of arrays: features and labels are one array each, or a dict of arrays by name.

Within the core a pair of structures is flat: a dict with the key "features" or "labels" for a
single array, and "features/left" or "labels/mask" for an array that has a name.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Tuple

from ..errors import DataError

FEATURES, LABELS = "features", "labels"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


def flatten(features: Any, labels: Any = None) -> Dict[str, Any]:
    """The leaves of two structures by their flat keys, in the order of their names. Each is a dict
    by name or anything else, and labels may be None. Raises a DataError for an empty dict, or a
    name that is not usable.
    """
    flat: Dict[str, Any] = {}
    for role, structure in ((FEATURES, features), (LABELS, labels)):
        if isinstance(structure, Mapping):
            if not structure:
                raise DataError(f"The {role} are an empty dict.", hint="Give at least one array.")
            for name in structure:
                if not (isinstance(name, str) and _NAME.match(name)):
                    raise DataError(
                        f"A {role[:-1]} is named {name!r}.",
                        hint="Use letters, digits and underscores, a letter first.",
                    )
            flat.update((f"{role}/{name}", structure[name]) for name in sorted(structure))
        elif structure is not None:
            flat[role] = structure
    return flat


def pack(flat: Mapping[str, Any]) -> Tuple[Any, Any]:
    """The inverse of `flatten`: features and labels, None where there are none."""
    return pack_role(flat, FEATURES), pack_role(flat, LABELS)


def pack_role(flat: Mapping[str, Any], role: str) -> Any:
    """The structure of one role, FEATURES or LABELS; None if no leaf has it."""
    if role in flat:
        return flat[role]
    prefix = role + "/"
    by_name = {key[len(prefix) :]: leaf for key, leaf in flat.items() if key.startswith(prefix)}
    return by_name or None


def describe_key(key: str) -> str:
    """A flat key in a sentence: "features", or "the feature 'left'"."""
    role, slash, name = key.partition("/")
    return f"the {role[:-1]} '{name}'" if slash else role
