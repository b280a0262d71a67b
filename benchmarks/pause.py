"""An extension that times `toolkit run` from inside: `toolkit run ... --with ./pause.py`.

Its hook is due only on steps on which others are due as well (every 100), so the loop runs
unmodified between two calls. A span contains whole intervals of logging and summaries. Checkpoints
and evaluations, due once a minute, are excluded from the spans and timed separately.
"""

from __future__ import annotations

import time

from link import Link

from toolkit import hookimpl

EVERY_STEPS = 100  # --log-steps of the runs that are timed

LINK = Link()
SAVED_STEPS = []  # of the checkpoints committed since the hook's last call


@hookimpl(wrapper=True)
def build(run):
    if run.mode == "train":
        LINK.mark("import")  # TensorFlow is imported, the data is read
    return (yield)


@hookimpl
def session_hooks():
    LINK.mark("build")
    return [pause_class()(LINK)]


@hookimpl
def checkpoint_saved(step):
    SAVED_STEPS.append(step)


def pause_class():
    """The hook's class, created on demand since `toolkit.SessionHook` imports TensorFlow."""
    from toolkit import SessionHook

    class Pause(SessionHook):
        name = "pause"

        def __init__(self, link):
            self._link = link
            self._work_start = 0.0  # when the hooks after this one started
            self._costs = []  # seconds of each checkpoint with its evaluation
            self._num_saved = 0  # checkpoints since the last call of `on_step`

        def next_due_step(self, step):
            # Called after all hooks of a due step.
            if SAVED_STEPS:
                self._num_saved += len(SAVED_STEPS)
                SAVED_STEPS.clear()
                self._costs.append(time.monotonic() - self._work_start)
            return 1 if step == 0 else (step // EVERY_STEPS + 1) * EVERY_STEPS

        def is_due(self, step):
            return step == 1 or step % EVERY_STEPS == 0

        def after_run(self, run_context, run_values):
            self._work_start = time.monotonic()
            super().after_run(run_context, run_values)

        def on_step(self, step, values, context):
            if step == 1:
                self._link.mark("step")
                return
            is_disturbed, self._num_saved = self._num_saved > 0, 0
            if not self._link.should_continue(step, is_disturbed, checkpoints=self._costs):
                self.loop.request_stop("the harness stopped it")

    return Pause
