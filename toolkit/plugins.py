"""Find, load and check plugins, and ask their hooks.

A plugin is any object with marked hook functions, most often a module. A *model plugin* implements
the five model hooks; a run has exactly one. An *extension* wraps model hooks or adds to the
others; a run has those that it names. Only what a run names is imported; listing reads the
metadata of installed packages alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Tuple

import pluggy

from . import hookspecs
from .errors import ToolkitError, UsageError, suggest
from .files import sha256_of
from .hookspecs import MODEL_HOOKS, PROJECT

GROUPS = {"model": "toolkit.plugins", "extension": "toolkit.extensions"}
COMMANDS = {"command": "toolkit.commands"}
HOOKS = tuple(name for name, value in vars(hookspecs).items() if hasattr(value, PROJECT + "_spec"))


class Entry(NamedTuple):
    """An installed plugin or command as its distribution's metadata tells it."""

    name: str
    kind: str  # "model", "extension" or "command"
    target: str  # "module" or "module:attribute"
    distribution: str
    version: str
    state: str  # "ok", "broken" or "conflict"
    reason: str


class Plugin(NamedTuple):
    """A loaded plugin: its name, what named it, and the object with its hooks."""

    name: str
    reference: str
    kind: str
    object: Any
    file: str
    distribution: str

    @classmethod
    def from_object(cls, found: Any, kind: str = "model", name: str = "") -> Plugin:
        """A plugin from an object with hooks, or from a class of such objects."""
        made = found() if inspect.isclass(found) else found
        module = sys.modules.get(getattr(found, "__module__", ""), found)
        file = os.path.abspath(getattr(module, "__file__", "") or "")
        name = name or getattr(found, "__name__", type(made).__name__).lower()
        plugin = cls(name, name, kind, made, file, "")
        _check(plugin)
        return plugin

    def sha256(self) -> Dict[str, str]:
        """The hash of each Python file of the plugin: its package's, or its one file's."""
        if not os.path.isfile(self.file):
            return {}
        folder = os.path.dirname(self.file)
        if os.path.basename(self.file) != "__init__.py":
            return {os.path.basename(self.file): sha256_of(self.file)}
        hashes = {}
        for root, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                if name.endswith(".py"):
                    path = os.path.join(root, name)
                    hashes[os.path.relpath(path, os.path.dirname(folder))] = sha256_of(path)
        return hashes


# ---------------------------------------------------------------------------------------- finding


def installed() -> List[Entry]:
    """Every installed plugin and extension, without importing any."""
    return _entries(GROUPS)


def commands() -> List[Entry]:
    """Every command that a distribution adds to `toolkit`, without importing any."""
    return _entries(COMMANDS)


def _entries(groups: Dict[str, str]) -> List[Entry]:
    kinds = {group: kind for kind, group in groups.items()}
    found: Dict[Tuple[str, str], List[Tuple[str, str, str]]] = {}
    for distribution in _metadata().distributions():
        for point in distribution.entry_points:
            if point.group in kinds:
                row = (point.value,) + _identity(distribution)
                rows = found.setdefault((kinds[point.group], point.name), [])
                if row not in rows:  # one distribution seen through two paths
                    rows.append(row)
    entries = []
    for (kind, name), rows in sorted(found.items()):
        for target, distribution, version in rows:
            state, reason = "ok", _missing(target)
            if reason:
                state = "broken"
            if len({row[1] for row in rows}) > 1:
                others = ", ".join(sorted({row[1] for row in rows} - {distribution}))
                state, reason = "conflict", f"also offered by {others}"
            entries.append(Entry(name, kind, target, distribution, version, state, reason))
    return entries


def _metadata():
    try:
        import importlib.metadata as metadata
    except ImportError:  # Python 3.7
        import importlib_metadata as metadata
    return metadata


def _identity(distribution) -> Tuple[str, str]:
    info = distribution.metadata
    return info["Name"], info["Version"] or ""


