"""The plugins of a run, and calls of their hooks."""

from __future__ import annotations

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
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
)

import pluggy

from .. import hookspecs
from ..errors import ToolkitError, UsageError
from ..hookspecs import MODEL_HOOKS, PROJECT
from .argument_hints import explain_with_arguments
from .failures import TRACEBACK_HINT, describe_failure, is_own_file
from .hook_call import Check, HookCall, HookFailure, HookFunction, Problem, make_hook_functions
from .loader import load
from .plugin import Plugin, hook_names, implementations
from .values import describe_value

if TYPE_CHECKING:
    from ..options import Options


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


class Place(NamedTuple):
    """A line of a plugin's code."""

    plugin: Plugin
    text: str  # `file:line`


class Answer(NamedTuple):
    """What a plugin returned from a hook that every plugin may answer.

    Attributes:
        plugin: whose code it is.
        subject: begins a message: "Hook 'metrics' of plugin 'x'".
        place: `file:line` of the code.
        value: what it returned.
    """

    plugin: Plugin
    subject: str
    place: str
    value: Any

    def error(self, problem: Problem) -> ToolkitError:
        """The error for the value."""
        return ToolkitError(f"{self.subject} {problem.text} ({self.place}).", hint=problem.hint)


class Plugins:
    """The plugins of one run: a model plugin and any number of extensions.

    `extensions` are those that a user named; `defaults` are those that the model plugin names.
    The wrapper of a later extension runs outside of those of earlier ones.
    """

    def __init__(self, model: Plugin, extensions: Iterable[Plugin] = (), has_defaults: bool = True):
        self.model = model
        self.extensions = list(extensions)
        self.defaults: List[Plugin] = []
        if has_defaults:
            self.defaults = self._load_defaults()
        self._manager = _HookManager()
        self._calls: Dict[str, HookCall] = {}
        for number, plugin in enumerate(self.all):
            for earlier in self.all[:number]:
                _check_distinct(earlier, plugin)
            try:
                self._manager.register_plugin(plugin)
            except (ValueError, pluggy.PluginValidationError) as error:
                raise UsageError(f"Plugin '{plugin.name}' cannot be registered: {error}.") from None
        self._manager.check_pending()

    @classmethod
    def load(
        cls,
        reference: str,
        extensions: Iterable[str] = (),
        named_by: str = "",
    ) -> Plugins:
        """Load the plugins of a run; for `named_by` and errors, see `load`."""
        model = load(reference, "model", named_by)
        return cls(model, [load(name, "extension", named_by) for name in extensions])

    @property
    def all(self) -> List[Plugin]:
        return [self.model, *self.defaults, *self.extensions]

    def has_hook(self, hook: str) -> bool:
        """Whether any plugin of this run implements the hook."""
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def call_hook(self, hook: str, check: Optional[Check] = None, **arguments: Any) -> Any:
        """Call a hook.

        Args:
            hook: its name.
            check: of each value that a plugin's function or wrapper returns; None for no check.
            arguments: all of the hook's, by name.

        Returns:
            The value that the hook returned; for hooks that every plugin may answer, a list.

        Raises:
            ToolkitError: a plugin's code failed, or returned a wrong value, or a model hook
                returned None. The message names plugin, hook and place of the code.
        """
        call = self._find_call(hook)
        try:
            value = self.call_plugin_code(f"hook '{hook}'", call.run, arguments, check)
        except ToolkitError as error:
            if error.hint == TRACEBACK_HINT:
                error.hint = self._explain(error.__cause__, arguments) or error.hint
            raise
        if value is None and hook in MODEL_HOOKS:
            hint = "A model hook returns a value; is a 'return' missing?"
            owners = call.functions if not call.answers else call.wrappers  # who took the value
            raise owners[0].error(hook, Problem("returned None", hint))
        return value

    def call_each(self, hook: str, check: Optional[Check] = None, **arguments: Any) -> List[Answer]:
        """Call a hook that every plugin may answer.

        Returns:
            The values with their owners, in the order of the calls: the last extension first, the
            model plugin last. Values of None are left out. A value that a wrapper put in the place
            of another is the wrapper's.

        Raises:
            ToolkitError: as in `call_hook`.
        """
        call = self._find_call(hook)
        values = self.call_hook(hook, check, **arguments)
        owners = {id(value): function for function, value in call.answers}
        functions = [
            owners.get(id(value), (call.wrappers or call.functions)[0]) for value in values
        ]
        return [
            Answer(function.plugin, function.describe(hook), function.place, value)
            for function, value in zip(functions, values)
        ]

    def augment(self, features: Any, labels: Any, run: Any) -> Tuple[Any, Any]:
        """Call the hook `augment`: each plugin changes what the one before returned.

        The model plugin is first, then the extensions in the order in which the user named them.

        Raises:
            ToolkitError: a plugin's code failed, or returned no pair.
        """
        for function in reversed(self._find_call("augment").functions):
            call = HookCall("augment", [function])
            arguments = {"features": features, "labels": labels, "run": run}
            (answer,) = self.call_plugin_code("hook 'augment'", call.run, arguments) or [None]
            if not isinstance(answer, tuple) or len(answer) != 2:
                text = f"returned {describe_value(answer)}, expected the pair (features, labels)"
                hint = "End it with 'return features, labels'."
                raise function.error("augment", Problem(text, hint))
            features, labels = answer
        return features, labels

    def describe_order(self) -> str:
        """The order of the plugins in each hook that one of them wraps, the outermost first.

        Returns:
            For example "loss: smoothing > ema > linear; augment: noise, then mixup"; "" if nothing
            is wrapped or augmented.
        """
        texts = []
        for hook in MODEL_HOOKS:
            call = self._find_call(hook)
            if call.wrappers:
                texts.append(f"{hook}: {' > '.join(call.order)}")
        augmenting = self._find_call("augment").order[::-1]
        if augmenting:
            texts.append(f"augment: {', then '.join(augmenting)}")
        return "; ".join(texts)

    def call_plugin_code(
        self, description: str, function: Callable, *arguments: Any, **named: Any
    ) -> Any:
        """Call a function that belongs to a plugin.

        Args:
            description: what the function is, for the message: "hook 'build'".
            function: called with `arguments` and `named`.

        Raises:
            ToolkitError: in place of any other exception, also of `sys.exit`.
        """
        try:
            return function(*arguments, **named)
        except ToolkitError:
            raise
        except HookFailure as failure:
            error = failure.__cause__
            assert error is not None
            raise _code_error(
                failure.function.plugin, description, error, failure.function.place
            ) from error
        except (Exception, SystemExit) as error:
            raise _code_error(self._failing_plugin(error), description, error) from error

    def _explain(self, error: Optional[BaseException], arguments: Mapping[str, Any]) -> str:
        """See `explain_with_arguments`."""
        frames = traceback.extract_tb(error.__traceback__) if error is not None else []
        lines = [frame.line or "" for frame in frames if self._owner_of_file(frame.filename)]
        return explain_with_arguments(error, lines, arguments)

    def _find_call(self, hook: str) -> HookCall:
        """The functions of a hook; they do not change after the plugins are registered."""
        if hook not in self._calls:
            implementations = getattr(self._manager.hook, hook).get_hookimpls()
            self._calls[hook] = HookCall(hook, make_hook_functions(self.all, implementations))
        return self._calls[hook]

    def options(self) -> List[Tuple[str, Type[Options]]]:
        """(plugin name, options class) of each plugin that has options, the model plugin first."""
        from ..options.declaration_faults import find_declaration_fault

        classes = []
        for plugin in self.all:
            if "options" not in hook_names(plugin):
                continue
            alone = Plugins(plugin, has_defaults=False)
            for cls in alone.call_hook("options", _check_options):
                fault = find_declaration_fault(cls)
                if fault is not None:
                    option, problem, hint, place = fault
                    raise ToolkitError(
                        f"Option '{option}' of plugin '{plugin.name}' {problem} "
                        f"({place or plugin.file}).",
                        hint=hint,
                    )
                classes.append((plugin.name, cls))
        return classes

    def owner(self, value: Any) -> str:
        """The name of the plugin in whose folder the class of `value` is defined, or ''."""
        file = getattr(sys.modules.get(type(value).__module__), "__file__", "") or ""
        for plugin in self.all:
            if is_own_file(file, plugin.file):
                return plugin.name
        return ""

    def hook_functions(self, hook: str) -> List[HookFunction]:
        """The functions of a hook: wrappers, the outermost first, then the others."""
        call = self._find_call(hook)
        return [*call.wrappers, *call.functions]

    def describe_place(self, hook: str) -> str:
        """` (hook 'build' of plugin 'x', file:line)` of who answers a hook, to end a message."""
        functions = self._find_call(hook).functions
        if not functions:
            return ""
        owner = f"hook '{hook}' of plugin '{functions[0].plugin.name}'"
        return f" ({owner}, {functions[0].place})"

    def find_place(self, frames: Iterable[Any]) -> Optional[Place]:
        """The innermost line of a plugin in a stack, or None.

        Args:
            frames: the outermost first; objects with `filename` and `lineno`, or tuples that start
                with both.
        """
        for frame in reversed(list(frames)):
            is_tuple = isinstance(frame, tuple) and not hasattr(frame, "filename")
            file, line = frame[:2] if is_tuple else (frame.filename, frame.lineno)
            plugin = self._owner_of_file(file)
            if plugin is not None:
                return Place(plugin, f"{os.path.abspath(file)}:{line}")
        return None

    def _load_defaults(self) -> List[Plugin]:
        """The extensions that the model plugin names, without those that a user named besides."""
        hook, named = "default_extensions", {plugin.name for plugin in self.extensions}
        functions = [each.function for each in implementations(self.model) if each.hook == hook]
        answers = [self.call_plugin_code(f"hook '{hook}'", function) for function in functions]
        references = [reference for answer in answers for reference in answer or ()]
        return [load(each, "extension") for each in references if each not in named]

    def _owner_of_file(self, file: str) -> Optional[Plugin]:
        """The plugin whose file it is, else the first in whose package or folder it is, or None."""
        exact = [plugin for plugin in self.all if os.path.abspath(file) == plugin.file]
        others = [plugin for plugin in self.all if is_own_file(file, plugin.file)]
        return next(iter(exact + others), None)

    def _failing_plugin(self, error: BaseException) -> Plugin:
        """The plugin whose file is nearest to the error; the model plugin if none is involved."""
        place = self.find_place(traceback.extract_tb(error.__traceback__))
        return place.plugin if place else self.model


def _check_options(value: Any) -> Optional[Problem]:
    """What is wrong with a value of the hook `options`."""
    from ..options import Options

    if inspect.isclass(value) and issubclass(value, Options):
        return None
    return Problem(
        f"returned {describe_value(value)}", "It returns a class derived from toolkit.Options."
    )


def _code_error(
    plugin: Plugin, description: str, error: BaseException, place: str = ""
) -> ToolkitError:
    """The error of a plugin whose code raised an exception, or ended the process.

    Args:
        place: `file:line` to name if no line of the plugin is in the traceback.
    """
    failure = describe_failure(error, plugin.file, place)
    return ToolkitError(
        f"Plugin '{plugin.name}' failed in its {description}: {failure.text}.", hint=failure.hint
    )


def _check_distinct(first: Plugin, second: Plugin) -> None:
    if first.name == second.name:
        raise UsageError(f"'{first.name}' is named twice.")
    if first.object is second.object:
        raise UsageError(f"'{first.name}' and '{second.name}' are the same plugin.")
