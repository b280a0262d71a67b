"""Paths in the values of options: where relative ones start, and where a moved run has its files.

A run saves relative paths from its folder, and beside them the path of the folder itself. Its files
are then found if the run alone moved, and if they moved with it.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Sequence, Tuple, Type

from .. import data_value
from .declaration import Options, declared

REFERENCE = "reference"  # the `path` of an option whose value names a plugin
WEIGHTS = "weights"  # that of an option whose value names weights, as PATH or PATH@STEP

MapPath = Callable[[str], str]


def is_path_text(value: Any) -> bool:
    """Whether a value is text that can be a path: without NUL and without lone surrogates."""
    try:
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def map_paths(options: Type[Options], name: str, value: Any, function: MapPath) -> Any:
    """Return the value of an option, a text or a list of texts, with `function` applied to each
    path in it; other values, and those of options that the class does not declare, as they are.
    """
    facts = declared(options, name)
    form: Any = facts.get("path", False)
    words: Sequence[str] = facts.get("words", ())

    def map_path(text: Any) -> Any:
        if not isinstance(text, str) or text in ("", *words):
            return text
        if form is True:
            return function(text)
        if form == REFERENCE:
            return map_reference(text, function)
        if form == WEIGHTS:
            path, step = split_step(text)
            return join_step(function(path), step)
        prefix = next((prefix for prefix in form if text.startswith(prefix)), None)
        if prefix is not None:
            return prefix + function(text[len(prefix) :])
        completed = data_value.complete(function(text)) if text not in data_value.NAMES else text
        return completed if completed.startswith(tuple(form)) else text

    if not form:
        return value
    return [map_path(part) for part in value] if isinstance(value, list) else map_path(value)


def map_reference(reference: str, function: MapPath) -> str:
    """Return the reference of a plugin with `function` applied to its path.

    Names and `module:attribute` stay the same.
    """
    is_path = reference.endswith(".py") or os.sep in reference
    return function(reference) if is_path else reference


def split_step(text: str) -> Tuple[str, str]:
    """Return the path and the step of `PATH@STEP`; the step is "" if there is none."""
    match = re.fullmatch(r"(.+)@([0-9]+)", text, re.DOTALL | re.ASCII)
    return (match.group(1), match.group(2)) if match else (text, "")


def join_step(path: str, step: Any) -> str:
    """Return `PATH@STEP`, or the path if the step is "" or None."""
    return path if step in ("", None) else f"{path}@{step}"


def move_start(path: str, start: str, new_start: str) -> str:
    """Return a relative path that starts at the folder `start` as one that starts at `new_start`;
    an absolute one stays.
    """
    path = os.path.expanduser(path)
    if os.path.isabs(path):
        return path
    folder, name = os.path.split(path)
    if name in ("", ".", ".."):
        folder, name = path, ""
    # With `..` after the links before it; the last component may be a link, and stays one.
    folder = os.path.realpath(os.path.join(start, folder))
    real = os.path.join(folder, name) if name else folder
    return os.path.relpath(real, os.path.realpath(new_start))


def find_path(path: str, folders: Sequence[str]) -> str:
    """Return a path of a configuration file as a path that starts at the working directory.

    A relative path may start at each of the folders, the best first. An absolute path below or
    beside the second folder may have moved with it to the first. If it exists in none, the first
    counts.
    """
    here = os.getcwd()
    path = os.path.expanduser(path)
    paths = [move_start(path, folder, here) for folder in folders]
    if os.path.isabs(path) and len(folders) > 1:
        relative = os.path.relpath(path, folders[1])
        paths[1:] = [os.path.join(os.path.realpath(folders[0]), relative)]
    # A file or a folder, or a checkpoint whose prefix it is.
    found = (p for p in paths if os.path.exists(p) or os.path.isfile(p + ".index"))
    return next(found, paths[0] if paths else path)
