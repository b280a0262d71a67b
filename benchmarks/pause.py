"""An extension that times `toolkit run` from within: `toolkit run ... --with ./pause.py`.

Its hook is due only on steps on which others are due as well (every 100), so the stock loop runs
unmodified between two calls. A span holds whole intervals of logging and summaries. Checkpoints and
evaluations, due once a minute, are kept out of the spans and timed for themselves.
"""

from __future__ import annotations

import time

from link import Link

from toolkit import hookimpl

EVERY_STEPS = 100  # the default of --log-steps and --summary-steps

LINK = Link()
SAVED = []  # the steps of which a checkpoint was committed


@hookimpl(wrapper=True)
def build(run):
    if run.mode == "train":
        LINK.mark("import")  # TensorFlow is imported, the data are read
    return (yield)


@hookimpl
def session_hooks():
    LINK.mark("build")
    return [pause_class()(LINK)]


@hookimpl
def checkpoint_saved(step):
    SAVED.append(step)


def pause_class():
    """Made when it is needed: `toolkit.Hook` imports TensorFlow."""
    from toolkit import Hook

    class Pause(Hook):
        name = "pause"

        def __init__(self, link):
            self._link = link
            self._called = 0.0  # when the hooks after this one began their work
            self._costs = []  # seconds of each checkpoint with its evaluation
            self._saved = 0  # checkpoints since the last call of `on_step`

        def next_step(self, step):
            # Asked for once all hooks of a due step are through.
            if SAVED:
                self._saved += len(SAVED)
                SAVED.clear()
                self._costs.append(time.monotonic() - self._called)
            return 1 if step == 0 else (step // EVERY_STEPS + 1) * EVERY_STEPS

        def is_due(self, step):
            return step == 1 or step % EVERY_STEPS == 0

        def after_run(self, run_context, run_values):
            self._called = time.monotonic()
            super().after_run(run_context, run_values)

        def on_step(self, step, values, context):
            if step == 1:
                self._link.mark("step")
                return
            spoiled, self._saved = self._saved > 0, 0
            if not self._link.passed(step, spoiled, checkpoints=self._costs):
                self.loop.request_stop("the harness asked")

    return Pause
