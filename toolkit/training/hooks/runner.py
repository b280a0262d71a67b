"""`HookRunner`: the one hook of the monitored session, which calls all hooks of a run.

In a step with hooks it asks each for what to fetch, lets the loop count the step, and gives each
hook its values, in the order printed. It measures what they cost.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Dict, Iterator, Optional, Sequence

from ...compat import tf
from .base import NEVER, SessionHook

ASKED = "a session hook asked for the end"
_OF_LOOP = "loop"  # the key of what the loop itself fetches


class RunHook:
    """A hook of a run."""

    def __init__(self, hook: tf.train.SessionRunHook, name: str = ""):
        self.hook = hook
        self.name = name or hook.name  # in logs, measurements and checkpoints
        self.has_due_steps = isinstance(hook, SessionHook)  # else it is called on every step
        self.loop: Any = None  # that makes the steps; `HookRunner` sets it

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the hook."""
        return getattr(self.hook, method)(*arguments)

    def before_run(self, context: Any) -> Optional[tf.train.SessionRunArgs]:
        """What the hook asks for in the step that follows."""
        return self.call("before_run", context)

    def after_run(self, context: Any, values: tf.train.SessionRunValues) -> None:
        """Give the hook the values of what it asked for."""
        self.call("after_run", context, values)


class HookRunner(tf.train.SessionRunHook):
    """Calls the hooks of a run, in their order, for the loop, which is their attribute `loop`."""

    def __init__(self, hooks: Sequence[RunHook], loop: Any):
        self._hooks, self._loop = hooks, loop
        # Those that say when they are due, by their names, numbered where one comes twice.
        self._with_due_steps: Dict[str, RunHook] = {}
        self.seconds: Dict[str, float] = {}  # of a hook in its steps, at the start and at the end
        self.secs_in_steps = 0.0  # of all hooks
        names = [hook.name for hook in hooks]
        for index, hook in enumerate(hooks):
            number = names[:index].count(hook.name)
            self.seconds[hook.name], hook.loop = 0.0, loop
            if hook.has_due_steps:
                self._with_due_steps[f"{hook.name}#{number}" if number else hook.name] = hook
                hook.hook.loop = loop

    # ------------------------------------------------------------------------------- for the loop

    def next_due_step(self, step: int) -> float:
        """The first step after `step` on which a hook is due."""
        if len(self._with_due_steps) < len(self._hooks):
            return step + 1
        return min(hook.call("next_due_step", step) for hook in self._hooks)

    def deadline(self) -> float:
        """The time from which the next step is due, or NEVER."""
        return min((h.call("deadline") for h in self._with_due_steps.values()), default=NEVER)

    def tell(self, method: str, *arguments: Any) -> None:
        """Call a method of each `SessionHook`."""
        for hook in self._with_due_steps.values():
            is_measured = method in ("on_restore", "on_stop")
            with self._measured(hook) if is_measured else contextlib.nullcontext():
                hook.call(method, *arguments)

    def states(self) -> Dict[str, Dict[str, Any]]:
        """What the hooks want to save with a checkpoint, by their keys."""
        states = {key: hook.call("state") for key, hook in self._with_due_steps.items()}
        return {key: state for key, state in states.items() if state}

    def set_states(self, states: Dict[str, Dict[str, Any]]) -> None:
        """Give the hooks back what they wanted to save; {} to those that saved nothing."""
        for key, hook in self._with_due_steps.items():
            hook.call("set_state", states.get(key, {}))

    @contextlib.contextmanager
    def _measured(self, hook: RunHook, is_step: bool = False) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            secs = time.perf_counter() - start
            self.seconds[hook.name] += secs
            self.secs_in_steps += secs if is_step else 0.0

    # ----------------------------------------------------------------- for the monitored session

    def begin(self) -> None:
        for hook in self._hooks:
            hook.call("begin")

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        self._loop.begin_session(session)
        for hook in self._hooks:
            hook.call("after_create_session", session, coord)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        fetches: Dict[Any, Any] = {_OF_LOOP: self._loop.fetches}
        feeds: Dict[Any, Any] = {}
        options = tf.RunOptions()
        for number, hook in enumerate(self._hooks):
            with self._measured(hook, is_step=True):
                args = hook.before_run(run_context)
            if args is None:
                continue
            if args.fetches is not None:
                fetches[number] = args.fetches
            feeds.update(args.feed_dict or {})
            if args.options is not None:
                level = max(options.trace_level, args.options.trace_level)
                options.MergeFrom(args.options)
                options.trace_level = level
        return tf.train.SessionRunArgs(fetches, feeds or None, options)

    def after_run(self, run_context: Any, run_values: tf.train.SessionRunValues) -> None:
        self._loop.count_due_step(run_values.results[_OF_LOOP])
        for number, hook in enumerate(self._hooks):
            with self._measured(hook, is_step=True):
                results = run_values.results.get(number)
                hook.after_run(run_context, run_values._replace(results=results))
            if run_context.stop_requested:  # by a hook of TensorFlow, before the commit
                self._loop.request_stop(ASKED)

    def end(self, session: tf.Session) -> None:
        for hook in self._hooks:
            hook.call("end", session)
