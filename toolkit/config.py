"""Configuration files: which plugins, which options. Relative paths start at the file's folder.

A run saves relative paths, so that it can move together with its data, and the path of its folder
(`folder`), so that it can move alone: a path is tried from both. It also saves where it had each
value from (`origins`), so that a preset can replace what another one set.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Type

from .errors import UsageError
from .options import (
    FOLDER,
    ORIGINS,
    Config,
    Options,
    Origin,
    find_path,
    is_path_text,
    map_paths,
    map_reference,
    move_start,
    read_origins,
)
from .options.values import short_repr
from .storage.run_folder import RunFolder


def read(path: str) -> Config:
    """Read a TOML or JSON file with `plugin`, `with` and options.

    Raises UsageError if the file is missing, is neither, or is not one flat mapping.
    """
    try:
        toml = importlib.import_module("tomllib")
    except ImportError:  # before Python 3.11
        toml = importlib.import_module("tomli")
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
    try:
        text = raw.decode("utf-8-sig")  # some editors begin a file with a byte order mark
        unique = functools.partial(_unique, path)
        is_json = path.endswith(".json")
        values = json.loads(text, object_pairs_hook=unique) if is_json else toml.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.endswith(".json") else "TOML"
        raise UsageError(f"{path}: not valid {kind}: {error}.") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: expected names with values, found a {type(values).__name__}.")
    values = _unique(path, [(name.replace("-", "_"), value) for name, value in values.items()])
    return parse_values(os.path.dirname(os.path.abspath(path)), values, path)


def _unique(path: str, pairs: Sequence[Tuple[str, Any]]) -> Dict[str, Any]:
    """Pairs as a dict. Raises UsageError if two of one name differ."""
    values: Dict[str, Any] = {}
    for name, value in pairs:
        if values.setdefault(name, value) not in (value,):  # unlike `!=`, where it is NaN
            raise UsageError(
                f"{path}: '{name}' is set twice: to {short_repr(values[name])} and to "
                f"{short_repr(value)}.",
                hint="Set it once.",
            )
    return values


def parse_values(folder: str, contents: Mapping[str, Any], path: str = "config.json") -> Config:
    """As `read`, for values that were already read from a file (named in messages) in a folder, at
    which relative paths start.
    """
    values = dict(contents)
    former, saved = values.get(FOLDER, ""), values.get(ORIGINS)
    is_place = is_path_text(former) and os.path.isabs(former)
    folders = [folder, former] if is_place else [folder]
    is_saved = is_place or isinstance(saved, dict)  # by a run; else they are names of no options
    for name in (FOLDER, ORIGINS) if is_saved else ():
        values.pop(name, None)
    plugin, extensions = values.pop("plugin", ""), values.pop("with", [])
    if not isinstance(extensions, list) or not all(map(is_path_text, [plugin, *extensions])):
        raise UsageError(f"{path}: 'plugin' is one name and 'with' a list of names.")
    plugin, *extensions = [
        map_reference(reference, lambda name: find_path(name, folders))
        for reference in [plugin, *extensions]
    ]
    origins = read_origins(saved, path) if is_saved else None
    return Config(path, values, folders, origins, plugin, extensions)


def read_run_config(folder: RunFolder) -> Config:
    """Read the configuration that a run saved. Raises CheckpointError if it is damaged, FormatError
    if another version of the toolkit wrote the run, with other options.
    """
    folder.commits.check_format()
    folder.read_config()
    return read(folder.file("config.json"))


def run_values(
    plugin: str,
    extensions: Sequence[str],
    options: Options,
    folder: str,
    origins: Optional[Mapping[str, Origin]] = None,
) -> Dict[str, Any]:
    """The contents of config.json in a run's folder: everything to train the run again."""
    values = options.model_dump(mode="json")
    config = Config("", values, (), origins, plugin, extensions)
    return dict(move(config, type(options), folder), **{FOLDER: os.path.realpath(folder)})


def move(config: Config, options: Type[Options], folder: str) -> Dict[str, Any]:
    """The contents of a configuration file in another folder, with the same meaning."""
    here = os.getcwd()

    def move_path(path: str) -> str:
        return move_start(find_path(path, config.folders), here, folder)

    plugin, *extensions = [
        map_reference(reference, lambda path: move_start(path, here, folder))
        for reference in config.references
    ]
    contents: Dict[str, Any] = {"plugin": plugin, "with": extensions}
    for name, value in config.values.items():
        contents[name] = map_paths(options, name, value, move_path)
    if config.origins is not None:
        contents[ORIGINS] = {name: origin.saved for name, origin in config.origins.items()}
        contents[FOLDER] = next(iter(config.folders), folder)
    return contents
