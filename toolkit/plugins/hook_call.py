"""One call of a hook: the functions of the plugins that implement it, wrappers around the others.

pluggy registers the functions and decides their order. The call is made here, because a wrapper may
pass on other arguments than it was called with, and call what it wraps more than once.
"""

from __future__ import annotations

import inspect
import os
import traceback
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import ToolkitError, suggest
from ..hookspecs import MODEL_HOOKS
from .failures import own_frames
from .plugin import Plugin, place_of

MAX_LENGTH = 40  # of the text of a value
REPEATABLE_HOOKS = ("call", "loss", "predict")  # a wrapper may call them several times


class Problem(NamedTuple):
    """What is wrong with a value that a hook returned."""

    text: str  # completes "Hook 'x' of plugin 'y'": "returned None, expected a dict of tensors"
    hint: str  # the way out, one sentence


Check = Callable[[Any], Optional[Problem]]  # of a value that a hook returned


class HookFunction(NamedTuple):
    """A plugin's function for a hook."""

    plugin: Plugin
    hook: str
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

    def error(self, problem: Problem) -> ToolkitError:
        """The error for what the function returned or yielded."""
        subject = f"Hook '{self.hook}' of {self.plugin.noun} '{self.plugin.name}'"
        if self.is_wrapper:
            subject = f"The wrapper of hook '{self.hook}' of {self.plugin.kind} "
            subject += f"'{self.plugin.name}'"
        return ToolkitError(f"{subject} {problem.text} ({self.place}).", hint=problem.hint)


class HookCall:
    """One call of a hook, of which pluggy has the specification.

    `check` is made of each value that a function or a wrapper returns, so that a wrong one is
    blamed on whoever returned it.
    """

    def __init__(self, specification: Any, check: Optional[Check] = None):
        # The functions that returned a value, wrappers left out, each with its value.
        self.answers: List[Tuple[HookFunction, Any]] = []
        self._names = [name for name in specification.argnames if name != "run"]
        self._has_first_result = bool(specification.opts["firstresult"])
        self._check = check
        self._failure: Tuple[Optional[BaseException], Optional[HookFunction]] = (None, None)

    def find_culprit(self, error: BaseException) -> Optional[HookFunction]:
        """The function that raised the exception with which `run` ended; None if none did."""
        return self._failure[1] if self._failure[0] is error else None

    def run(self, functions: Sequence[HookFunction], arguments: Mapping[str, Any]) -> Any:
        """Call the first function around all others if it is a wrapper, else all of them, with the
        arguments of the hook by name. Functions are in pluggy's order of calls: the wrappers, the
        outermost first, then the others.

        Returns the first value that is not None; of a hook that every plugin may answer, a list of
        all. Raises ToolkitError if a wrapper does not follow its rules, and what a function raises;
        see `find_culprit`.
        """
        if not functions or not functions[0].is_wrapper:
            self.answers = []
            for function in functions:
                value = self._blame(function, function.call, arguments)
                if value is None and function.hook == "session_hooks":
                    hint = "Return the list, or [] for none; is a 'return' missing?"
                    text = "returned None, expected a list of session hooks"
                    raise function.error(Problem(text, hint))
                if value is not None:
                    self.answers.append((function, self._checked(function, value)))
                    if self._has_first_result:
                        return value
            return None if self._has_first_result else [value for _, value in self.answers]
        wrapper, hook = functions[0], functions[0].hook
        results: List[Any] = []
        generator = self._blame(wrapper, wrapper.call, arguments)
        value, is_end = self._blame(wrapper, _advance, generator.send, None)
        while not is_end:
            if results and hook not in REPEATABLE_HOOKS:
                text = f"Only {', '.join(REPEATABLE_HOOKS)} may be called several times."
                raise wrapper.error(Problem("yielded twice", text))
            try:
                results.append(self.run(functions[1:], self._replace(wrapper, arguments, value)))
            except (Exception, SystemExit) as error:
                value, is_end = self._blame(wrapper, _advance, generator.throw, error)
            else:
                value, is_end = self._blame(wrapper, _advance, generator.send, results[-1])
        has_result = any(result is not None for result in results)
        if value is None and (has_result or (hook in MODEL_HOOKS and not results)):
            text = "A wrapper returns the result: 'result = yield', then 'return result'."
            raise wrapper.error(Problem("returned None", text))
        return self._checked(wrapper, value)

    def _checked(self, function: HookFunction, value: Any) -> Any:
        """The value that a function returned. Raises ToolkitError if it is a wrong one."""
        if self._check is None or value is None:
            return value
        for each in value if function.is_wrapper and not self._has_first_result else [value]:
            problem = self._check(each)
            if problem is not None:
                raise function.error(problem)
        return value

    def _blame(self, function: HookFunction, action: Callable, *arguments: Any) -> Any:
        """action(*arguments); an exception is the function's, unless it is the last argument."""
        try:
            return action(*arguments)
        except (Exception, SystemExit) as error:
            if error is arguments[-1]:  # which only passed through
                raise
            if isinstance(error, ToolkitError):
                _add_place(error, function)
            self._failure = (error, function)
            raise

    def _replace(
        self, wrapper: HookFunction, arguments: Mapping[str, Any], replaced: Any
    ) -> Mapping[str, Any]:
        """The arguments for what is wrapped, from what the wrapper yielded: None, or a dict."""
        if replaced is None:
            return arguments
        if not isinstance(replaced, dict):
            fault = f"yielded {describe_value(replaced)}"
            hint = f"Yield nothing, or a dict of arguments to replace: {', '.join(self._names)}."
            raise wrapper.error(Problem(fault, hint))
        for name in replaced:
            if name not in self._names:
                fault = f"yielded the unknown argument '{name}'"
                raise wrapper.error(Problem(fault, suggest(str(name), self._names)))
        return {**arguments, **replaced}


