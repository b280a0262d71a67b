"""Configuration files: which plugins, which options, with paths that count from the file's own
folder.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Sequence

from .errors import UsageError
from .options import Options
from .storage.run_folder import RunFolder

PATH_PREFIXES = ("idx:", "npz:", "images:")


class Config(NamedTuple):
    """The content of a configuration file; paths in it count from the working directory."""

    plugin: str  # "" where the file names none
    extensions: List[str]
    values: Dict[str, Any]


def read(path: str) -> Config:
    """A TOML or JSON file with `plugin`, `with` and options. Raises UsageError."""
    return of_values(os.path.dirname(os.path.abspath(path)), read_config(path), path)


def read_config(path: str) -> Dict[str, Any]:
    """The flat mapping in a TOML or JSON file: `plugin`, `with` and option names.

    Raises UsageError where the file is missing, is neither, or is not one flat mapping.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
    try:
        text = raw.decode("utf-8-sig")  # some editors begin a file with a byte order mark
        values = json.loads(text) if path.endswith(".json") else _toml().loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.endswith(".json") else "TOML"
        raise UsageError(f"{path}: not valid {kind}: {error}.") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: expected names with values, found a {type(values).__name__}.")
    return {name.replace("-", "_"): value for name, value in values.items()}


def _toml():
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        import tomli as tomllib
    return tomllib


def of_values(folder: str, given: Dict[str, Any], path: str = "config.json") -> Config:
    """The same of values that stand, or stood, in a file of that folder."""
    values = dict(given)
    plugin, extensions = values.pop("plugin", ""), values.pop("with", [])
    if not isinstance(extensions, list) or not all(map(_is_name, [plugin, *extensions])):
        raise UsageError(f"{path}: 'plugin' is one name and 'with' a list of names.")
    if "data" in values:
        if not _is_name(values["data"]):
            raise UsageError(f"{path}: 'data' is text that may hold a path.")
        values["data"] = rebased(values["data"], folder, os.getcwd())
    return Config(
        rebased(plugin, folder, os.getcwd()),
        [rebased(name, folder, os.getcwd()) for name in extensions],
        values,
    )


def _is_name(value: Any) -> bool:
    """Whether it is text that can be a path: without NUL, without halves of characters."""
    try:
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def is_saved(path: str) -> bool:
    """Whether a file is the configuration that a run saved, which nobody wrote by hand."""
    folder, name = os.path.split(os.path.abspath(path))
    return name == "config.json" and os.path.exists(os.path.join(folder, "manifest.json"))


def read_run_config(folder: RunFolder) -> Config:
    """The configuration that a run saved. Raises CheckpointError where it is missing or damaged."""
    folder.read_config()
    return read(folder.file("config.json"))


def for_run(
    plugin: str, extensions: Sequence[str], options: Options, folder: str
) -> Dict[str, Any]:
    """What config.json of a run in `folder` holds: all that it takes to run it again."""
    values = options.model_dump(mode="json")
    here = os.getcwd()
    values["data"] = rebased(values["data"], here, folder)
    names = [rebased(name, here, folder) for name in extensions]
    return dict({"plugin": rebased(plugin, here, folder), "with": names}, **values)


def rebased(reference: str, here: str, there: str) -> str:
    """A reference with a relative path that counts from `here`, rewritten to count from `there`.

    Names, `module:attribute` and absolute paths stay as they are.
    """
    prefix, path = "", reference
    for known in PATH_PREFIXES:
        if reference.startswith(known):
            prefix, path = known, reference[len(known) :]
    is_path = bool(prefix) or reference.endswith(".py") or os.sep in reference
    path = os.path.expanduser(path)
    if not is_path or os.path.isabs(path):
        return prefix + path if is_path else reference
    return prefix + os.path.relpath(os.path.join(here, path), there)
