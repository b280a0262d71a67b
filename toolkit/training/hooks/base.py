"""`SessionHook`: a `tf.train.SessionRunHook` that says on which steps it is due.

Between two due steps the loop needs nothing from the hooks, so it runs the train op alone. A
`SessionRunHook` that is no `SessionHook` cannot say when it is due and is called on every step.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import time
from typing import Any, Callable, Container, ContextManager, Dict, List, Optional

from ...compat import capture_log, tf
from ...errors import RetryError, ToolkitError
from ...plugins import Plugin, describe_failure, describe_value, is_own_file, own_frames
from .late_variables import refused_variables
from .variable_reads import DividedFetches, VariableReads

NEVER = float("inf")


class Every:
    """When something is due: at each multiple of a number of steps, or after some seconds.

    Args:
        steps: due at each multiple of it; None for no such step.
        secs: due when so many seconds have passed since the last time; None for no such time.
        clock: returns seconds, and never goes back.
    """

    def __init__(
        self,
        steps: Optional[int] = None,
        secs: Optional[float] = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.steps, self.secs, self._clock = steps, secs, clock
        self.restart()

    def restart(self) -> None:
        """Count the seconds from now."""
        self._start = self._clock()

    def next_due_step(self, step: int) -> float:
        """The first due step after `step`, or NEVER."""
        return (step // self.steps + 1) * self.steps if self.steps else NEVER

    def deadline(self) -> float:
        """The time on the clock from which the next step is due, or NEVER."""
        return self._start + self.secs if self.secs else NEVER

    def is_due(self, step: int) -> bool:
        """Whether `step` is due, now that it is made."""
        if self.steps and step % self.steps == 0:
            return True
        return self._clock() >= self.deadline()


class SessionHook(tf.train.SessionRunHook):
    """Base of the hooks that are called on due steps alone, and on the last step of a run.

    When training is interrupted, its last step is not the run's last: the run continues later.

    A subclass sets `every` or overrides `next_due_step`, `deadline` and `is_due`, and implements
    `on_step`. A hook that remembers anything from step to step returns it from `state` and takes it
    back in `set_state`, so that a run that was killed and resumed records what it would have
    recorded.

    Attributes:
        name: names the hook in logs, and its state in checkpoints.
        every: when the hook is due; None for never.
        loop: the `Loop`, set before the session exists. `loop.step` is the number of steps so far,
            `loop.target` the step at which training stops, `loop.request_stop(reason)` asks for an
            end after this step.
    """

    name = ""
    every: Optional[Every] = None
    loop: Any = None
    _is_due_now = False

    def fetches(self) -> Any:
        """Tensors to fetch on a due step, in any structure; None for none."""
        return None

    def on_step(self, step: int, values: Any, context: Any) -> None:
        """Called after a due step.

        Args:
            step: the number of steps so far, this one included.
            values: of the tensors of `fetches`, in their structure.
            context: a `tf.train.SessionRunContext`; its `session` is the raw session.
        """

    def state(self) -> Dict[str, Any]:
        """What to save with a checkpoint: names -> JSON values or numpy arrays; {} for nothing.

        It is called after the step; later hooks in the order have not seen that step yet.
        """
        return {}

    def set_state(self, state: Dict[str, Any]) -> None:
        """Called before `on_restore` with what `state` returned at that step; {} at the start."""

    def on_commit(self) -> None:
        """Called before a checkpoint is committed: flush to disk whatever must survive a crash."""

    def on_committed(self, step: int, path: str) -> None:
        """Called after the checkpoint of `step` is committed.

        Args:
            path: of the checkpoint, without its endings.
        """

    def on_restore(self, session: Any, step: int) -> None:
        """Called with each new session, when its variables hold the state of `step`."""

    def on_stop(self, session: Any, step: int, error: Optional[BaseException]) -> None:
        """Called once when the loop has ended at `step`; `error` is what ended it, or None."""

    def next_due_step(self, step: int) -> float:
        """The first due step after `step`, or `NEVER`."""
        return self.every.next_due_step(step) if self.every else NEVER

    def deadline(self) -> float:
        """The time, on time.monotonic's clock, from which the next step is due, or `NEVER`."""
        return self.every.deadline() if self.every else NEVER

    def is_due(self, step: int) -> bool:
        """Whether the hook is called after `step`."""
        return self.loop.is_last(step) or (self.every is not None and self.every.is_due(step))

    def before_run(self, run_context: Any) -> Any:
        self._is_due_now = self.is_due(self.loop.step + 1)
        fetches = self.fetches() if self._is_due_now else None
        return None if fetches is None else tf.train.SessionRunArgs(fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._is_due_now:
            if self.every is not None:
                self.every.restart()
            self.on_step(self.loop.step, run_values.results, run_context)


class HookWrapper(SessionHook):
    """A hook around another one, whose calls all go through `_call`.

    A hook that is no `SessionHook` is due on every step and remembers nothing.
    """

    def __init__(self, inner: tf.train.SessionRunHook, name: str):
        self.name = name
        self._inner = inner
        self._is_session_hook = isinstance(inner, SessionHook)
        self._loop: Any = None

    def _call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._inner, method)(*arguments)

    @property
    def loop(self) -> Any:
        return self._loop

    @loop.setter
    def loop(self, loop: Any) -> None:
        self._loop = loop
        if self._is_session_hook:
            self._inner.loop = loop

    @property
    def is_called_on_every_step(self) -> bool:
        """Whether the hook cannot say when it is due."""
        return not self._is_session_hook

    def next_due_step(self, step: int) -> float:
        return self._call("next_due_step", step) if self._is_session_hook else step + 1

    def deadline(self) -> float:
        return self._call("deadline") if self._is_session_hook else NEVER

    def state(self) -> Dict[str, Any]:
        return self._call("state") if self._is_session_hook else {}

    def set_state(self, state: Dict[str, Any]) -> None:
        if self._is_session_hook:
            self._call("set_state", state)

    def on_commit(self) -> None:
        if self._is_session_hook:
            self._call("on_commit")

    def on_committed(self, step: int, path: str) -> None:
        if self._is_session_hook:
            self._call("on_committed", step, path)

    def on_restore(self, session: Any, step: int) -> None:
        if self._is_session_hook:
            self._call("on_restore", session, step)

    def on_stop(self, session: Any, step: int, error: Optional[BaseException]) -> None:
        if self._is_session_hook:
            self._call("on_stop", session, step, error)

    def begin(self) -> None:
        return self._call("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        return self._call("after_create_session", session, coord)

    def before_run(self, run_context: Any) -> Any:
        return self._call("before_run", run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        return self._call("after_run", run_context, run_values)

    def end(self, session: Any) -> None:
        return self._call("end", session)


class PluginHook(HookWrapper):
    """A plugin's `SessionRunHook`; its faults are reported with plugin, hook, method and line.

    Of a `SessionHook`, variables are read after the step. TensorFlow's own hooks expect values from
    before it, such as a global step to which they add one.

    Args:
        inner: the hook.
        plugin: that returned it.
        place: `file:line` of the plugin's code that returned it.
        step_ops: the ops of the graph before session hooks added theirs.
    """

    def __init__(
        self,
        inner: tf.train.SessionRunHook,
        plugin: Plugin,
        place: str,
        step_ops: Container[tf.Operation] = (),
    ):
        super().__init__(inner, f"{plugin.name}:{getattr(inner, 'name', '') or _title(inner)}")
        self._plugin, self._place = plugin, place
        self._variable_reads = VariableReads(step_ops)
        self._divided: Optional[DividedFetches] = None
        self._feed_dict: Optional[Dict[Any, Any]] = None
        self._subject = f"Session hook {_title(inner)} of plugin '{plugin.name}'"
        every = inner.every if isinstance(inner, SessionHook) else None
        if not isinstance(every, (Every, type(None), property)):
            raise ToolkitError(
                f"{self._subject} has {describe_value(every)} as 'every' ({place}).",
                hint="Set every = toolkit.Every(steps), or toolkit.Every(secs=seconds).",
            )

    def begin(self) -> None:
        with refused_variables(
            f"the method 'begin' of {self._subject[0].lower()}{self._subject[1:]}"
        ):
            super().begin()

    def before_run(self, run_context: Any) -> Any:
        self._divided = None
        args = super().before_run(run_context)
        if args is None:
            return None
        if not isinstance(args, tf.train.SessionRunArgs):
            raise ToolkitError(
                f"{self._subject} returned {describe_value(args)} from 'before_run' "
                f"({self._place_of('before_run')}).",
                hint="It returns tf.train.SessionRunArgs(fetches), or None.",
            )
        graph = run_context.session.graph
        fetches = tf.nest.map_structure(lambda each: self._resolve(each, graph), args.fetches)
        if not self._is_session_hook or fetches is None:
            return args._replace(fetches=fetches)
        self._divided = self._variable_reads.divide(fetches, tf.nest.flatten(fetches))
        self._feed_dict = args.feed_dict
        return args._replace(fetches=self._divided.of_step())

    def after_run(self, run_context: Any, run_values: Any) -> None:
        divided, self._divided = self._divided, None
        if divided is not None:
            results = divided.complete(run_values.results, run_context.session, self._feed_dict)
            run_values = run_values._replace(results=results)
        super().after_run(run_context, run_values)

    def _resolve(self, fetch: Any, graph: tf.Graph) -> Any:
        """What a session fetches: for the resource of a variable, the variable's value.

        Raises:
            ToolkitError: it is in no graph of a session, or within a loop or compiled code.
        """
        if isinstance(fetch, str):
            fetch = self._find(fetch, graph)
        if not isinstance(fetch, (tf.Tensor, tf.Operation)):
            return fetch
        if fetch.graph is not graph or not graph.is_fetchable(fetch):
            raise ToolkitError(
                f"{self._subject} fetches '{fetch.name}', which is within the loop of steps "
                f"({self._place_of('fetches')}).",
                hint="Take the tensors that the hook 'session_hooks' is given, or those of "
                "run.logged; or set --steps-per-call 1.",
            )
        if isinstance(fetch, tf.Tensor) and fetch.dtype == tf.resource:
            return next((v for v in _variables(graph) if v.handle is fetch), fetch)
        return fetch

    def _find(self, name: str, graph: tf.Graph) -> Any:
        try:
            return graph.as_graph_element(name)
        except (KeyError, TypeError, ValueError):
            names = [variable.op.name for variable in _variables(graph)]
            names += [op.name for op in graph.get_operations() if graph.is_fetchable(op)]
            raise ToolkitError(
                f"{self._subject} fetches '{name}', which is not in the graph "
                f"({self._place_of('fetches')}).",
                hint=_suggest_tensor(name, names),
            ) from None

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            with self._visible_log():
                return super()._call(method, *arguments)
        except (ToolkitError, *_LOOP_ERRORS):
            raise
        except (Exception, SystemExit) as error:
            failure = describe_failure(error, self._plugin.file, self._place_of(method))
            cls = RetryError if isinstance(error, OSError) else ToolkitError
            raise cls(
                f"{self._subject} failed in {self._public_name(method, error)}: {failure.text}.",
                hint=failure.hint,
            ) from error

    def _visible_log(self) -> ContextManager[None]:
        """Show on the run's console what the hook logs through TensorFlow."""
        return capture_log(self.loop.log) if self.loop is not None else contextlib.nullcontext()

    def _public_name(self, method: str, error: BaseException) -> str:
        """The name of the plugin's method that failed."""
        names = [frame.name for frame in own_frames(error, self._plugin.file)]
        return next((name for name in names if hasattr(self._inner, name)), self._alias(method))

    def _alias(self, method: str) -> str:
        """The method of `SessionHook` behind one of `SessionRunHook`."""
        is_inherited = getattr(type(self._inner), method, None) is getattr(
            SessionHook, method, object
        )
        return _METHODS.get(method, method) if is_inherited else method

    def _place_of(self, method: str) -> str:
        """The place of a method that the plugin defines, else of the code that made the hook."""
        for name in (self._alias(method), method, _BASE_METHODS.get(method, method)):
            code = getattr(getattr(type(self._inner), name, None), "__code__", None)
            if code is not None and is_own_file(code.co_filename, self._plugin.file):
                return f"{os.path.abspath(code.co_filename)}:{code.co_firstlineno}"
        return self._place


_METHODS = {"before_run": "fetches", "after_run": "on_step"}
_BASE_METHODS = {name: base for base, name in _METHODS.items()}
# What they mean depends on the loop: a lost session is replaced, ended data and a lack of memory
# have exit codes of their own.
_LOOP_ERRORS = (
    tf.errors.OutOfRangeError,
    tf.errors.AbortedError,
    tf.errors.UnavailableError,
    tf.errors.ResourceExhaustedError,
    MemoryError,
)


def _title(hook: Any) -> str:
    return type(hook).__name__


def _variables(graph: tf.Graph) -> List[Any]:
    """The variables of a graph that have a resource."""
    collections = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES)
    variables = [v for collection in collections for v in graph.get_collection(collection)]
    return [variable for variable in variables if hasattr(variable, "handle")]


def _suggest_tensor(name: str, operations: List[str]) -> str:
    """A hint for a wrong name of a tensor."""
    operation, colon, number = name.partition(":")
    matches = difflib.get_close_matches(operation, operations, n=1)
    if matches and matches[0] != operation:
        return f"Did you mean '{matches[0]}{colon}{number}'?"
    return "Take the tensors that the hook 'session_hooks' is given, or those of run.logged."
