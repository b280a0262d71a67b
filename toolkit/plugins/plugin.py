"""A loaded plugin, its hook functions, and the check that they can be called."""

from __future__ import annotations

import inspect
import os
import sys
import types
from typing import Any, Callable, Dict, List, NamedTuple

import pluggy

from .. import hookspecs
from ..errors import UsageError, suggest
from ..files import sha256_of
from ..hookspecs import MODEL_HOOKS, PROJECT, hook_functions
from .source_files import is_file, is_name, locate_file

NOUNS = {"model": "plugin", "extension": "extension"}  # what messages call each kind
ITERATED_HOOKS = ("sample", "scorers", "session_hooks")  # may be generators
HOOKS = tuple(name for name, value in vars(hookspecs).items() if hasattr(value, PROJECT + "_spec"))


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
        """Path -> SHA-256 of each Python file of the plugin: its whole package, or its one file.

        For a plugin named by its file, also of the neighbours that it imports. {} for one that is
        in no file of its own: in a zip archive, or typed in.
        """
        if not os.path.isfile(self.file):
            return {}
        if is_file(self.reference):
            return locate_file(self.file).hashes
        folder = os.path.dirname(self.file)
        if os.path.basename(self.file) != "__init__.py":
            return {os.path.basename(self.file): sha256_of(self.file)}
        hashes = {}
        for root, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                path = os.path.join(root, name)
                if name.endswith(".py") and os.path.isfile(path):  # not the lock of an editor
                    hashes[os.path.relpath(path, os.path.dirname(folder))] = sha256_of(path)
        return hashes

    @property
    def noun(self) -> str:
        return NOUNS[self.kind]

    @property
    def source_folder(self) -> str:
        """The folder in which the paths of `sha256` are."""
        folder, name = os.path.split(self.file)
        is_package = name == "__init__.py" and not is_file(self.reference)
        return os.path.dirname(folder) if is_package else folder

    def read_source(self, name: str) -> bytes:
        """The contents of a file that `sha256` names. Raises OSError if it is gone."""
        with open(os.path.join(self.source_folder, name), "rb") as file:
            return file.read()


def plugin_name(reference: str) -> str:
    """The name of the plugin that a reference loads."""
    if is_file(reference):
        return os.path.splitext(os.path.basename(reference))[0]
    if is_name(reference):
        return reference
    module, _, attribute = reference.partition(":")
    return attribute if attribute.isidentifier() else module


class Implementation(NamedTuple):
    """One function of a plugin that `hookimpl` marked."""

    hook: str
    attribute: str  # of the plugin's object; the hook's name unless `specname` is given
    function: Callable  # bound, if it is a method
    marks: Dict[str, Any]  # pluggy's options: wrapper, optionalhook, ...

    @property
    def is_wrapper(self) -> bool:
        return bool(self.marks.get("wrapper"))


def implementations(plugin: Plugin) -> List[Implementation]:
    """The plugin's hook functions.

    A function that a submodule of the same name replaced as the module's attribute is taken from
    the functions that `hookimpl` recorded.
    """
    reader = pluggy.PluginManager(PROJECT)
    replaced = types.SimpleNamespace()
    for name, function in hook_functions(plugin.object).items():
        if inspect.ismodule(getattr(plugin.object, name, None)):
            setattr(replaced, name, function)
    results = []
    for attribute in dir(plugin.object):
        if attribute.startswith("__"):
            continue
        owner = replaced if hasattr(replaced, attribute) else plugin.object
        # pluggy itself looks the attribute up: in its later versions it evaluates no property.
        marks = reader.parse_hookimpl_opts(owner, attribute)
        if marks is not None:
            hook = marks.get("specname") or attribute
            results.append(Implementation(hook, attribute, getattr(owner, attribute), dict(marks)))
    return results


def hook_names(plugin: Plugin) -> List[str]:
    """The names of the hooks that the plugin implements, in the order of the specification."""
    names = {implementation.hook for implementation in implementations(plugin)}
    return [hook for hook in HOOKS if hook in names]