def _missing(target: str) -> str:
    package = target.partition(":")[0].partition(".")[0]
    try:
        found = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        found = False
    return "" if found else f"module '{package}' cannot be found"


# ---------------------------------------------------------------------------------------- loading


def load(reference: str, kind: str = "model") -> Plugin:
    """Import one plugin by its installed NAME, by `module:attribute`, or by the path of a .py file.

    Raises UsageError where it cannot be found, and ToolkitError where its import fails.
    """
    if reference.endswith(".py") or os.sep in reference:
        return _load_file(reference, kind)
    if ":" in reference:
        module, _, attribute = reference.partition(":")
        if not all(part.isidentifier() for part in module.split(".")):
            raise UsageError(f"'{reference}' names no module.", hint="Write module:attribute.")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # as `python -m` would
        name = attribute if attribute.isidentifier() else module
        return _load_target(name, reference, module, attribute, kind, "")
    return _load_installed(reference, kind)


def _load_installed(name: str, kind: str) -> Plugin:
    entries = installed()
    rows = [e for e in entries if e.name == name and e.kind == kind]
    what = "plugin" if kind == "model" else "extension"
    if not rows:
        other = [e for e in entries if e.name == name]
        if other:
            flag = "--plugin" if kind == "extension" else "--with"
            hint = f"It is {_a(other[0].kind)}: write {flag} {name}."
        else:
            hint = suggest(name, [e.name for e in entries if e.kind == kind])
        raise UsageError(f"There is no {what} '{name}'.", hint=hint)
    if len(rows) > 1:
        raise UsageError(
            f"{what.capitalize()} '{name}' is offered by "
            f"{' and by '.join(r.distribution for r in rows)}.",
            hint=(
                "Uninstall one of them, or name one of "
                f"{', '.join(_as_reference(r.target) for r in rows)} instead."
            ),
        )
    module, _, attribute = rows[0].target.partition(":")
    label = f"{rows[0].distribution} {rows[0].version}"
    return _load_target(name, name, module, attribute, kind, label)


def _a(kind: str) -> str:
    return "a model plugin" if kind == "model" else "an extension"


def _as_reference(target: str) -> str:
    return target if ":" in target else target + ":"


def load_command(entry: Entry) -> Any:
    """What the entry point of a command names. Raises UsageError and ToolkitError."""
    module, _, attribute = entry.target.partition(":")
    return _resolved("Command", entry.name, module, attribute)[0]


def _load_target(name, reference, module, attribute, kind, distribution) -> Plugin:
    found, loaded = _resolved("Plugin", reference, module, attribute)
    return _plugin(name, reference, kind, found, loaded, distribution)


def _resolved(what: str, reference: str, module: str, attribute: str) -> Tuple[Any, Any]:
    """The object `attribute` of a module ('' for the module itself), and the module."""
    loaded = _import(what, reference, lambda: importlib.import_module(module))
    found = loaded
    for part in attribute.split(".") if attribute else ():
        if not hasattr(found, part):
            raise UsageError(
                f"Module '{module}' has no attribute '{attribute}'.",
                hint=suggest(part, [n for n in dir(found) if not n.startswith("_")]),
            )
        found = getattr(found, part)
    return found, loaded


def _load_file(path: str, kind: str) -> Plugin:
    if not os.path.isfile(path):
        raise UsageError(f"There is no plugin file '{path}'.")
    name = os.path.splitext(os.path.basename(path))[0]
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)  # so that the file can import its neighbours

    def execute():
        # A module of that name that is there already keeps it: types are looked up by module name.
        own = name if name not in sys.modules else "toolkit_file_" + name
        spec = importlib.util.spec_from_file_location(own, path)
        module = sys.modules[own] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    module = _import("Plugin", path, execute)
    return _plugin(name, path, kind, module, module, "")


def _import(what: str, reference: str, action):
    try:
        return action()
    except ToolkitError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == reference.partition(":")[0]:
            raise UsageError(f"There is no module '{error.name}'.") from None
        raise ToolkitError(f"{what} '{reference}' cannot be imported: {told(error)}.") from error


