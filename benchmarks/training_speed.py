"""Training speed of the toolkit and of other ways to train the same network on the same digits.

    python benchmarks/training_speed.py --rounds 7 --seconds 2 --json speed.json

Each contender is a separate live process. They take turns: while one is timed, the others are
stopped. The order is reversed in every other round. The result is the median over the rounds, as a
ratio to the limit (1.00): the same step in a loop inside TensorFlow, without Python and input.
"""

from __future__ import annotations

import os
import sys
import tempfile

import harness

SETTINGS = {"mlp-32": ("mlp", 32), "mlp-128": ("mlp", 128), "cnn-128": ("cnn", 128)}
GRAPH = ["ours", "limit", "raw", "per_example"]
THREADED = {"ours+threads": "ours", "limit+threads": "limit"}  # with --threads
# Other software: name -> the module that it needs, and the command that starts it.
KERAS, TORCH, TF_1 = "keras_contenders.py", "torch_contenders.py", "tf1_contenders.py"
FIFTY = ["--steps-per-execution", "50"]
ONE = ["--threads", "1"]  # within an op: faster or slower, depending on the step and the machine
if sys.version_info < (3, 8):  # TensorFlow 1.15
    PEERS = {
        "keras_fit": ("tensorflow", [KERAS, "tf.keras"]),
        "keras_fit_1t": ("tensorflow", [KERAS, "tf.keras"] + ONE),
        "estimator": ("tensorflow_estimator", [TF_1, "estimator"]),
        "estimator_1t": ("tensorflow_estimator", [TF_1, "estimator"] + ONE),
        "tensorpack": ("tensorpack", [TF_1, "tensorpack"]),
        "tensorpack_1t": ("tensorpack", [TF_1, "tensorpack"] + ONE),
        "torch": ("torch", [TORCH, "plain"]),
        "lightning": ("pytorch_lightning", [TORCH, "pytorch_lightning"]),
    }
else:
    PEERS = {
        "tf_keras_fit": ("tf_keras", [KERAS, "tf_keras"]),
        "tf_keras_fit_50": ("tf_keras", [KERAS, "tf_keras"] + FIFTY),
        "tf_keras_fit_50_1t": ("tf_keras", [KERAS, "tf_keras"] + FIFTY + ONE),
        "keras3_fit": ("keras", [KERAS, "keras"]),
        "keras3_fit_50": ("keras", [KERAS, "keras"] + FIFTY),
        "keras3_fit_50_1t": ("keras", [KERAS, "keras"] + FIFTY + ONE),
        "torch": ("torch", [TORCH, "plain"]),
        "torch_compile": ("torch", [TORCH, "compiled"]),
        "lightning": ("lightning", [TORCH, "lightning"]),
    }


class TrainingSpeed(harness.Benchmark):
    base = "limit"
    peers = {name: module for name, (module, _) in PEERS.items()}

    def names(self, setting, arguments):
        names = arguments.only + (list(THREADED) if arguments.threads else [])
        # A convolution is never faster on one thread.
        return [n for n in names if not (n.endswith("_1t") and SETTINGS[setting][0] == "cnn")]

    def command(self, name, setting, arguments, folder, more=()):
        more = list(more)
        if name in THREADED:
            name, more = THREADED[name], more + thread_flags(arguments.threads)
        network, batch_size = SETTINGS[setting]
        sizes = ["--network", network, "--batch-size", str(batch_size)]
        if name == "ours":
            return ours(sizes, tempfile.mkdtemp(dir=folder)) + more
        file, *which = PEERS[name][1] if name in PEERS else ["graph_contenders.py", name]
        return [os.path.join(harness.HERE, file)] + which + sizes + ["--folder", folder] + more


def ours(sizes, run_dir: str):
    """The arguments of Python that train with the toolkit until the harness stops it."""
    return (
        ["-m", "toolkit", "run", "--plugin", "classifier"]
        + sizes
        + [
            "--learning-rate",
            "0.001",
            "--schedule",
            "constant",
            "--steps",
            "1000000000",
            "--shift",
            "0",
            "--rotate",
            "0",
            "--zoom",
            "0",
            "--elastic",
            "0",
            "--log-steps",
            "100",
            "--run-dir",
            run_dir,
            "--with",
            os.path.join(harness.HERE, "pause.py"),
        ]
    )


def thread_flags(threads: str):
    intra, inter = threads.split(",")
    return ["--intra-op-threads", intra, "--inter-op-threads", inter]


def main() -> None:
    parser = harness.parser(__doc__, GRAPH + list(PEERS), SETTINGS, "--networks", 7, 2.0)
    parser.add_argument(
        "--threads",
        metavar="INTRA,INTER",
        help="also time `ours` and `limit` with these thread counts",
    )
    harness.run(TrainingSpeed(), parser.parse_args())


if __name__ == "__main__":
    main()
