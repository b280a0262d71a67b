"""What commits of checkpoints cost: whole runs with and without them, and the parts of one commit.

    python benchmarks/commit_cost.py [--plugin classifier] [--steps 400] [--every 100] -- FLAGS

Each round trains the same steps twice, with a commit every `--every` steps and with one at the end
only; the order alternates. The ratio of the training seconds is the cost of the commits. The parts
are timed within the runs that commit.
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
from toolkit.training import loop
from toolkit.training.hooks import hook_state

PARTS = {
    "tensors written": (tf.train.Saver, "save"),
    "hooks' memory": (hook_state, "save"),
    "tensors read back and hashed": (loop, "fingerprint"),
    "files synced and hashed": (CheckpointStore, "_make_durable"),
    "entry added": (CommitLog, "add"),
    "whole commit": (loop.Loop, "commit"),
}


class PartTimer:
    """The seconds of each call of each part."""

    def __init__(self):
        self.seconds = {name: [] for name in PARTS}

    @contextlib.contextmanager
    def patched(self):
        before = {name: getattr(*part) for name, part in PARTS.items()}
        for name, (owner, attribute) in PARTS.items():
            setattr(owner, attribute, self._with_timer(name, before[name]))
        try:
            yield
        finally:
            for name, (owner, attribute) in PARTS.items():
                setattr(owner, attribute, before[name])

    def _with_timer(self, name, function):
        def call(*arguments, **keywords):
            start = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                self.seconds[name].append(time.perf_counter() - start)

        return call


def main():
    arguments = parse_arguments()
    flags = [text.lstrip("-").split("=", 1) for text in arguments.flags]
    options = {name.replace("-", "_"): value for name, value in flags}
    options.update(steps=str(arguments.steps), evaluate="no")
    folder, timer = tempfile.mkdtemp(), PartTimer()
    ratios, commits = [], arguments.steps // arguments.every
    try:
        for number in range(arguments.rounds):
            secs = {}
            for kind in ("with", "without") if number % 2 else ("without", "with"):
                every = arguments.every if kind == "with" else arguments.steps
                run = os.path.join(folder, f"{kind}-{number}")
                with timer.patched() if kind == "with" else contextlib.ExitStack():
                    trained = toolkit.train(
                        arguments.plugin, run, dict(options, checkpoint_steps=str(every))
                    )
                secs[kind] = trained.summary["seconds"]
            ratios.append(secs["with"] / secs["without"])
            print(
                "round {}: {with:.2f} s with {} commits, {without:.2f} s with one".format(
                    number + 1, commits, **secs
                ),
                flush=True,
            )
    finally:
        shutil.rmtree(folder)
    print(
        f"with / without: median {statistics.median(ratios):.3f} ({min(ratios):.3f} to "
        f"{max(ratios):.3f})"
    )
    for name, seconds in timer.seconds.items():
        print(f"{name:32}{1e3 * statistics.median(seconds or [0.0]):7.1f} ms")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plugin", default="classifier")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("flags", nargs="*", help="options of the run, such as --network=mlp")
    return parser.parse_args()


main()
