"""Linear with session hooks, and a hook by which something happens after a step."""

import pytest
from linear_fixtures import Linear

from toolkit import Every, SessionHook, hookimpl, tf
from toolkit.compat import VERSION_FAMILY

ONLY_2 = pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone")


def with_hooks(*hooks):
    """The linear plugin with session hooks; a resume with `Linear` continues its run."""

    class WithHooks(Linear):
        @hookimpl
        def session_hooks(self):
            return list(hooks)

    WithHooks.__name__ = Linear.__name__
    return WithHooks


class CallAt(SessionHook):
    """Calls `act(step)` after these steps, once for each time that a step is listed."""

    every = Every(steps=1)

    def __init__(self, steps, act):
        self._steps, self._act = list(steps), act

    def on_step(self, step, values, context):
        if step in self._steps:
            self._steps.remove(step)
            self._act(step)


class Fetch(SessionHook):
    """Fetches tensors in every fifth step and in the last; `values` has them by step."""

    every = Every(steps=5)

    def __init__(self, tensors):
        self.tensors, self.values = tensors, {}

    def fetches(self):
        return self.tensors

    def on_step(self, step, values, context):
        self.values[step] = values


class Death(BaseException):
    """An end of the process that no code handles, like a kill."""


def die(step):
    raise Death


def lose_session(step):
    raise tf.errors.UnavailableError(None, None, "the machine has gone")
