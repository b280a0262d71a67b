"""Contracts of hooks and options, which need no data."""

from __future__ import annotations

import json
import os
from typing import Any, Iterator, Tuple, Type

from ...config import read as read_config
from ...config import run_values
from ...options import Options, describe, format_value, map_paths, resolve
from ...plugins import hook_names
from ..subject import Subject
from .registry import Skip, contract, require


@contract
def hooks_have_known_names_and_arguments(subject: Subject) -> None:
    """Each hook has a known name and known arguments."""
    for plugin in subject.plugins.all:
        require(
            hook_names(plugin),
            f"'{plugin.name}' ({plugin.file}) implements no hook.",
            "Mark its functions with @toolkit.hookimpl.",
        )


@contract
def options_have_types_and_help(subject: Subject) -> None:
    """Each option has a type and a help text."""
    for plugin, cls in _options_classes(subject):
        for field in describe(cls):
            place = f"The option '{field.name}' of '{plugin}'"
            annotation = cls.model_fields[field.name].annotation
            require(
                field.help.strip(), f"{place} has no help text.", "Give option() a second argument."
            )
            require(
                annotation is not Any,
                f"{place} has the type Any, so its values are not checked.",
                "Annotate it with a type such as int, Optional[float] or List[int].",
            )


@contract
def options_survive_a_configuration(subject: Subject) -> None:
    """Each option has the same value after it was saved, and after it was written as a flag."""
    resolved = subject.resolve_without_data()
    options = resolved.options
    path = os.path.join(subject.folder, "options.json")
    with open(path, "w", encoding="utf-8") as file:
        contents = run_values("", [], options, subject.folder, resolved.origins)
        json.dump(contents, file)
    saved = resolve(subject.plugins.options(), [read_config(path)]).options
    for plugin, cls in _options_classes(subject):
        for name in cls.model_fields:
            expected = getattr(options, name)
            before, after = (
                map_paths(cls, name, getattr(each, name), _real) for each in (options, saved)
            )
            _require_equal(plugin, name, before, after, "saved and read again")
            text = format_value(expected)
            changes = {name: text} if text else {}
            actual = getattr(subject.resolve_without_data(**changes).options, name)
            _require_equal(plugin, name, expected, actual, f"written as the flag '{text}'")


def _real(path: str) -> str:
    """The absolute path of a file, of which a configuration has a relative one."""
    return os.path.realpath(os.path.expanduser(path))


def _require_equal(plugin: str, name: str, expected: Any, actual: Any, event: str) -> None:
    require(
        actual == expected,
        f"The option '{name}' of '{plugin}' is {expected!r}, and {actual!r} after it was {event}.",
        "Let its validators accept what they return, and declare a type that text can express.",
    )


def _options_classes(subject: Subject) -> Iterator[Tuple[str, Type[Options]]]:
    classes = subject.plugins.options()
    if not classes:
        raise Skip("the plugin has no options")
    yield from classes
