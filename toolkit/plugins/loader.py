"""Import a plugin by its installed name, by `module:attribute`, or by the path of a file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import types
from typing import Any, Callable, List, Tuple

from ..errors import ToolkitError, UsageError, suggest
from .entry_points import Entry, list_plugins
from .failures import summarize_exception
from .plugin import Plugin, check_hooks


def load(reference: str, kind: str = "model") -> Plugin:
    """Import one plugin and check it.

    Args:
        reference: an installed name, `module:attribute`, `module:`, or the path of a .py file.
        kind: "model" or "extension".

    Raises:
        UsageError: there is no such plugin, or its hooks are wrong.
        ToolkitError: its import fails.
    """
    if reference.endswith(".py") or os.sep in reference:
        return _load_file(reference, kind)
    if ":" in reference:
        return _load_module(reference, kind)
    return _load_by_name(reference, kind)


def load_command(entry: Entry) -> Any:
    """The object that a command's entry point names. Raises UsageError and ToolkitError."""
    module, _, attribute = entry.target.partition(":")
    return _import_target("Command", entry.name, module, attribute)[0]


def _load_module(reference: str, kind: str) -> Plugin:
    module, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"'{reference}' names no module.", hint="Write module:attribute.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    name = attribute if attribute.isidentifier() else module
    return _load_target(name, reference, module, attribute, kind, "")


def _load_by_name(name: str, kind: str) -> Plugin:
    entries = list_plugins()
    matches = [entry for entry in entries if entry.name == name and entry.kind == kind]
    if not matches:
        raise _no_such_plugin(name, kind, entries)
    if len(matches) > 1:
        raise UsageError(
            f"{_noun(kind).capitalize()} '{name}' is provided by "
            f"{' and by '.join(entry.distribution for entry in matches)}.",
            hint=(
                "Uninstall one of them, or name one of "
                f"{', '.join(_as_reference(entry.target) for entry in matches)} instead."
            ),
        )
    entry = matches[0]
    module, _, attribute = entry.target.partition(":")
    distribution = f"{entry.distribution} {entry.version}"
    return _load_target(name, name, module, attribute, kind, distribution)


def _no_such_plugin(name: str, kind: str, entries: List[Entry]) -> UsageError:
    hint = suggest(name, [entry.name for entry in entries if entry.kind == kind])
    if any(entry.name == name for entry in entries):  # then it is of the other kind
        if kind == "model":
            hint = f"It is an extension: write --with {name}."
        else:
            hint = f"It is a model plugin: write --plugin {name}."
    return UsageError(f"There is no {_noun(kind)} '{name}'.", hint=hint)


def _noun(kind: str) -> str:
    return "plugin" if kind == "model" else "extension"


def _as_reference(target: str) -> str:
    return target if ":" in target else target + ":"


def _load_target(
    name: str, reference: str, module: str, attribute: str, kind: str, distribution: str
) -> Plugin:
    target, source = _import_target("Plugin", reference, module, attribute)
    return _make_plugin(name, reference, kind, target, source, distribution)


def _import_target(
    what: str, reference: str, module_name: str, attribute: str
) -> Tuple[Any, types.ModuleType]:
    """The object `attribute` of a module ('' for the module itself), and the module."""
    module = _import(what, reference, lambda: importlib.import_module(module_name))
    target: Any = module
    for part in attribute.split(".") if attribute else ():
        if not hasattr(target, part):
            raise UsageError(
                f"Module '{module_name}' has no attribute '{attribute}'.",
                hint=suggest(part, [name for name in dir(target) if not name.startswith("_")]),
            )
        target = getattr(target, part)
    return target, module


def _load_file(path: str, kind: str) -> Plugin:
    if not os.path.isfile(path):
        raise UsageError(f"There is no plugin file '{path}'.")
    name = os.path.splitext(os.path.basename(path))[0]
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)  # so that the file can import its neighbours
    module = _import("Plugin", path, lambda: _execute_file(name, path))
    return _make_plugin(name, path, kind, module, module, "")


def _execute_file(name: str, path: str) -> types.ModuleType:
    """Import a file as a module, under another name if a module of its name is imported already."""
    module_name = name if name not in sys.modules else "toolkit_file_" + name
    spec: Any = importlib.util.spec_from_file_location(module_name, path)
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _import(what: str, reference: str, action: Callable[[], Any]) -> Any:
    """action(), with any exception turned into a ToolkitError that names the reference."""
    try:
        return action()
    except ToolkitError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == reference.partition(":")[0]:
            raise UsageError(f"There is no module '{error.name}'.") from None
        raise ToolkitError(
            f"{what} '{reference}' cannot be imported: {summarize_exception(error)}."
        ) from error


def _make_plugin(
    name: str, reference: str, kind: str, target: Any, module: types.ModuleType, distribution: str
) -> Plugin:
    instance = _import("Plugin", reference, target) if inspect.isclass(target) else target
    file = os.path.abspath(getattr(module, "__file__", None) or reference)
    plugin = Plugin(name, reference, kind, instance, file, distribution)
    check_hooks(plugin)
    return plugin
