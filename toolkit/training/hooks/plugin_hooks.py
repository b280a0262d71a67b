"""The session hooks of plugins: their faults name plugin, method and line, and what they fetch is
resolved, or refused with a way out.
"""

from __future__ import annotations

import contextlib
import inspect
import numbers
from typing import Any, Container, Dict, Iterator, List, Optional

from ...autopsy.op_traceback import plugin_lines
from ...compat import capture_log, tf, under_construction
from ...errors import RetryError, ToolkitError
from ...graph.build import TrainingGraph
from ...graph.ops import upstream
from ...plugins import (
    HookFunction,
    Plugin,
    Plugins,
    Problem,
    describe_failure,
    describe_value,
    own_frames,
)
from ...run_data import RunData
from .base import NEVER, Every, SessionHook
from .runner import RunHook

# What they mean depends on the loop: a lost session, ended data and a lack of memory have exit
# codes of their own.
_LOOP_ERRORS = (
    tf.errors.OutOfRangeError,
    tf.errors.AbortedError,
    tf.errors.UnavailableError,
    tf.errors.ResourceExhaustedError,
    MemoryError,
)
_HINT = "Take the tensors that the hook 'session_hooks' is given, or those of run.logged"


def build_plugin_hooks(plugins: Plugins, graph: TrainingGraph, run_data: RunData) -> List[RunHook]:
    """What the plugins' hook `session_hooks` returns for a graph, in which it may make ops."""
    features, labels = graph.step.batch
    step_ops = set(graph.tf_graph.get_operations())
    with under_construction(graph.tf_graph):
        answers = plugins.call_each(
            "session_hooks",
            model=graph.model,
            features=features,
            labels=labels,
            outputs=graph.step.outputs,
            losses=graph.step.losses,
            run=graph.run,
            splits=run_data.prepare_split,
        )
        return [
            PluginHook(hook, function.plugin, function.place, step_ops)
            for function, hooks in answers
            for hook in _as_list(plugins, function, hooks)
        ]


def _as_list(plugins: Plugins, function: HookFunction, hooks: Any) -> List[tf.train.SessionRunHook]:
    """The session hooks that a function returned. Raises ToolkitError for anything else."""
    if inspect.isgenerator(hooks):
        hooks = plugins.call_plugin_code("hook 'session_hooks'", list, hooks)
    if not isinstance(hooks, (list, tuple)):
        text = f"returned {describe_value(hooks)}, expected a list of session hooks"
        raise function.error(Problem(text, "Return a list: [hook]."))
    for hook in hooks:
        if not isinstance(hook, tf.train.SessionRunHook):
            hint = "It returns a list of tf.train.SessionRunHooks."
            if inspect.isclass(hook):
                hint = f"Return an object of the class: [{hook.__name__}()]."
            text = f"returned a list with {describe_value(hook)}, expected session hooks"
            raise function.error(Problem(text, hint))
    return list(hooks)


