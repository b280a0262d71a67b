"""Import a plugin by its installed name, by `module:attribute`, or by the path of a file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import types
from typing import Any, Callable, List, Optional, Tuple

from ..errors import ToolkitError, UsageError, suggest
from . import trust
from .entry_points import Entry, list_plugins
from .failures import summarize_exception
from .neighbours import let_import
from .plugin import Plugin, check_hooks
from .source_files import SourceFiles, find_module, is_file, is_name, locate


def load(reference: str, kind: str = "model", named_by: str = "") -> Plugin:
    """Import one plugin and check it.

    Args:
        reference: an installed name, `module:attribute`, `module:`, or the path of a .py file.
        kind: "model" or "extension".
        named_by: the file that names the plugin; "" if the user does. What a file names is loaded
            only if it is installed or trusted, see `trust`.

    Raises:
        UsageError: there is no such plugin, it is not trusted, or its hooks are wrong.
        ToolkitError: its import fails.
    """
    files = require_trust(reference, named_by)
    if files is None:
        return _load_by_name(reference, kind)
    if is_file(reference):
        return _load_file(reference, kind)
    return _load_module(reference, kind, files)


def require_trust(reference: str, named_by: str) -> Optional[SourceFiles]:
    """Check that `load` may load a plugin, without importing anything.

    Args:
        reference: of the plugin.
        named_by: the file that names it; "" if the user does.

    Returns:
        Its files; None for the name of an installed plugin.

    Raises:
        UsageError: it is not trusted, or there is no such file or module.
    """
    if is_name(reference):
        return None
    files = locate(reference)
    trust.check(reference, files, named_by)
    return files


def load_command(entry: Entry) -> Any:
    """The object that a command's entry point names. Raises UsageError and ToolkitError."""
    module, _, attribute = entry.target.partition(":")
    return _import_target("Command", entry.name, module, attribute)[0]


def _load_module(reference: str, kind: str, files: SourceFiles) -> Plugin:
    module, _, attribute = reference.partition(":")
    if not files.is_installed:
        let_import(files.folder, trust.permit)
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
    name = os.path.splitext(os.path.basename(path))[0]
    try:
        module = _import("Plugin", path, lambda: _execute_file(name, path))
    except ToolkitError as error:
        error.hint = error.hint or _explain_precedence(error.__cause__, os.path.dirname(path))
        raise
    return _make_plugin(name, path, kind, module, module, "")


def _explain_precedence(error: Optional[BaseException], folder: str) -> str:
    """What to do if a plugin got an installed module in place of its neighbour; else ''."""
    name = error.name or "" if isinstance(error, ImportError) else ""
    if not name.isidentifier() or not os.path.exists(os.path.join(folder, name + ".py")):
        return ""
    return f"The installed module '{name}' precedes the file {name}.py; rename the file."


def _execute_file(name: str, path: str) -> types.ModuleType:
    """Import a file as a module, under another name if there is another module of its name."""
    path = os.path.abspath(path)  # of which tracebacks find the lines in any working directory
    neighbours = let_import(os.path.dirname(path), trust.permit)
    is_free = name not in sys.modules and find_module(name) is None
    module_name = name if is_free else "toolkit_file_" + name
    loader = neighbours.loader(module_name, path)
    spec: Any = importlib.util.spec_from_file_location(module_name, path, loader=loader)
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