def _advance(method: Callable, value: Any) -> Tuple[Any, bool]:
    """What a generator yielded, or at its end returned, and whether that was the end."""
    try:
        return method(value), False
    except StopIteration as end:
        return end.value, True


def _add_place(error: ToolkitError, function: HookFunction) -> None:
    """Name the plugin's line in the error of a function of the core that the plugin called.

    Errors of other classes are those of a user, about options or data, not of the plugin.
    """
    frames = own_frames(error, function.plugin.file)
    innermost = traceback.extract_tb(error.__traceback__)[-1:]
    if type(error) is ToolkitError and frames and frames[-1:] != innermost:
        place = f"{os.path.abspath(frames[-1].filename)}:{frames[-1].lineno}"
        owner = f"hook '{function.hook}' of {function.plugin.noun} '{function.plugin.name}', "
        error.message = f"{error.message.rstrip('.')} ({owner}{place})."


def describe_value(value: Any) -> str:
    """What a hook returned, in few words with their article, without addresses, and without the
    numbers of an array: `a list of 2`, `a tensor float32 [4]`, `1.0`.
    """
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    if inspect.iscoroutine(value):
        value.close()  # Python would warn that nobody waits for it
        return "a coroutine"
    if inspect.isgenerator(value):
        return "a generator"
    if isinstance(value, (tuple, list, dict, set)):
        text = repr(value)
        is_readable = len(text) <= MAX_LENGTH and "<" not in text and "\n" not in text
        return text if is_readable else f"a {type(value).__name__} of {len(value)}"
    module = type(value).__module__.split(".")[0]
    if module in ("numpy", "tensorflow") and hasattr(value, "dtype") and hasattr(value, "shape"):
        return _describe_tensor(value, module)
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        text = repr(value)
        return text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + "..."
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _describe_tensor(value: Any, module: str) -> str:
    """`a tensor float32 [4, 3]`; an array or a number of numpy in the same way."""
    dtype = getattr(value.dtype, "name", str(value.dtype))
    if module == "numpy":
        shape = list(value.shape)
        return f"an array {dtype} {shape}" if shape else f"numpy's {dtype} {value}"
    kind = "variable" if hasattr(value, "assign") else "tensor"
    if value.shape.ndims is None:
        return f"a {kind} {dtype} of unknown shape"
    sizes = ["?" if size is None else str(size) for size in value.shape.as_list()]
    return f"a {kind} {dtype} [{', '.join(sizes)}]"
