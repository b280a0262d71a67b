"""`Hook`: a `tf.train.SessionRunHook` that says on which steps it is due.

Between two due steps the loop needs nothing from the hooks, so it runs the bare train op. A
`SessionRunHook` that is no `Hook` knows nothing of this and is called on every step, as it expects.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Optional

from ...compat import tf
from ...errors import RetryError, ToolkitError

NEVER = float("inf")


class Every:
    """When something is due: at each multiple of `steps`, and `secs` seconds after the last time.

    Either may be None. `clock` returns seconds and only goes up.
    """

    def __init__(
        self, steps: Optional[int] = None, secs: Optional[float] = None, clock=time.monotonic
    ):
        self.steps, self.secs, self._clock = steps, secs, clock
        self.restart()

    def restart(self) -> None:
        """Count the seconds from now."""
        self._since = self._clock()

    def next_step(self, step: int) -> float:
        return (step // self.steps + 1) * self.steps if self.steps else NEVER

    def deadline(self) -> float:
        return self._since + self.secs if self.secs else NEVER

    def due(self, step: int) -> bool:
        on_step = bool(self.steps) and step % self.steps == 0
        return on_step or self._clock() >= self.deadline()


class Hook(tf.train.SessionRunHook):
    """Base of the hooks that are called on due steps alone, and on the last step of a run.

    Where training is interrupted, that step is not the run's last: it goes on later.

    A subclass sets `every` (an `Every`) or overrides `next_step`, `deadline` and `is_due`, and
    implements `on_step`. `loop` is set before the session is made: `loop.step` is the number of
    steps made, `loop.target` where training stops, `loop.request_stop(reason)` asks for an end
    after this step.

    A hook that remembers anything from step to step hands it over in `state` and takes it back in
    `set_state`, so that a run that was killed and goes on records what it would have recorded.
    """

    name = ""
    every = Every()
    loop: Any = None
    _due = False

    def fetches(self) -> Any:
        """Tensors to fetch on a due step, in any structure; None for none."""
        return None

    def on_step(self, step: int, values: Any, context: Any) -> None:
        """Called after a due step. values: the fetched ones. context: `.session` is the raw
        session.
        """

    def state(self) -> Dict[str, Any]:
        """What to save with a checkpoint: names -> JSON values or numpy arrays; {} for nothing.

        Called when the step is made; hooks later in the order have not seen that step yet.
        """
        return {}

    def set_state(self, state: Dict[str, Any]) -> None:
        """Called before `on_restore` with what `state` gave at that step; {} at the beginning."""

    def on_commit(self) -> None:
        """Called before a checkpoint is committed: what the hook wrote so far has to be on the
        disk when this returns, where a kill shall not take it away.
        """

    def on_restore(self, session: Any, step: int) -> None:
        """Called with each new session, when its variables hold the state of `step`."""

    def on_stop(self, session: Any, step: int, error: Optional[BaseException]) -> None:
        """Called once when the loop has ended at `step`, in order; `error` is what ended it, or
        None.
        """

    def next_step(self, step: int) -> float:
        """The first due step after `step`."""
        return self.every.next_step(step)

    def deadline(self) -> float:
        """The time, on time.monotonic's clock, from which the next step is due."""
        return self.every.deadline()

    def is_due(self, step: int) -> bool:
        return self.loop.is_last(step) or self.every.due(step)

    def before_run(self, run_context):
        self._due = self.is_due(self.loop.step + 1)
        fetches = self.fetches() if self._due else None
        return None if fetches is None else tf.train.SessionRunArgs(fetches)

    def after_run(self, run_context, run_values):
        if self._due:
            self.every.restart()
            self.on_step(self.loop.step, run_values.results, run_context)


class PluginHook(Hook):
    """A plugin's `SessionRunHook`, with its faults told by plugin, hook and moment.

    One that is a `Hook` keeps its own due steps; any other is due on every step.
    """

    def __init__(self, inner: tf.train.SessionRunHook, plugin: str):
        self._inner = inner
        self._plugin = plugin
        self._says_when = isinstance(inner, Hook)
        self.name = f"{plugin}:{getattr(inner, 'name', '') or type(inner).__name__}"

    @property
    def loop(self):
        return self.__dict__.get("_loop")

    @loop.setter
    def loop(self, loop):
        self._loop = loop
        if self._says_when:
            self._inner.loop = loop

    @property
    def on_every_step(self) -> bool:
        return not self._says_when

    def next_step(self, step: int) -> float:
        return self._do("next_step", step) if self._says_when else step + 1

    def deadline(self) -> float:
        return self._do("deadline") if self._says_when else NEVER

    def state(self) -> Dict[str, Any]:
        return self._do("state") if self._says_when else {}

    def set_state(self, state: Dict[str, Any]) -> None:
        if self._says_when:
            self._do("set_state", state)

    def on_commit(self) -> None:
        if self._says_when:
            self._do("on_commit")

    def on_restore(self, session, step: int) -> None:
        if self._says_when:
            self._do("on_restore", session, step)

    def on_stop(self, session, step: int, error) -> None:
        if self._says_when:
            self._do("on_stop", session, step, error)

    def begin(self):
        return self._do("begin")

    def after_create_session(self, session, coord):
        return self._do("after_create_session", session, coord)

    def before_run(self, run_context):
        asked = self._do("before_run", run_context)
        for fetch in tf.nest.flatten(getattr(asked, "fetches", None)):
            if isinstance(fetch, (tf.Tensor, tf.Operation)) and not _in_reach(fetch, run_context):
                raise ToolkitError(
                    f"Session hook {type(self._inner).__name__} of plugin '{self._plugin}' "
                    f"fetches '{fetch.name}', which is within the loop of "
                    "steps.",
                    hint="Take the tensors that the hook 'session_hooks' is given, or what "
                    "run.logged has; or set --steps-per-call 1.",
                )
        return asked

    def after_run(self, run_context, run_values):
        return self._do("after_run", run_context, run_values)

    def end(self, session):
        return self._do("end", session)

    def _do(self, moment: str, *arguments):
        try:
            return getattr(self._inner, moment)(*arguments)
        except (ToolkitError, tf.errors.OpError, StopIteration):
            raise
        except OSError as error:
            raise RetryError(
                f"Session hook {type(self._inner).__name__} of plugin '{self._plugin}' "
                f"failed in {moment}: {error}.",
                hint="When that is mended, resume the run.",
            ) from error
        except Exception as error:
            hint = "Run again with -v for the traceback."
            if "finalized" in str(error):
                hint = "Make every op in 'begin' or in the plugin's hook 'session_hooks'."
            raise ToolkitError(
                f"Session hook {type(self._inner).__name__} of plugin '{self._plugin}' "
                f"failed in {moment}: {type(error).__name__}: {error}",
                hint=hint,
            ) from error


def _in_reach(fetch, run_context) -> bool:
    """Whether a session can fetch it: what is within a loop, or compiled, it cannot."""
    return fetch.graph is run_context.session.graph and fetch.graph.is_fetchable(fetch)