def check_hooks(plugin: Plugin) -> None:
    """Refuse a plugin whose hooks pluggy would register only in part, or call wrongly. Raises
    UsageError if a hook is unknown, misses or has wrong arguments, or may not be implemented by a
    plugin of this kind, or if a model hook is missing, or an extension has none.
    """
    hooks = set()
    for each in implementations(plugin):
        hooks.add(each.hook)
        place = place_of(each.function, plugin)
        subject = f"Hook '{each.hook}' of {plugin.noun} '{plugin.name}' ({place})"
        if each.hook in HOOKS:
            _check_function(subject, each)
            _check_arguments(subject, each)
        elif not each.marks.get("optionalhook"):
            raise UsageError(f"{subject} is unknown.", hint=suggest(each.hook, HOOKS))
        if plugin.kind == "extension" and each.hook in MODEL_HOOKS and not each.is_wrapper:
            raise UsageError(
                f"{subject} would replace the model plugin's.",
                hint="An extension wraps a model hook: mark it @toolkit.hookimpl(wrapper=True).",
            )
        if plugin.kind == "model" and each.hook in MODEL_HOOKS and each.is_wrapper:
            raise UsageError(f"{subject} wraps itself.", hint="Remove wrapper=True.")
    if not hooks and plugin.kind == "extension":
        raise UsageError(
            f"Extension '{plugin.name}' ({plugin.file}) implements no hook.",
            hint="Mark its functions with @toolkit.hookimpl.",
        )
    missing = [name for name in MODEL_HOOKS if name not in hooks]
    if plugin.kind == "model" and missing:
        functions = [name for name in missing if callable(getattr(plugin.object, name, None))]
        raise UsageError(
            f"Plugin '{plugin.name}' ({plugin.file}) lacks the model "
            f"hook{'s' if len(missing) > 1 else ''} {', '.join(missing)}.",
            hint=f"Mark the function '{functions[0]}' with @toolkit.hookimpl."
            if functions
            else f"A model plugin implements {', '.join(MODEL_HOOKS)}.",
        )


def _check_function(subject: str, implementation: Implementation) -> None:
    """Refuse what a call does not run to its end, and a wrapper that wraps nothing."""
    function = inspect.unwrap(implementation.function)
    is_generator = inspect.isgeneratorfunction(function)
    fault = hint = ""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        fault, hint = "is asynchronous: its call runs nothing", "Write 'def' without 'async'."
    elif implementation.is_wrapper and not is_generator:
        fault = "is a wrapper without a 'yield'"
        hint = "Write 'value = yield' where the hook that it wraps should run, and return a value."
    elif is_generator and not (implementation.is_wrapper or implementation.hook in ITERATED_HOOKS):
        fault = "is a generator: its 'yield' makes it return no value"
        hint = "Write 'return'; to wrap a hook, mark it @toolkit.hookimpl(wrapper=True)."
    if fault:
        raise UsageError(f"{subject} {fault}.", hint=hint)


def _check_arguments(subject: str, implementation: Implementation) -> None:
    names = list(inspect.signature(getattr(hookspecs, implementation.hook)).parameters)
    hint = f"Its arguments may be {', '.join(names)}." if names else "It takes no arguments."
    for parameter in inspect.signature(implementation.function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(f"{subject} takes *{parameter.name}.", hint)
        if parameter.default is not parameter.empty:
            raise UsageError(
                f"{subject} gives '{parameter.name}' a default, so it would never be passed.",
                hint="Remove the default.",
            )
        if parameter.name not in names:
            near = suggest(parameter.name, names) if names else ""
            hint = f"{near} {hint}" if near.startswith("Did you mean") else hint
            raise UsageError(f"{subject} has an unknown argument '{parameter.name}'.", hint)


def place_of(function: Callable, plugin: Plugin) -> str:
    """file:line of a function, or the plugin's file if it has no code of its own."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return plugin.file if code is None else f"{code.co_filename}:{code.co_firstlineno}"
