"""A plugin whose processes wait where a test is to kill or to interrupt them."""

import os
import signal
import time

from linear_fixtures import Linear

from toolkit import hookimpl, tf


class Held(Linear):
    """Waits in a build while there is a file `hold-build`, after a commit while `hold-commit`.

    While it waits, there is a file `build-PID` or `commit-PID`. A signal that asks a run for its
    end lets it go on after a commit.
    """

    @hookimpl
    def build(self, run):
        _hold("build", lambda: False)
        return Linear.build(self, run)

    @hookimpl
    def example_metrics(self, labels, outputs):
        label = tf.argmax(outputs["logits"], axis=1, output_type=tf.int32)
        return {"accuracy": tf.equal(labels, label)}

    @hookimpl
    def checkpoint_saved(self):
        # The first signal makes the second one fatal.
        _hold("commit", lambda: signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)


def _hold(moment, has_ended):
    mark = f"{moment}-{os.getpid()}"
    while os.path.exists(f"hold-{moment}") and not has_ended():
        open(mark, "w").close()
        time.sleep(0.01)
    if os.path.exists(mark):
        os.remove(mark)
