"""One call of a hook: the functions of the plugins that implement it, wrappers around the others.

pluggy registers the functions and decides their order. The call is made here, because a wrapper may
pass on other arguments than it was called with, and call what it wraps more than once.
"""

from __future__ import annotations

import inspect
import os
import traceback
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .. import hookspecs
from ..errors import ToolkitError, suggest
from ..hookspecs import MODEL_HOOKS, PROJECT
from .failures import own_frames
from .plugin import Plugin, place_of
from .values import describe_value

REPEATABLE_HOOKS = ("call", "loss", "predict")  # a wrapper may call them several times


class Problem(NamedTuple):
    """What is wrong with a value that a hook returned.

    Attributes:
        text: completes "Hook 'x' of plugin 'y'": "returned None, expected a dict of tensors".
        hint: the way out, one sentence.
    """

    text: str
    hint: str


Check = Callable[[Any], Optional[Problem]]  # of a value that a hook returned


class HookFunction(NamedTuple):
    """A plugin's function for a hook."""

    plugin: Plugin
    function: Callable
    arguments: Tuple[str, ...]  # the names of those that it takes
    is_wrapper: bool

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function with those of the hook's arguments that it takes."""
        return self.function(*[arguments[name] for name in self.arguments])

    @property
    def place(self) -> str:
        """`file:line` of the function."""
        return place_of(self.function, self.plugin)

    def describe(self, hook: str) -> str:
        """The function as the subject of a message."""
        if self.is_wrapper:
            return f"The wrapper of hook '{hook}' of {self.plugin.kind} '{self.plugin.name}'"
        noun = "plugin" if self.plugin.kind == "model" else "extension"
        return f"Hook '{hook}' of {noun} '{self.plugin.name}'"

    def error(self, hook: str, problem: Problem) -> ToolkitError:
        """The error for what the function returned or yielded."""
        return ToolkitError(f"{self.describe(hook)} {problem.text} ({self.place}).", problem.hint)


