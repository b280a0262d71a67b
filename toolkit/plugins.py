"""Find, load and check plugins, and call their hooks.

A plugin is any object with functions marked by `hookimpl`, most often a module. A *model plugin*
implements the five model hooks; a run has exactly one. An *extension* wraps model hooks or
implements others; a run may have any number. Only the plugins of a run are imported; listing reads
the metadata of the installed packages.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
import types
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Tuple,
    Type,
)

import pluggy

from . import hookspecs
from .errors import ToolkitError, UsageError, suggest
from .files import sha256_of
from .hookspecs import MODEL_HOOKS, PROJECT, hook_functions

if TYPE_CHECKING:
    from .options import Options

GROUPS = {"model": "toolkit.plugins", "extension": "toolkit.extensions"}
COMMANDS = {"command": "toolkit.commands"}
HOOKS = tuple(name for name, value in vars(hookspecs).items() if hasattr(value, PROJECT + "_spec"))


class Entry(NamedTuple):
    """An installed plugin or command, as the metadata of its distribution describes it."""

    name: str
    kind: str  # "model", "extension" or "command"
    target: str  # "module" or "module:attribute"
    distribution: str
    version: str
    state: str  # "ok", "broken" or "conflict"
    reason: str  # why the state is not "ok"


class Plugin(NamedTuple):
    """A loaded plugin."""

    name: str
    reference: str  # what named it: an installed name, module:attribute, or a path
    kind: str  # "model" or "extension"
    object: Any  # has the hooks as attributes
    file: str
    distribution: str  # name and version; "" unless it was loaded by its installed name

    @classmethod
    def from_object(cls, target: Any, kind: str = "model", name: str = "") -> Plugin:
        """A plugin from an object with hooks, or from a class of such objects."""
        instance = target() if inspect.isclass(target) else target
        module = sys.modules.get(getattr(target, "__module__", ""), target)
        file = os.path.abspath(getattr(module, "__file__", "") or "")
        name = name or getattr(target, "__name__", type(instance).__name__).lower()
        plugin = cls(name, name, kind, instance, file, "")
        check_hooks(plugin)
        return plugin

    def sha256(self) -> Dict[str, str]:
        """Path -> SHA-256 of each Python file of the plugin: its whole package, or its one file."""
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


# ------------------------------------------------------------------------------------------- find


def list_plugins() -> List[Entry]:
    """Every installed plugin and extension, without importing any."""
    return _list_entries(GROUPS)


def list_commands() -> List[Entry]:
    """Every command that a distribution adds to `toolkit`, without importing any."""
    return _list_entries(COMMANDS)


class _EntryPoint(NamedTuple):
    """An entry point with its distribution."""

    target: str
    distribution: str
    version: str


def _list_entries(groups: Dict[str, str]) -> List[Entry]:
    return [
        _entry(name, kind, point, points)
        for (kind, name), points in sorted(_entry_points(groups).items())
        for point in points
    ]


def _entry_points(groups: Dict[str, str]) -> Dict[Tuple[str, str], List[_EntryPoint]]:
    """(kind, name) -> the entry points of these groups with that name."""
    kinds = {group: kind for kind, group in groups.items()}
    points: Dict[Tuple[str, str], List[_EntryPoint]] = {}
    for distribution in _metadata().distributions():
        for entry_point in distribution.entry_points:
            if entry_point.group not in kinds:
                continue
            point = _EntryPoint(entry_point.value, *_identity(distribution))
            same_name = points.setdefault((kinds[entry_point.group], entry_point.name), [])
            if point not in same_name:  # one distribution may be on sys.path twice
                same_name.append(point)
    return points


def _entry(name: str, kind: str, point: _EntryPoint, same_name: List[_EntryPoint]) -> Entry:
    reason = _missing_module(point.target)
    state = "broken" if reason else "ok"
    others = {other.distribution for other in same_name} - {point.distribution}
    if others:
        state, reason = "conflict", f"also provided by {', '.join(sorted(others))}"
    return Entry(name, kind, *point, state, reason)


def _metadata() -> Any:
    try:
        return importlib.import_module("importlib.metadata")
    except ImportError:  # Python 3.7
        return importlib.import_module("importlib_metadata")


def _identity(distribution) -> Tuple[str, str]:
    info = distribution.metadata
    return info["Name"], info["Version"] or ""


def _missing_module(target: str) -> str:
    """Why the package of a target cannot be imported, or ''. Imports nothing."""
    package = target.partition(":")[0].partition(".")[0]
    try:
        exists = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        exists = False
    return "" if exists else f"module '{package}' cannot be found"


# ------------------------------------------------------------------------------------------- load


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


def summarize_exception(error: BaseException, folder: str = "") -> str:
    """An exception in one line: type, message, and the place in the plugin's code.

    Args:
        error: any exception. The message of a SyntaxError already names file and line.
        folder: the plugin's folder. The place is the last frame in it; if there is none, the last
            frame outside of the toolkit.
    """
    text = "{}: {}".format(type(error).__name__, str(error).strip().split("\n")[0])
    frame = None if isinstance(error, SyntaxError) else _relevant_frame(error, folder)
    if frame is not None:
        text += f" ({frame.filename}:{frame.lineno})"
    return text.rstrip(".")


def _relevant_frame(error: BaseException, folder: str) -> Optional[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    in_plugin = [frame for frame in frames if folder and frame.filename.startswith(folder)]
    core = os.path.dirname(os.path.abspath(__file__)) + os.sep
    outside = [frame for frame in frames if not os.path.abspath(frame.filename).startswith(core)]
    candidates = in_plugin or outside
    return candidates[-1] if candidates else None


# ------------------------------------------------------------------------------------------ check


class Implementation(NamedTuple):
    """One function of a plugin that `hookimpl` marked."""

    hook: str
    attribute: str  # of the plugin's object; the hook's name unless `specname` is given
    function: Callable  # bound, if it is a method
    marks: Dict[str, Any]  # pluggy's options: wrapper, hookwrapper, optionalhook, ...

    @property
    def is_wrapper(self) -> bool:
        return bool(self.marks.get("wrapper") or self.marks.get("hookwrapper"))


def implementations(plugin: Plugin) -> List[Implementation]:
    """The plugin's hook functions.

    A function that a submodule of the same name replaced as the module's attribute is taken from
    the functions that `hookimpl` recorded.
    """
    reader = pluggy.PluginManager(PROJECT)
    functions = _functions_behind_submodules(plugin.object)
    results = []
    for attribute in dir(plugin.object):
        if attribute.startswith("__"):
            continue
        owner = functions if hasattr(functions, attribute) else plugin.object
        marks = reader.parse_hookimpl_opts(owner, attribute)
        if marks is not None:
            hook = marks.get("specname") or attribute
            results.append(Implementation(hook, attribute, getattr(owner, attribute), dict(marks)))
    return results


def hook_names(plugin: Plugin) -> List[str]:
    """The names of the hooks that the plugin implements, in the order of the specification."""
    names = {implementation.hook for implementation in implementations(plugin)}
    return [hook for hook in HOOKS if hook in names]


def _functions_behind_submodules(target: Any) -> types.SimpleNamespace:
    """The hook functions of a package whose attributes are now submodules of the same names."""
    return types.SimpleNamespace(
        **{
            name: function
            for name, function in hook_functions(target).items()
            if inspect.ismodule(getattr(target, name, None))
        }
    )


def check_hooks(plugin: Plugin) -> None:
    """Refuse a plugin whose hooks pluggy would register only in part, or call wrongly.

    Raises:
        UsageError: a hook is unknown, misses or has wrong arguments, or may not be implemented by a
            plugin of this kind; or a model hook is missing.
    """
    all_implementations = implementations(plugin)
    for implementation in all_implementations:
        _check_implementation(plugin, implementation)
    if plugin.kind == "model":
        _check_model_hooks(plugin, {each.hook for each in all_implementations})


def _check_model_hooks(plugin: Plugin, hooks: Iterable[str]) -> None:
    missing = [name for name in MODEL_HOOKS if name not in hooks]
    if not missing:
        return
    functions = [name for name in missing if callable(getattr(plugin.object, name, None))]
    raise UsageError(
        f"Plugin '{plugin.name}' ({plugin.file}) lacks the model "
        f"hook{'s' if len(missing) > 1 else ''} {', '.join(missing)}.",
        hint=f"Mark the function '{functions[0]}' with @toolkit.hookimpl."
        if functions
        else f"A model plugin implements {', '.join(MODEL_HOOKS)}.",
    )


def _check_implementation(plugin: Plugin, implementation: Implementation) -> None:
    hook = implementation.hook
    subject = f"Hook '{hook}' of plugin '{plugin.name}' ({_place(implementation.function, plugin)})"
    if hook not in HOOKS:
        if not implementation.marks.get("optionalhook"):
            raise UsageError(f"{subject} is unknown.", hint=suggest(hook, HOOKS))
        return
    _check_arguments(subject, hook, implementation.function)
    if plugin.kind == "extension" and hook in MODEL_HOOKS and not implementation.is_wrapper:
        raise UsageError(
            f"{subject} would replace the model plugin's.",
            hint="An extension wraps a model hook: mark it @toolkit.hookimpl(wrapper=True).",
        )
    if plugin.kind == "model" and hook in MODEL_HOOKS and implementation.is_wrapper:
        raise UsageError(f"{subject} wraps itself.", hint="Remove wrapper=True.")


def _check_arguments(subject: str, hook: str, function: Callable) -> None:
    names = list(inspect.signature(getattr(hookspecs, hook)).parameters)
    hint = f"Its arguments may be {', '.join(names)}." if names else "It takes no arguments."
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(f"{subject} takes *{parameter.name}.", hint)
        if parameter.default is not parameter.empty:
            raise UsageError(
                f"{subject} gives '{parameter.name}' a default, so it would never be passed.",
                hint="Remove the default.",
            )
        if parameter.name not in names:
            raise UsageError(f"{subject} has an unknown argument '{parameter.name}'.", hint)


def _place(function: Callable, plugin: Plugin) -> str:
    """file:line of a function, or the plugin's file if it has no code of its own."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return plugin.file if code is None else f"{code.co_filename}:{code.co_firstlineno}"


