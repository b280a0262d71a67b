"""Stop at a step, or after a time."""

from __future__ import annotations

from typing import Optional

from .hook import Every, Hook


class Stop(Hook):
    """Asks for the end at the target, and for one last step when `secs` have passed."""

    name = "stop"

    def __init__(self, secs: Optional[float]):
        self.every = Every(secs=secs)

    def on_restore(self, session, step):
        self.every.restart()

    def on_step(self, step, values, context):
        if step >= self.loop.target:
            self.loop.request_stop("reached step {}".format(step))
        else:
            self.loop.request_last_step("{:g} seconds have passed".format(self.every.secs))