def told(error: BaseException, within: str = "") -> str:
    """An exception in one line: type, message, and the place in the plugin's own code."""
    text = "{}: {}".format(type(error).__name__, str(error).strip().split("\n")[0])
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if within and f.filename.startswith(within)]
    core = os.path.dirname(os.path.abspath(__file__)) + os.sep
    other = [f for f in frames if not os.path.abspath(f.filename).startswith(core)]
    if isinstance(error, SyntaxError):  # its message names the file and the line
        return text.rstrip(".")
    for frame in (own or other)[-1:]:
        text += f" ({frame.filename}:{frame.lineno})"
    return text.rstrip(".")


def _plugin(name, reference, kind, found, module, distribution) -> Plugin:
    if inspect.isclass(found):
        found = _import("Plugin", reference, found)
    file = os.path.abspath(getattr(module, "__file__", None) or reference)
    plugin = Plugin(name, reference, kind, found, file, distribution)
    _check(plugin)
    return plugin


# ----------------------------------------------------------------------------------------- checks


def implemented(plugin: Plugin) -> Dict[str, Dict[str, Any]]:
    """Hook name -> pluggy's marks, for each function that the plugin marked."""
    reader = pluggy.PluginManager(PROJECT)
    found = {}
    for attribute in dir(plugin.object):
        if attribute.startswith("__"):
            continue
        marks = reader.parse_hookimpl_opts(plugin.object, attribute)
        if marks is not None:
            found[marks.get("specname") or attribute] = dict(marks, attribute=attribute)
    return found


def _check(plugin: Plugin) -> None:
    """Refuse, before anything is registered, what pluggy would take silently or half."""
    found = implemented(plugin)
    for hook, marks in found.items():
        _check_implementation(plugin, hook, marks)
    if plugin.kind == "extension":
        return
    missing = [name for name in MODEL_HOOKS if name not in found]
    if not missing:
        return
    unmarked = [n for n in missing if callable(getattr(plugin.object, n, None))]
    raise UsageError(
        f"Plugin '{plugin.name}' ({plugin.file}) lacks the model "
        f"hook{'s' if len(missing) > 1 else ''} {', '.join(missing)}.",
        hint=f"Mark the function '{unmarked[0]}' with @toolkit.hookimpl."
        if unmarked
        else f"A model plugin implements {', '.join(MODEL_HOOKS)}.",
    )


def _check_implementation(plugin: Plugin, hook: str, marks: Dict[str, Any]) -> None:
    function = getattr(plugin.object, marks["attribute"])
    place = f"Hook '{hook}' of plugin '{plugin.name}' ({_place(function, plugin)})"
    if hook not in HOOKS:
        if not marks.get("optionalhook"):
            raise UsageError(f"{place} is unknown.", hint=suggest(hook, HOOKS))
        return
    known = _parameters(getattr(hookspecs, hook))
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(f"{place} takes *{parameter.name}.", _names(known))
        if parameter.default is not parameter.empty:
            raise UsageError(
                f"{place} gives '{parameter.name}' a default, so it would never be passed.",
                hint="Leave the default out.",
            )
        if parameter.name not in known:
            raise UsageError(
                f"{place} takes an unknown argument '{parameter.name}'.", _names(known)
            )
    wraps = marks.get("wrapper") or marks.get("hookwrapper")
    if plugin.kind == "extension" and hook in MODEL_HOOKS and not wraps:
        raise UsageError(
            f"{place} takes the model plugin's place.",
            hint="An extension wraps a model hook: mark it @toolkit.hookimpl(wrapper=True).",
        )
    if plugin.kind == "model" and hook in MODEL_HOOKS and wraps:
        raise UsageError(f"{place} wraps itself.", hint="Leave wrapper=True out.")


def _parameters(function) -> List[str]:
    return list(inspect.signature(function).parameters)