# ------------------------------------------------------------------------------------------- call


class _HookManager(pluggy.PluginManager):
    """A pluggy manager that registers `implementations(plugin)` instead of all that `dir` lists."""

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self._marks: Dict[Tuple[str, str], Dict[str, Any]] = {}
        self.add_hookspecs(hookspecs)

    def register_plugin(self, plugin: Plugin) -> None:
        """Register each function under its attribute's name, in a module made for this purpose."""
        functions = types.ModuleType(plugin.name)
        for implementation in implementations(plugin):
            setattr(functions, implementation.attribute, implementation.function)
            self._marks[plugin.name, implementation.attribute] = implementation.marks
        self.register(functions, plugin.name)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        return self._marks.get((plugin.__name__, name))


class Plugins:
    """The plugins of one run: a model plugin and any number of extensions.

    The wrapper of a later extension runs outside of those of earlier ones.
    """

    def __init__(self, model: Plugin, extensions: Iterable[Plugin] = ()):
        self.model = model
        self.extensions = list(extensions)
        self._manager = _HookManager()
        for number, plugin in enumerate(self.all):
            for earlier in self.all[:number]:
                _check_distinct(earlier, plugin)
            try:
                self._manager.register_plugin(plugin)
            except (ValueError, pluggy.PluginValidationError) as error:
                raise UsageError(f"Plugin '{plugin.name}' cannot be registered: {error}.") from None
        self._manager.check_pending()

    @classmethod
    def load(cls, reference: str, extensions: Iterable[str] = ()) -> Plugins:
        return cls(load(reference), [load(name, "extension") for name in extensions])

    @property
    def all(self) -> List[Plugin]:
        return [self.model] + self.extensions

    def has_hook(self, hook: str) -> bool:
        """Whether any plugin of this run implements the hook."""
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def call_hook(self, hook: str, **arguments: Any) -> Any:
        """Call a hook.

        Returns:
            The value that the hook returned; for hooks that every plugin may answer, a list.

        Raises:
            ToolkitError: a plugin's code failed, or a model hook returned None. The message names
                the plugin, the hook and the place in the plugin's code.
        """
        caller = getattr(self._manager.hook, hook)
        value = self.call_plugin_code(f"hook '{hook}'", caller, **arguments)
        if value is None and hook in MODEL_HOOKS:
            raise ToolkitError(
                f"Hook '{hook}' of plugin '{self.model.name}' returned None "
                f"({self._place_of_model_hook(hook)}).",
                hint="A model hook returns a value; is a 'return' missing?",
            )
        return value

    def call_plugin_code(
        self, description: str, function: Callable, *arguments: Any, **named: Any
    ) -> Any:
        """Call a function that belongs to a plugin.

        Args:
            description: what the function is, for the message: "hook 'build'".
            function: called with `arguments` and `named`.

        Raises:
            ToolkitError: in place of any other exception.
        """
        try:
            return function(*arguments, **named)
        except ToolkitError:
            raise
        except Exception as error:
            plugin = self._failing_plugin(error)
            raise ToolkitError(
                f"Plugin '{plugin.name}' failed in its {description}: "
                f"{summarize_exception(error, os.path.dirname(plugin.file))}.",
                hint="Run again with -v for the traceback.",
            ) from error

    def options(self) -> List[Tuple[str, Type[Options]]]:
        """(plugin name, options class) of each plugin that has options, the model plugin first."""
        from .options import Options

        classes = []
        for plugin in self.all:
            if "options" not in hook_names(plugin):
                continue
            for cls in Plugins(plugin).call_hook("options"):
                if not (inspect.isclass(cls) and issubclass(cls, Options)):
                    raise ToolkitError(
                        f"Hook 'options' of plugin '{plugin.name}' returned {cls!r}.",
                        hint="It returns a class derived from toolkit.Options.",
                    )
                classes.append((plugin.name, cls))
        return classes

    def owner(self, value: Any) -> str:
        """The name of the plugin in whose folder the class of `value` is defined, or ''."""
        file = getattr(sys.modules.get(type(value).__module__), "__file__", "") or ""
        for plugin in self.all:
            if os.path.dirname(os.path.abspath(file)) == os.path.dirname(plugin.file):
                return plugin.name
        return ""

    def _place_of_model_hook(self, hook: str) -> str:
        functions = [each.function for each in implementations(self.model) if each.hook == hook]
        return _place(functions[0], self.model) if functions else self.model.file

    def _failing_plugin(self, error: BaseException) -> Plugin:
        """The plugin whose file is nearest to the error; the model plugin if none is involved."""
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            for plugin in self.all:
                if os.path.abspath(frame.filename) == plugin.file:
                    return plugin
        return self.model


def _check_distinct(first: Plugin, second: Plugin) -> None:
    if first.name == second.name:
        raise UsageError(f"'{first.name}' is named twice.")
    if first.object is second.object:
        raise UsageError(f"'{first.name}' and '{second.name}' are the same plugin.")
