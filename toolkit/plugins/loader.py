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
from typing import Any, Callable, List, Optional, Tuple

from .. import __version__
from ..errors import ToolkitError, UsageError, suggest
from . import trust
from .entry_points import GROUPS, Entry, EntryPoint, find_entry_points, normalize_distribution
from .failures import TRACEBACK_HINT, describe_failure
from .modules import find_file
from .neighbours import find_module, let_import
from .plugin import Plugin, check_hooks, plugin_name
from .source_files import SourceFiles, is_file, is_name, locate

PACKAGE = __name__.partition(".")[0]


def load(reference: str, kind: str = "model", named_by: str = "", distribution: str = "") -> Plugin:
    """Import one plugin and check it.

    Args:
        reference: an installed name or `name@distribution`, `module:attribute`, `module:`, or the
            path of a .py file.
        kind: "model" or "extension".
        named_by: the file that names the plugin; "" if the user does. What a file names is loaded
            only if it is installed or trusted, see `trust`.
        distribution: which one of several that offer a name to take, if it is one of them; with or
            without its version.

    Raises:
        UsageError: there is no such plugin, it is not trusted, or its hooks are wrong.
        ToolkitError: its import fails.
    """
    files = require_trust(reference, named_by)
    if files is None:
        return _load_by_name(reference, kind, distribution)
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
    return _load_target(plugin_name(reference), reference, module, attribute, kind, "")


def _load_by_name(reference: str, kind: str, distribution: str) -> Plugin:
    point = _choose_entry_point(reference, kind, distribution)
    unmet = point.unmet_requirement
    if unmet:
        raise UsageError(
            f"{_noun(kind).capitalize()} '{point.name}' of {point.distribution} {point.version} "
            f"{unmet}.",
            hint=f"Install that version of toolkit, or another one of {point.distribution}.",
        )
    module, _, attribute = point.target.partition(":")
    owner = f"{point.distribution} {point.version}"
    try:
        return _load_target(point.name, reference, module, attribute, kind, owner)
    except ToolkitError as error:
        cause = error.__cause__ or error.__context__
        name = cause.name or "" if isinstance(cause, ModuleNotFoundError) else ""
        if name and f"{module}.".startswith(f"{name}."):
            raise _no_such_module(point, name) from cause
        raise


def _no_such_module(point: EntryPoint, module: str) -> ToolkitError:
    return ToolkitError(
        f"{_noun(point.kind).capitalize()} '{point.name}' cannot be imported: its entry point, of "
        f"{point.distribution} {point.version}, names the module '{module}', which does not exist.",
        hint=f"Reinstall {point.distribution}, or correct the entry point in its pyproject.toml.",
    )


def _choose_entry_point(reference: str, kind: str, distribution: str) -> EntryPoint:
    """The entry point that a name stands for. Raises UsageError if there is not exactly one."""
    points = find_entry_points(GROUPS)
    name, at, own_distribution = reference.partition("@")
    matches = [point for point in points if (point.kind, point.name) == (kind, name)]
    if at:
        matches = _of_distribution(matches, own_distribution)
    if not matches:
        raise _no_such_plugin(reference, kind, points)
    matches = _of_distribution(matches, distribution.partition(" ")[0]) or matches
    if len(matches) > 1:
        names = " or ".join(f"{name}@{point.distribution}" for point in matches)
        raise UsageError(
            f"{_noun(kind).capitalize()} '{name}' is provided by "
            f"{' and by '.join(point.distribution for point in matches)}.",
            hint=f"Write {names}, uninstall one of them, or name one of "
            f"{', '.join(_as_reference(point.target) for point in matches)} instead.",
        )
    return matches[0]


def _of_distribution(points: List[EntryPoint], distribution: str) -> List[EntryPoint]:
    """Those of a distribution, in whichever way its name is written."""
    name = normalize_distribution(distribution)
    return [point for point in points if normalize_distribution(point.distribution) == name]


def _no_such_plugin(reference: str, kind: str, points: List[EntryPoint]) -> UsageError:
    name, at, distribution = reference.partition("@")
    same_name = [point for point in points if (point.kind, point.name) == (kind, name)]
    hint = suggest(name, [point.name for point in points if point.kind == kind])
    if any(point.name == name for point in points):  # then it is of the other kind
        if kind == "model":
            hint = f"It is an extension: write --with {name}."
        else:
            hint = f"It is a model plugin: write --plugin {name}."
    if same_name:
        owners = " and by ".join(point.distribution for point in same_name)
        hint = f"'{name}' is provided by {owners}."
    return UsageError(f"There is no {_noun(kind)} '{reference}'.", hint=hint)


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
    module = _import(
        what, reference, lambda: importlib.import_module(module_name), find_file(module_name)
    )
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
    name = plugin_name(path)
    try:
        module = _import("Plugin", path, lambda: _execute_file(name, path), os.path.abspath(path))
    except ToolkitError as error:
        error.hint = _explain_precedence(error.__cause__, os.path.dirname(path)) or error.hint
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


def _import(what: str, reference: str, action: Callable[[], Any], file: str = "") -> Any:
    """action(), with any exception turned into a ToolkitError that names the reference.

    Args:
        file: of the plugin, if it is known before the import.
    """
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
    check_hooks(plugin, module)
    return plugin
