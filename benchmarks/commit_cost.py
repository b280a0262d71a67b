"""What commits of checkpoints cost: whole runs with and without in turn, and the parts of one.

    python benchmarks/commit_cost.py [--plugin classifier] [--steps 400] [--every 100] -- FLAGS

Each round trains the same steps twice, with a commit every so many steps and with one at the end
alone, in an order that changes; the ratio of their training seconds is what the commits cost. The
parts are timed within the runs that commit.
"""

import argparse
import contextlib
import os
import shutil
import statistics
import tempfile
import time

import toolkit
from toolkit import tf
from toolkit.storage.checkpoint_store import CheckpointStore
from toolkit.storage.commit_log import CommitLog
from toolkit.storage.run_folder import RunFolder
from toolkit.training.hooks import checkpoints, hook_state

PARTS = {
    "tensors written": (tf.train.Saver, "save"),
    "hooks' memory": (hook_state, "save"),
    "tensors read back and hashed": (checkpoints, "fingerprint"),
    "files synced and hashed": (CheckpointStore, "_make_durable"),
    "entry added": (CommitLog, "add"),
    "whole commit": (checkpoints.Checkpoints, "commit"),
}


class Timed:
    """Seconds spent in each part, call by call."""

    def __init__(self):
        self.seconds = {name: [] for name in PARTS}

    @contextlib.contextmanager
    def watching(self):
        before = {name: getattr(*part) for name, part in PARTS.items()}
        for name, (owner, attribute) in PARTS.items():
            setattr(owner, attribute, self._timed(name, before[name]))
        try:
            yield
        finally:
            for name, (owner, attribute) in PARTS.items():
                setattr(owner, attribute, before[name])

    def _timed(self, name, function):
        def called(*arguments, **named):
            started = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds[name].append(time.perf_counter() - started)

        return called


def main():
    arguments = parsed()
    options = dict(text.lstrip("-").replace("-", "_").split("=") for text in arguments.flags)
    options.update(steps=str(arguments.steps), evaluate="no")
    place, timed = tempfile.mkdtemp(), Timed()
    ratios, commits = [], arguments.steps // arguments.every
    try:
        for number in range(arguments.rounds):
            secs = {}
            for kind in ("with", "without") if number % 2 else ("without", "with"):
                every = arguments.every if kind == "with" else arguments.steps
                run = os.path.join(place, f"{kind}-{number}")
                with timed.watching() if kind == "with" else contextlib.ExitStack():
                    made = toolkit.train(
                        arguments.plugin, run, dict(options, checkpoint_steps=str(every))
                    )
                secs[kind] = made["seconds"]
            ratios.append(secs["with"] / secs["without"])
            print(
                "round {}: {with:.2f} s with {} commits, {without:.2f} s with one".format(
                    number + 1, commits, **secs
                ),
                flush=True,
            )
    finally:
        shutil.rmtree(place)
    print(
        f"with / without: median {statistics.median(ratios):.3f} ({min(ratios):.3f} to "
        f"{max(ratios):.3f})"
    )
    for name, seconds in timed.seconds.items():
        print(f"{name:32}{1e3 * statistics.median(seconds or [0.0]):7.1f} ms")


def parsed():
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--plugin", default="classifier")
    made.add_argument("--steps", type=int, default=400)
    made.add_argument("--every", type=int, default=100)
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("flags", nargs="*", help="options of the run, as --network=mlp")
    return made.parse_args()


main()