class HookCall:
    """The functions of one hook, ready to be called any number of times.

    Args:
        hook: its name.
        functions: in pluggy's order of calls: the wrappers, the outermost first, then the others.
    """

    def __init__(self, hook: str, functions: Sequence[HookFunction]):
        self.hook = hook
        self.wrappers = [each for each in functions if each.is_wrapper]
        self.functions = [each for each in functions if not each.is_wrapper]
        specification = getattr(hookspecs, hook)
        self.answers: List[Tuple[HookFunction, Any]] = []  # of the last call, without wrappers
        self._check: Optional[Check] = None
        self._has_first_result = bool(getattr(specification, PROJECT + "_spec")["firstresult"])
        self._argument_names = list(inspect.signature(specification).parameters)

    @property
    def order(self) -> List[str]:
        """The names of the plugins, the outermost wrapper first."""
        return [each.plugin.name for each in [*self.wrappers, *self.functions]]

    def run(self, arguments: Mapping[str, Any], check: Optional[Check] = None) -> Any:
        """Call the functions.

        Args:
            arguments: all arguments of the hook by name.
            check: of each value that a function or a wrapper returns, so that a wrong one is blamed
                on whoever returned it; None for no check.

        Returns:
            The first value that is not None; of a hook that every plugin may answer, a list of all.

        Raises:
            HookFailure: a function raised an exception; it names the function.
            ToolkitError: a wrapper does not follow its rules, or a function raised this error.
        """
        self._check = check
        return self._run_wrappers(self.wrappers, arguments)

    def _run_wrappers(self, wrappers: Sequence[HookFunction], arguments: Mapping[str, Any]) -> Any:
        """Call the first of the wrappers, around all others and the functions."""
        if not wrappers:
            return self._run_functions(arguments)
        wrapper, inner = wrappers[0], wrappers[1:]
        generator = _call(self.hook, wrapper, arguments)
        results: List[Any] = []
        value, is_end = self._advance(wrapper, generator.send, None)
        while not is_end:
            if results and self.hook not in REPEATABLE_HOOKS:
                text = f"Only {', '.join(REPEATABLE_HOOKS)} may be called several times."
                raise wrapper.error(self.hook, Problem("yielded twice", text))
            try:
                passed = self._replace_arguments(wrapper, arguments, value)
                results.append(self._run_wrappers(inner, passed))
            except Exception as error:
                value, is_end = self._throw(wrapper, generator, error)
            else:
                value, is_end = self._advance(wrapper, generator.send, results[-1])
        has_result = any(result is not None for result in results)
        if value is None and (has_result or (self.hook in MODEL_HOOKS and not results)):
            text = "A wrapper returns the result: 'result = yield', then 'return result'."
            raise wrapper.error(self.hook, Problem("returned None", text))
        return self._checked(wrapper, value)

    def _advance(self, wrapper: HookFunction, method: Callable, value: Any) -> Tuple[Any, bool]:
        """Continue the generator of a wrapper; return what it yielded, or at its end returned, and
        whether that was the end. Raises HookFailure for any exception but a ToolkitError.
        """
        try:
            return method(value), False
        except StopIteration as end:
            return end.value, True
        except ToolkitError as error:
            if error is not value:  # not one that only passed through
                _add_place(error, self.hook, wrapper)
            raise
        except (Exception, SystemExit) as error:
            raise HookFailure(wrapper) from error

    def _throw(
        self, wrapper: HookFunction, generator: Any, error: BaseException
    ) -> Tuple[Any, bool]:
        """Raise an error at the `yield`: the plugin's own exception, not the `HookFailure`."""
        cause = error.__cause__ if isinstance(error, HookFailure) else error
        try:
            return self._advance(wrapper, generator.throw, cause)
        except HookFailure as failure:
            if failure.__cause__ is cause and isinstance(error, HookFailure):
                raise error from cause  # it only passed through
            raise

    def _run_functions(self, arguments: Mapping[str, Any]) -> Any:
        self.answers = []
        for function in self.functions:
            value = _call(self.hook, function, arguments)
            if value is None and self.hook == "session_hooks":
                hint = "Return the list, or [] for none; is a 'return' missing?"
                text = "returned None, expected a list of session hooks"
                raise function.error(self.hook, Problem(text, hint))
            if value is not None:
                self.answers.append((function, self._checked(function, value)))
                if self._has_first_result:
                    return value
        return None if self._has_first_result else [value for _, value in self.answers]

    def _checked(self, function: HookFunction, value: Any) -> Any:
        """The value that a function returned. Raises ToolkitError if it is a wrong one."""
        if self._check is None or value is None:
            return value
        for each in value if function.is_wrapper and not self._has_first_result else [value]:
            problem = self._check(each)
            if problem is not None:
                raise function.error(self.hook, problem)
        return value

    def _replace_arguments(
        self, wrapper: HookFunction, arguments: Mapping[str, Any], replaced: Any
    ) -> Mapping[str, Any]:
        """The arguments for what is wrapped.

        Args:
            replaced: what the wrapper yielded: None, or a dict of arguments by name.
        """
        if replaced is None:
            return arguments
        names = [name for name in self._argument_names if name != "run"]
        if not isinstance(replaced, dict):
            fault = f"yielded {describe_value(replaced)}"
            hint = f"Yield nothing, or a dict of arguments to replace: {', '.join(names)}."
            raise wrapper.error(self.hook, Problem(fault, hint))
        for name in replaced:
            if name not in names:
                fault = f"yielded the unknown argument '{name}'"
                raise wrapper.error(self.hook, Problem(fault, suggest(str(name), names)))
        return {**arguments, **replaced}


class HookFailure(Exception):
    """An exception of a plugin's function, in `__cause__`.

    Args:
        function: the one that raised it.
    """

    def __init__(self, function: HookFunction):
        super().__init__(function.plugin.name)
        self.function = function


def _call(hook: str, function: HookFunction, arguments: Mapping[str, Any]) -> Any:
    """Call a function. Raises HookFailure for any exception but a ToolkitError."""
    try:
        return function.call(arguments)
    except ToolkitError as error:
        _add_place(error, hook, function)
        raise
    except (Exception, SystemExit) as error:
        raise HookFailure(function) from error


def _add_place(error: ToolkitError, hook: str, function: HookFunction) -> None:
    """Name the plugin's line in the error of a function of the core that the plugin called.

    Errors of other classes are those of a user, about options or data, not of the plugin.
    """
    frames = own_frames(error, function.plugin.file)
    innermost = traceback.extract_tb(error.__traceback__)[-1:]
    if type(error) is ToolkitError and frames and frames[-1:] != innermost:
        noun = "plugin" if function.plugin.kind == "model" else "extension"
        place = f"{os.path.abspath(frames[-1].filename)}:{frames[-1].lineno}"
        owner = f"hook '{hook}' of {noun} '{function.plugin.name}', {place}"
        error.message = f"{error.message.rstrip('.')} ({owner})."


def make_hook_functions(
    plugins: Sequence[Plugin], implementations: Sequence[Any]
) -> List[HookFunction]:
    """The functions of a hook in pluggy's order of calls.

    Args:
        plugins: of the run.
        implementations: pluggy's `HookImpl`s, of which it calls the last first.
    """
    by_name: Dict[str, Plugin] = {plugin.name: plugin for plugin in plugins}
    return [
        HookFunction(
            by_name[each.plugin_name],
            each.function,
            tuple(each.argnames),
            bool(each.wrapper),
        )
        for each in reversed(implementations)
    ]
