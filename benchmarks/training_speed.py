"""How fast the toolkit trains, beside other ways to train the same network on the same digits.

    python benchmarks/training_speed.py --rounds 7 --seconds 2 --json speed.json

Every contender is a live process of its own. They run in turn: while one is timed, the others are
stopped. The order is reversed in every other round, and what counts is the median over the rounds,
as a ratio to the limit (1.00): the same step looped inside TensorFlow, with no Python and no input.
"""

from __future__ import annotations

import os
import sys
import tempfile

import harness

SETTINGS = {"mlp-32": ("mlp", 32), "mlp-128": ("mlp", 128), "cnn-128": ("cnn", 128)}
GRAPH = ["ours", "limit", "raw", "per_example"]
KERAS_1 = {"keras_fit": ["tf.keras"]}
KERAS_2 = {
    "tf_keras_fit": ["tf_keras"],
    "tf_keras_fit_50": ["tf_keras", "--steps-per-execution", "50"],
    "keras3_fit": ["keras"],
    "keras3_fit_50": ["keras", "--steps-per-execution", "50"],
}
KERAS = KERAS_1 if sys.version_info < (3, 8) else KERAS_2
THREADED = {"ours+threads": "ours", "limit+threads": "limit"}  # with --threads


class TrainingSpeed(harness.Benchmark):
    base = "limit"

    def names(self, setting, arguments):
        return arguments.only + (list(THREADED) if arguments.threads else [])

    def command(self, name, setting, arguments, folder, more=()):
        more = list(more)
        if name in THREADED:
            name, more = THREADED[name], more + thread_flags(arguments.threads)
        network, batch_size = SETTINGS[setting]
        sizes = ["--network", network, "--batch-size", str(batch_size)]
        if name == "ours":
            return ["-m", "toolkit", "run", "--plugin", "classifier"] + sizes + [
                "--learning-rate", "0.001", "--schedule", "constant", "--steps", "1000000000",
                "--shift", "0", "--rotate", "0", "--zoom", "0", "--elastic", "0",
                "--run-dir", tempfile.mkdtemp(dir=folder),
                "--with", os.path.join(harness.HERE, "pause.py"),
            ] + more  # fmt: skip
        sizes += ["--folder", folder]
        if name in KERAS:
            return [os.path.join(harness.HERE, "keras_contenders.py")] + KERAS[name] + sizes
        return [os.path.join(harness.HERE, "graph_contenders.py"), name] + sizes + more


def thread_flags(threads: str):
    intra, inter = threads.split(",")
    return ["--intra-op-threads", intra, "--inter-op-threads", inter]


def main() -> None:
    parser = harness.parser(__doc__, GRAPH + list(KERAS), SETTINGS, "--networks", 7, 2.0)
    parser.add_argument("--threads", metavar="INTRA,INTER",
                        help="also time ours and the limit with so many threads")  # fmt: skip
    harness.run(TrainingSpeed(), parser.parse_args())


if __name__ == "__main__":
    main()
