"""What a reference on the command line names, and what it is checked with."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from ...errors import ToolkitError

TINY_MODEL = "toolkit.testing.tiny:TinyModel"  # `toolkit.testing` would import TensorFlow


def find_kind(name: str) -> str:
    """Return the kind of what a reference names: "model", "extension" or "command"."""
    from ...plugins import hook_names, is_name, list_commands, list_plugins, load

    if is_name(name):
        kinds = [entry.kind for entry in list_plugins() + list_commands() if entry.name == name]
        return kinds[0] if kinds else "model"
    try:
        return "extension" if hook_names(load(name, "extension")) else "model"
    except ToolkitError:
        return "model"  # whose loading reports what is wrong


def split_references(name: str, others: Sequence[str]) -> Tuple[str, List[str]]:
    """Return the references of the model plugin and of the extensions that are checked."""
    if find_kind(name) == "extension":
        return TINY_MODEL, [name, *others]
    return name, list(others)