def _names(known: List[str]) -> str:
    return f"It may take {', '.join(known)}." if known else "It takes no arguments."


def _place(function, plugin: Plugin) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return plugin.file
    return f"{code.co_filename}:{code.co_firstlineno}"


# ----------------------------------------------------------------------------------------- asking


class Plugins:
    """The plugins of one run: one model plugin, any extensions, in one PluginManager.

    The wrapper of an extension that was named later runs outside of those named earlier.
    """

    def __init__(self, model: Plugin, extensions: Iterable[Plugin] = ()):
        self.model = model
        self.extensions = list(extensions)
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        names = set()
        for plugin in self.all:
            if plugin.name in names:
                raise UsageError(f"'{plugin.name}' is named twice.")
            names.add(plugin.name)
            try:
                self._manager.register(plugin.object, plugin.name)
            except ValueError as error:
                raise UsageError(f"Plugin '{plugin.name}' cannot be registered: {error}.") from None
        self._manager.check_pending()

    @classmethod
    def load(cls, reference: str, extensions: Iterable[str] = ()) -> Plugins:
        return cls(load(reference), [load(name, "extension") for name in extensions])

    @property
    def all(self) -> List[Plugin]:
        return [self.model] + self.extensions

    def has(self, hook: str) -> bool:
        """Whether any plugin of this run implements the hook."""
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def ask(self, hook: str, **arguments: Any) -> Any:
        """Call a hook. A fault in a plugin's code is told with plugin, hook and place.

        Raises ToolkitError, and the same where a model hook returns None.
        """
        asked = getattr(self._manager.hook, hook)
        answer = self.guarded(f"hook '{hook}'", asked, **arguments)
        if answer is None and hook in MODEL_HOOKS:
            raise ToolkitError(
                f"Hook '{hook}' of plugin '{self.model.name}' returned None ({self._where(hook)}).",
                hint="A model hook returns what it made; is a 'return' missing?",
            )
        return answer

    def guarded(self, what: str, function: Callable, *arguments: Any, **named: Any) -> Any:
        """Call `function`, plugin's code that messages call `what`. Raises ToolkitError alone."""
        try:
            return function(*arguments, **named)
        except ToolkitError:
            raise
        except Exception as error:
            plugin = self._culprit(error)
            raise ToolkitError(
                f"Plugin '{plugin.name}' failed in its {what}: "
                f"{told(error, os.path.dirname(plugin.file))}.",
                hint="Run again with -v for the traceback.",
            ) from error

    def options(self) -> List[Tuple[str, type]]:
        """(plugin name, options class) of each plugin that has some, the model plugin first."""
        from .options import Options

        classes = []
        for plugin in self.all:
            if "options" not in implemented(plugin):
                continue
            for cls in Plugins(plugin).ask("options"):
                if not (inspect.isclass(cls) and issubclass(cls, Options)):
                    raise ToolkitError(
                        f"Hook 'options' of plugin '{plugin.name}' returned {cls!r}.",
                        hint="It returns a class derived from toolkit.Options.",
                    )
                classes.append((plugin.name, cls))
        return classes

    def owner(self, value: Any) -> str:
        """The name of the plugin in whose files the class of `value` was written, or ''."""
        file = getattr(sys.modules.get(type(value).__module__), "__file__", "") or ""
        for plugin in self.all:
            if os.path.dirname(os.path.abspath(file)) == os.path.dirname(plugin.file):
                return plugin.name
        return ""

    def _where(self, hook: str) -> str:
        marks = implemented(self.model).get(hook)
        if marks is None:
            return self.model.file
        return _place(getattr(self.model.object, marks["attribute"]), self.model)

    def _culprit(self, error: BaseException) -> Plugin:
        """The plugin nearest to the fault; the model plugin where no frame is a plugin's."""
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            for plugin in self.all:
                if os.path.abspath(frame.filename) == plugin.file:
                    return plugin
        return self.model
