"""The plugins of a run, and calls of their hooks."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
import types
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Tuple, Type

import pluggy

from .. import hookspecs
from ..errors import ToolkitError, UsageError
from ..hookspecs import MODEL_HOOKS, PROJECT
from .failures import summarize_exception
from .loader import load
from .plugin import Plugin, hook_names, implementations, place_of

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
    def load(cls, reference: str, extensions: Iterable[str] = (), named_by: str = "") -> Plugins:
        """Load the plugins of a run; for `named_by` and errors, see `load`."""
        model = load(reference, "model", named_by)
        return cls(model, [load(name, "extension", named_by) for name in extensions])

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
        from ..options import Options

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
        return place_of(functions[0], self.model) if functions else self.model.file

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
