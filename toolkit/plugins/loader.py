"""Import a plugin by its installed name, by `module:attribute`, or by the path of a file."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import types
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from .. import __version__
from ..errors import ToolkitError, UsageError, suggest
from . import trust
from .entry_points import Entry, list_plugins
from .failures import TRACEBACK_HINT, describe_failure
from .modules import find_file, find_installed
from .neighbours import SourceLoader, let_import
from .plugin import NOUNS, Plugin, check_hooks, plugin_name
from .source_files import SourceFiles, is_file, is_name, locate

PACKAGE = __name__.partition(".")[0]


def load(reference: str, kind: str = "model", named_by: str = "") -> Plugin:
    """Import one plugin, of the kind "model" or "extension", and check it.

    The reference is an installed name, `module:attribute`, `module:`, or the path of a .py file.
    What the file `named_by` names ("": the user does) is loaded only if it is installed or trusted,
    see `trust`. Raises UsageError if there is no such plugin, it is not trusted, or its hooks are
    wrong; ToolkitError if its import fails.
    """
    files = require_trust(reference, named_by)
    if files is None:
        entry = _find_entry(reference, kind, named_by)
        owner = f"{entry.distribution} {entry.version}"
        subject = f"{NOUNS[kind].capitalize()} '{reference}'"
        if entry.reason.startswith("needs "):
            raise UsageError(
                f"{subject} of {owner} {entry.reason}.",
                hint=f"Install that version of toolkit, or another one of {entry.distribution}.",
            )
        if entry.reason:
            missing = entry.reason.replace(" cannot be found", ", which does not exist")
            raise ToolkitError(
                f"{subject} cannot be imported: its entry point, of {owner}, names the {missing}.",
                hint=f"Reinstall {entry.distribution}, or correct the entry point in its "
                "pyproject.toml.",
            )
        target, module = _import_target("Plugin", reference, entry.target)
        return _make_plugin(reference, reference, kind, target, module, owner)
    name = plugin_name(reference)
    if is_file(reference):
        return _load_file(name, reference, kind, files)
    if not files.is_installed:
        let_import(files.folder)
    target, module = _import_target("Plugin", reference, reference)
    return _make_plugin(name, reference, kind, target, module, "")


def require_trust(reference: str, named_by: str) -> Optional[SourceFiles]:
    """Check that `load` may load a plugin, without importing anything; return its files, or None
    for the name of an installed plugin. Raises UsageError if it is not trusted, or there is no such
    file or module.
    """
    if is_name(reference):
        return None
    files = locate(reference)
    trust.check(reference, files, named_by)
    return files


def load_command(entry: Entry) -> Any:
    """The object that the entry point of a command or a driver names. Raises UsageError, also if
    several distributions provide it, and ToolkitError.
    """
    if entry.state == "conflict":
        raise UsageError(
            f"{entry.kind.capitalize()} '{entry.name}' of {entry.distribution} is {entry.reason}.",
            hint="Uninstall one of them.",
        )
    return _import_target("Command", entry.name, entry.target)[0]


def _find_entry(name: str, kind: str, named_by: str) -> Entry:
    """The installed plugin of a name. Raises UsageError if there is not exactly one."""
    entries = list_plugins()
    matches = [entry for entry in entries if (entry.kind, entry.name) == (kind, name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        targets = [each.target + ":" * (":" not in each.target) for each in matches]
        raise UsageError(
            f"{NOUNS[kind].capitalize()} '{name}' is provided by "
            f"{' and by '.join(each.distribution for each in matches)}.",
            hint="Uninstall one of them."
            if named_by  # a run keeps its plugins
            else f"Uninstall one of them, or name one of {', '.join(targets)} instead.",
        )
    hint = ""
    if kind == "model" and not named_by and os.path.exists(name):
        hint = f"It is a path: name it with --data {name}, after a plugin."
        if os.path.isfile(os.path.join(name, "pyproject.toml")):
            hint = f"If it is the package of the plugin, install it: pip install -e ./{name}"
    hint = hint or suggest(name, [entry.name for entry in entries if entry.kind == kind])
    if any(entry.name == name for entry in entries):  # then it is of the other kind
        other = "--with" if kind == "model" else "--plugin"
        what = "an extension" if kind == "model" else "a model plugin"
        hint = f"It is {what}: write {other} {name}."
    raise UsageError(f"There is no {NOUNS[kind]} '{name}'.", hint=hint)


def _import_target(what: str, reference: str, place: str) -> Tuple[Any, types.ModuleType]:
    """The object that `module:attribute`, or `module`, names, and the module."""
    name, _, attribute = place.partition(":")
    module = _import(what, reference, lambda: importlib.import_module(name), find_file(name))
    target: Any = module
    for part in attribute.split(".") if attribute else ():
        if not hasattr(target, part):
            raise UsageError(
                f"Module '{name}' has no attribute '{attribute}'.",
                hint=suggest(part, [each for each in dir(target) if not each.startswith("_")]),
            )
        target = getattr(target, part)
    return target, module


def _load_file(name: str, path: str, kind: str, files: SourceFiles) -> Plugin:
    file = os.path.join(files.folder, files.name)
    try:
        module = _import("Plugin", path, lambda: _execute_file(name, file, files.hashes), file)
    except ToolkitError as error:
        cause = error.__cause__
        missing = cause.name or "" if isinstance(cause, ImportError) else ""
        neighbour = os.path.join(os.path.dirname(path), missing + ".py")
        if missing.isidentifier() and os.path.exists(neighbour):
            error.hint = (
                f"The installed module '{missing}' precedes the file {missing}.py; rename the file."
            )
        raise
    return _make_plugin(name, path, kind, module, module, "")


# The path of a plugin's file -> its module, and the hashes of its files when it was executed.
_executed: Dict[str, Tuple[types.ModuleType, Mapping[str, str]]] = {}


def _execute_file(name: str, path: str, hashes: Mapping[str, str]) -> types.ModuleType:
    """Import a file as a module, under another name if there is another module of its name.

    Like any module it is executed once in a process, or what it registers would be there already,
    and once more when it or a neighbour that it imports has changed.
    """
    let_import(os.path.dirname(path))
    former, known = _executed.get(path, (None, {}))
    if former is not None and known == hashes and sys.modules.get(former.__name__) is former:
        return former
    is_free = name not in sys.modules and find_installed(name) is None
    module_name = name if is_free else "toolkit_file_" + name
    loader = SourceLoader(os.path.dirname(path), module_name, path)
    spec: Any = importlib.util.spec_from_file_location(module_name, path, loader=loader)
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(module_name, None)
        raise
    _executed[path] = module, hashes
    return module


def _import(what: str, reference: str, action: Callable[[], Any], file: str = "") -> Any:
    """action(), with any exception turned into a ToolkitError that names the reference."""
    try:
        return action()
    except ToolkitError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == reference.partition(":")[0]:
            raise UsageError(f"There is no module '{error.name}'.") from None
        failure = describe_failure(error, file)
        hint = _explain_import(error) or ("" if failure.hint == TRACEBACK_HINT else failure.hint)
        raise ToolkitError(
            f"{what} '{reference}' cannot be imported: {failure.text}.", hint=hint
        ) from error


def _explain_import(error: BaseException) -> str:
    """What to do about a name or a module that cannot be imported; "" for other errors."""
    if not isinstance(error, ImportError) or not error.name:
        return ""
    if isinstance(error, ModuleNotFoundError):
        return f"Install what provides '{error.name.partition('.')[0]}'."
    match = re.match(r"cannot import name '(\w+)'", str(error))
    if match is None or error.name.partition(".")[0] != PACKAGE:
        return ""
    if error.name == PACKAGE:
        names = sys.modules[PACKAGE].__dir__()
        public = [name for name in names if not name.startswith("_")]
        nearest = difflib.get_close_matches(match.group(1), public, n=1)
        if nearest:
            return f"Did you mean '{nearest[0]}'? This is toolkit {__version__}."
        return f"This is toolkit {__version__}, which has no such name; another version may."
    return f"'{error.name}' is internal; plugins import from '{PACKAGE}' alone."


def _make_plugin(
    name: str, reference: str, kind: str, target: Any, module: types.ModuleType, distribution: str
) -> Plugin:
    file = os.path.abspath(getattr(module, "__file__", None) or reference)
    is_class = inspect.isclass(target)
    instance = _import("Plugin", reference, target, file) if is_class else target
    plugin = Plugin(name, reference, kind, instance, file, distribution)
    check_hooks(plugin)
    return plugin