class PluginHook(RunHook):
    """A hook that a plugin returned.

    What a `SessionHook` fetches and what variables alone decide is read after the step: nothing
    orders such a read in the call that makes the step, so its value would be one from before or
    after it, or a mixture. TensorFlow's own hooks expect values from before the step, such as a
    global step to which they add one.

    `place` is `file:line` of the plugin's code that returned the hook; `step_ops` are the ops of
    the graph before session hooks added theirs.
    """

    def __init__(
        self,
        hook: tf.train.SessionRunHook,
        plugin: Plugin,
        place: str,
        step_ops: Container[tf.Operation] = (),
    ):
        title = type(hook).__name__
        super().__init__(hook, f"{plugin.name}:{getattr(hook, 'name', '') or title}")
        self._plugin, self._place, self._step_ops = plugin, place, step_ops
        self._subject = f"Session hook {title} of plugin '{plugin.name}'"
        self._are_reads: Dict[str, bool] = {}  # by the name of a tensor
        self._request: Optional[tf.train.SessionRunArgs] = None  # with fetches that are divided
        every = hook.every if isinstance(hook, SessionHook) else None
        if not isinstance(every, (Every, type(None), property)):
            hint = "Set every = toolkit.Every(steps), or toolkit.Every(secs=seconds)."
            raise self._error(f"has {describe_value(every)} as 'every'", hint)

    def call(self, method: str, *arguments: Any) -> Any:
        place = f"the method 'begin' of s{self._subject[1:]}"
        check = refused_variables(place) if method == "begin" else contextlib.nullcontext()
        with self._blamed(method), check, capture_log(self.loop.log):
            result = super().call(method, *arguments)
        is_number = isinstance(result, numbers.Real) and float(result) > -NEVER
        if method in ("next_due_step", "deadline") and not is_number:
            text = f"returned {describe_value(result)} from '{method}'"
            raise self._error(text, "It returns a number; infinity for never.")
        return result

    def _error(self, text: str, hint: str) -> ToolkitError:
        return ToolkitError(f"{self._subject} {text} ({self._place}).", hint=hint)

    @contextlib.contextmanager
    def _blamed(self, method: str) -> Iterator[None]:
        """Raise what happens in the block as the hook's failure in a method."""
        try:
            yield
        except (ToolkitError, *_LOOP_ERRORS):
            raise
        except (Exception, SystemExit) as error:
            failure = describe_failure(error, self._plugin.file, self._place)
            names = [frame.name for frame in own_frames(error, self._plugin.file)]
            names = [name for name in names if hasattr(self.hook, name)]
            cls = RetryError if isinstance(error, OSError) else ToolkitError
            raise cls(
                f"{self._subject} failed in {(names or [method])[0]}: {failure.text}.",
                hint=failure.hint,
            ) from error

    def before_run(self, context: Any) -> Optional[tf.train.SessionRunArgs]:
        self._request = None
        args = super().before_run(context)
        if args is None:
            return None
        if not isinstance(args, tf.train.SessionRunArgs):
            text = f"returned {describe_value(args)} from 'before_run'"
            raise self._error(text, "It returns tf.train.SessionRunArgs(fetches), or None.")
        if args.fetches is None:
            return args
        graph = context.session.graph
        with self._blamed("before_run"):  # a structure may be wrong, too
            fetches = tf.nest.map_structure(lambda each: self._resolve(each, graph), args.fetches)
        args = args._replace(fetches=fetches)
        if not self.has_due_steps:
            return args
        self._request = args
        of_step = [each for each in tf.nest.flatten(fetches) if not self._is_read(each)]
        return args._replace(fetches=of_step)

    def after_run(self, context: Any, values: tf.train.SessionRunValues) -> None:
        if self._request is not None:
            structure, feeds = self._request.fetches, self._request.feed_dict
            fetches = tf.nest.flatten(structure)
            reads = [each for each in fetches if self._is_read(each)]
            later = iter(context.session.run(reads, feed_dict=feeds) if reads else [])
            now = iter(values.results)
            results = [next(later if self._is_read(each) else now) for each in fetches]
            values = values._replace(results=tf.nest.pack_sequence_as(structure, results))
        super().after_run(context, values)

    # ---------------------------------------------------------------------- what the hook fetches

    def _resolve(self, fetch: Any, graph: tf.Graph) -> Any:
        """What a session fetches: for the resource of a variable, the variable's value."""
        if isinstance(fetch, str):
            try:
                fetch = graph.as_graph_element(fetch)
            except (KeyError, TypeError, ValueError):
                text = f"fetches '{fetch}', which is not in the graph"
                raise self._error(text, f"{_HINT}.") from None
        if not (hasattr(fetch, "graph") or hasattr(fetch, "_type_spec")):
            text = f"fetches {describe_value(fetch)}, which is no tensor"
            raise self._error(text, f"{_HINT}.")
        if not isinstance(fetch, (tf.Tensor, tf.Operation)):
            return fetch
        if fetch.graph is not graph or not graph.is_fetchable(fetch):
            text = f"fetches '{fetch.name}', which is within the loop of steps"
            raise self._error(text, f"{_HINT}; or set --steps-per-call 1.")
        if isinstance(fetch, tf.Tensor) and fetch.dtype == tf.resource:
            variables = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
            variables = variables + graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES)
            return next((v for v in variables if getattr(v, "handle", None) is fetch), fetch)
        return fetch

    def _is_read(self, fetch: Any) -> bool:
        """Whether variables alone decide a value."""
        if hasattr(fetch, "handle"):  # a variable
            return True
        if not isinstance(fetch, tf.Tensor):
            return False
        if fetch.name not in self._are_reads:
            ops = upstream([fetch.op])
            reads = {op for op in ops if op.type == "ReadVariableOp"}
            free = {op for op in reads if not op.control_inputs}
            # The others are a hook's, or shared with it by the step's ops.
            is_read = bool(reads) and all(
                op not in self._step_ops or op in free or op.type in ("VarHandleOp", "Const")
                for op in ops
            )
            self._are_reads[fetch.name] = is_read
        return self._are_reads[fetch.name]


@contextlib.contextmanager
def refused_variables(place: str) -> Iterator[None]:
    """Refuse global variables that are created in the block, by a plugin's code at a place, after
    the saver was made: they would be trained, not saved.
    """
    known = {variable.op.name for variable in tf.global_variables()}
    yield
    for variable in tf.global_variables():
        if variable.op.name in known:
            continue
        lines = plugin_lines(variable.op)
        location = f" ({lines[-1].file}:{lines[-1].line})" if lines else ""
        raise ToolkitError(
            f"The variable '{variable.op.name}' was created in {place}{location}, too late to be "
            "saved.",
            hint="Create it in the hook 'build', or with run.state; an optimizer belongs in the "
            "hook 'optimize'.",
        )
