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
    Optional,
    Sequence,
    Tuple,
    Type,
)

import pluggy

from .. import hookspecs
from ..errors import ToolkitError, UsageError
from ..hookspecs import MODEL_HOOKS, PROJECT
from .failures import TRACEBACK_HINT, describe_failure, explain_with_arguments, is_own_file
from .hook_call import Check, HookCall, HookFunction, Problem, describe_value
from .loader import load
from .plugin import HOOKS, Plugin, implementations

if TYPE_CHECKING:
    from ..options import Options


class Plugins:
    """The plugins of one run: a model plugin and any number of extensions.

    `extensions` are those that a user named; `defaults` are those that the model plugin names.
    The wrapper of a later extension runs outside of those of earlier ones.
    """

    def __init__(self, model: Plugin, extensions: Iterable[Plugin] = ()):
        self.model = model
        self.extensions = list(extensions)
        # The extensions that the model plugin names, but for those that a user names.
        self.defaults: List[Plugin] = []
        hook, named = "default_extensions", {plugin.name for plugin in self.extensions}
        functions = [each.function for each in implementations(model) if each.hook == hook]
        answers = [self.call_plugin_code(f"hook '{hook}'", function) for function in functions]
        for answer in answers:
            is_list = answer is None or isinstance(answer, (list, tuple))
            if not (is_list and all(isinstance(each, str) for each in answer or ())):
                raise UsageError(
                    f"The hook '{hook}' of '{model.name}' returned {describe_value(answer)}, "
                    "expected a list of texts.",
                    hint="Return references as of --with: ['ema'].",
                )
        references = [reference for answer in answers for reference in answer or ()]
        self.defaults = [load(each, "extension") for each in references if each not in named]
        manager: Any = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(hookspecs)
        for number, plugin in enumerate(self.all):
            for earlier in self.all[:number]:
                if earlier.name == plugin.name:
                    raise UsageError(f"'{plugin.name}' is named twice.")
                if earlier.object is plugin.object:
                    text = f"'{earlier.name}' and '{plugin.name}' are the same plugin."
                    raise UsageError(text)
            namespace, marks = types.ModuleType(plugin.name), {}  # not all that `dir` lists of it
            for each in implementations(plugin):
                setattr(namespace, each.attribute, each.function)
                marks[each.attribute] = each.marks
            manager.parse_hookimpl_opts = lambda _, name, marks=marks: marks.get(name)
            try:
                manager.register(namespace, plugin.name)
            except (ValueError, pluggy.PluginValidationError) as error:
                raise UsageError(f"Plugin '{plugin.name}' cannot be registered: {error}.") from None
        manager.check_pending()
        self._callers = {hook: getattr(manager.hook, hook) for hook in HOOKS}
        self._functions: Dict[str, List[HookFunction]] = {}

    @classmethod
    def load(cls, reference: str, extensions: Iterable[str] = (), named_by: str = "") -> Plugins:
        """Load the plugins of a run; for `named_by` and errors, see `load`."""
        model = load(reference, "model", named_by)
        return cls(model, [load(name, "extension", named_by) for name in extensions])

    @property
    def all(self) -> List[Plugin]:
        return [self.model, *self.defaults, *self.extensions]

    def hook_functions(self, hook: str) -> List[HookFunction]:
        """The functions of a hook: wrappers, the outermost first, then the others."""
        if hook not in self._functions:  # they do not change after the plugins are registered
            by_name = {plugin.name: plugin for plugin in self.all}
            self._functions[hook] = [
                HookFunction(
                    by_name[each.plugin_name],
                    hook,
                    each.function,
                    tuple(each.argnames),
                    bool(each.wrapper),
                )
                for each in reversed(self._callers[hook].get_hookimpls())
            ]
        return self._functions[hook]

    def has_hook(self, hook: str) -> bool:
        """Whether any plugin of this run implements the hook."""
        return bool(self.hook_functions(hook))

    def call_hook(self, hook: str, check: Optional[Check] = None, **arguments: Any) -> Any:
        """Call a hook with all of its arguments by name, and `check` each value that a plugin's
        function or wrapper returns. Returns the value of the hook; for hooks that every plugin may
        answer, a list.

        Raises ToolkitError, with plugin, hook and place of the code, if a plugin's code failed, or
        returned a wrong value, or a model hook returned None.
        """
        return self._call(self.hook_functions(hook), hook, check, arguments)[0]

    def call_each(
        self, hook: str, check: Optional[Check] = None, **arguments: Any
    ) -> List[Tuple[HookFunction, Any]]:
        """Call a hook that every plugin may answer. For errors, see `call_hook`.

        Returns the values, each behind the function that returned it, in the order of the calls:
        the last extension first, the model plugin last. Values of None are left out. A value that a
        wrapper put in the place of another is the wrapper's.
        """
        functions = self.hook_functions(hook)
        values, call = self._call(functions, hook, check, arguments)
        owners = {id(value): function for function, value in call.answers}
        return [(owners.get(id(value), functions[0]), value) for value in values]

    def augment(self, features: Any, labels: Any, run: Any) -> Tuple[Any, Any]:
        """Call the hook `augment`: each plugin changes what the one before returned, the model
        plugin first, then the extensions in the order in which the user named them. Raises
        ToolkitError if a plugin's code failed, or returned no pair.
        """
        functions = [each for each in self.hook_functions("augment") if not each.is_wrapper]
        for function in reversed(functions):
            arguments = {"features": features, "labels": labels, "run": run}
            (answer,) = self._call([function], "augment", None, arguments)[0] or [None]
            if not isinstance(answer, tuple) or len(answer) != 2:
                text = f"returned {describe_value(answer)}, expected the pair (features, labels)"
                raise function.error(Problem(text, "End it with 'return features, labels'."))
            features, labels = answer
        return features, labels

    def describe_order(self) -> str:
        """The order of the plugins in each hook that one of them wraps, the outermost first, such
        as "loss: smoothing > ema > linear; augment: noise, then mixup"; "" if there is none.
        """
        texts = []
        for hook in MODEL_HOOKS:
            functions = self.hook_functions(hook)
            if any(each.is_wrapper for each in functions):
                texts.append(f"{hook}: {' > '.join(each.plugin.name for each in functions)}")
        augmenting = [each.plugin.name for each in reversed(self.hook_functions("augment"))]
        if augmenting:
            texts.append(f"augment: {', then '.join(augmenting)}")
        return "; ".join(texts)

    def call_plugin_code(
        self, description: str, function: Callable, *arguments: Any, **named: Any
    ) -> Any:
        """Call a function that belongs to a plugin, "hook 'build'" for example in the message.
        Raises ToolkitError in place of any other exception, also of `sys.exit`.
        """
        try:
            return function(*arguments, **named)
        except ToolkitError:
            raise
        except (Exception, SystemExit) as error:
            raise self._code_error(description, error) from error

    def options(self) -> List[Tuple[str, Type[Options]]]:
        """(plugin name, options class) of each plugin that has options, the model plugin first."""
        from ..options import Options
        from ..options.merging import check_declarations

        def check(value: Any) -> Optional[Problem]:
            if inspect.isclass(value) and issubclass(value, Options):
                return None
            text = f"returned {describe_value(value)}"
            return Problem(text, "It returns a class derived from toolkit.Options.")

        classes = []
        functions = sorted(self.hook_functions("options"), key=lambda f: self.all.index(f.plugin))
        for function in functions:
            plugin = function.plugin
            for cls in self._call([function], "options", check, {})[0]:
                check_declarations(cls, plugin.name, plugin.file)
                classes.append((plugin.name, cls))
        return classes

    def owner(self, value: Any) -> str:
        """The name of the plugin in whose folder the class of `value` is defined, or ''."""
        file = getattr(sys.modules.get(type(value).__module__), "__file__", "") or ""
        return next((each.name for each in self.all if is_own_file(file, each.file)), "")

    def describe_place(self, hook: str) -> str:
        """` (hook 'build' of plugin 'x', file:line)` of who answers a hook, to end a message."""
        functions = [each for each in self.hook_functions(hook) if not each.is_wrapper]
        if not functions:
            return ""
        return f" (hook '{hook}' of plugin '{functions[0].plugin.name}', {functions[0].place})"

    def find_place(self, frames: Iterable[Any]) -> Tuple[Plugin, str]:
        """The plugin with the innermost line of plugins in a stack, and `file:line`; without such a
        line, the model plugin, and its file. The frames, the outermost first, are objects with
        `filename` and `lineno`, or tuples that start with both.
        """
        for frame in reversed(list(frames)):
            is_tuple = isinstance(frame, tuple) and not hasattr(frame, "filename")
            file, line = frame[:2] if is_tuple else (frame.filename, frame.lineno)
            plugin = self._owner_of_file(file)
            if plugin is not None:
                return plugin, f"{os.path.abspath(file)}:{line}"
        return self.model, self.model.file

    def _call(
        self,
        functions: Sequence[HookFunction],
        hook: str,
        check: Optional[Check],
        arguments: Mapping[str, Any],
    ) -> Tuple[Any, HookCall]:
        """Call functions of a hook; return the value, and the call. Raises ToolkitError."""
        call = HookCall(self._callers[hook].spec, check)
        try:
            value = call.run(functions, arguments)
        except ToolkitError:
            raise
        except (Exception, SystemExit) as error:
            failure = self._code_error(f"hook '{hook}'", error, call.find_culprit(error))
            if failure.hint == TRACEBACK_HINT:
                frames = traceback.extract_tb(error.__traceback__)
                lines = [each.line or "" for each in frames if self._owner_of_file(each.filename)]
                failure.hint = explain_with_arguments(error, lines, arguments) or failure.hint
            raise failure from error
        if value is None and hook in MODEL_HOOKS:
            hint = "A model hook returns a value; is a 'return' missing?"
            is_lost = bool(call.answers)  # by a wrapper
            owner = next(each for each in functions if each.is_wrapper == is_lost)
            raise owner.error(Problem("returned None", hint))
        return value, call

    def _code_error(
        self, description: str, error: BaseException, function: Optional[HookFunction] = None
    ) -> ToolkitError:
        """The error for an exception of a plugin's code, or for an end of the process.

        Without the function that raised it, it is that of the plugin whose file is nearest.
        """
        if function is None:
            plugin, place = self.find_place(traceback.extract_tb(error.__traceback__))[0], ""
        else:
            plugin, place = function.plugin, function.place
        failure = describe_failure(error, plugin.file, place)
        text = f"Plugin '{plugin.name}' failed in its {description}: {failure.text}."
        return ToolkitError(text, hint=failure.hint)

    def _owner_of_file(self, file: str) -> Optional[Plugin]:
        """The plugin whose file it is, else the first in whose package or folder it is, or None."""
        exact = [plugin for plugin in self.all if os.path.abspath(file) == plugin.file]
        others = [plugin for plugin in self.all if is_own_file(file, plugin.file)]
        return next(iter(exact + others), None)
