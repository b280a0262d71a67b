"""Configuration files: which plugins, which options. Relative paths start at the file's folder."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Dict, List, NamedTuple, Sequence

from .errors import UsageError
from .options import Options
from .storage.run_folder import RunFolder

PATH_PREFIXES = ("idx:", "npz:", "images:")


class Config(NamedTuple):
    """The contents of a configuration file. Paths in it start at the working directory."""

    plugin: str  # "" if the file names none
    extensions: List[str]
    values: Dict[str, Any]  # of options, by name


def read(path: str) -> Config:
    """Read a TOML or JSON file with `plugin`, `with` and options. Raises UsageError."""
    return parse_values(os.path.dirname(os.path.abspath(path)), read_values(path), path)


def read_values(path: str) -> Dict[str, Any]:
    """Read the values in a TOML or JSON file: `plugin`, `with` and options by name.

    Raises UsageError if the file is missing, is neither, or is not one flat mapping.
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


def _toml() -> Any:
    try:
        return importlib.import_module("tomllib")
    except ImportError:  # before Python 3.11
        return importlib.import_module("tomli")


def parse_values(folder: str, contents: Dict[str, Any], path: str = "config.json") -> Config:
    """As `read`, for values that were already read.

    Args:
        folder: the folder of the file, at which relative paths start.
        contents: the values.
        path: the file, for messages.
    """
    values = dict(contents)
    plugin, extensions = values.pop("plugin", ""), values.pop("with", [])
    if not isinstance(extensions, list) or not all(map(_is_name, [plugin, *extensions])):
        raise UsageError(f"{path}: 'plugin' is one name and 'with' a list of names.")
    if "data" in values:
        if not _is_name(values["data"]):
            raise UsageError(f"{path}: 'data' is text that may hold a path.")
        values["data"] = rebase(values["data"], folder, os.getcwd())
    return Config(
        rebase(plugin, folder, os.getcwd()),
        [rebase(name, folder, os.getcwd()) for name in extensions],
        values,
    )


def _is_name(value: Any) -> bool:
    """Whether a value is text that can be a path: without NUL and without lone surrogates."""
    try:
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def is_run_config(path: str) -> bool:
    """Whether a run saved the file, so that nobody wrote it by hand."""
    folder, name = os.path.split(os.path.abspath(path))
    return name == "config.json" and os.path.exists(os.path.join(folder, "manifest.json"))


def read_run_config(folder: RunFolder) -> Config:
    """Read the configuration that a run saved. Raises CheckpointError if it is damaged."""
    folder.read_config()
    return read(folder.file("config.json"))


def run_values(
    plugin: str, extensions: Sequence[str], options: Options, folder: str
) -> Dict[str, Any]:
    """Return the contents of config.json in a run's folder: everything to train the run again."""
    here = os.getcwd()
    values = options.model_dump(mode="json")
    values["data"] = rebase(values["data"], here, folder)
    references = [rebase(reference, here, folder) for reference in extensions]
    return dict({"plugin": rebase(plugin, here, folder), "with": references}, **values)


def rebase(reference: str, start: str, new_start: str) -> str:
    """Rewrite a reference with a relative path so that the path has another starting point.

    Names, `module:attribute` and absolute paths stay the same.

    Args:
        reference: of a plugin or of data.
        start: the folder at which the path starts.
        new_start: the folder at which the result starts.
    """
    prefix, path = "", reference
    for known in PATH_PREFIXES:
        if reference.startswith(known):
            prefix, path = known, reference[len(known) :]
    is_path = bool(prefix) or reference.endswith(".py") or os.sep in reference
    path = os.path.expanduser(path)
    if not is_path or os.path.isabs(path):
        return prefix + path if is_path else reference
    return prefix + os.path.relpath(os.path.join(start, path), new_start)
