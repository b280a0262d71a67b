"""Training speed of a DCGAN with the toolkit and with other software, on the same digits.

    python benchmarks/gan_speed.py --rounds 5 --json gan_speed.json

A step is one update of the discriminator, then one of the generator, each with its own noise. The
contenders take turns (see `harness.py`). The result is the median over the rounds as a ratio to
`no_hooks` (1.00): the toolkit's own step, called without a training loop.
"""

from __future__ import annotations

import os
import sys
import tempfile

import harness

PRESETS = ("dcgan", "sn-hinge")
BATCH_SIZE = 64
LATENT_SIZE = 64
GRAPH = ["ours", "no_hooks", "two_runs"]
# Other software, only for the preset dcgan: name -> the module that it needs, and the command that
# starts it. Neither Keras uses XLA on a machine without a GPU by default.
KERAS, TF_GAN = "gan_keras_contenders.py", "gan_tfgan_contender.py"
FIFTY = ["--steps-per-execution", "50"]
if sys.version_info < (3, 8):  # TensorFlow 1.15, with a Keras without train_step
    PEERS = {"tfgan": ("tensorflow_gan", [TF_GAN])}
else:
    PEERS = {
        "tf_keras_step": ("tf_keras", [KERAS, "tf_keras"]),
        "tf_keras_step_50": ("tf_keras", [KERAS, "tf_keras"] + FIFTY),
        "keras3_step": ("keras", [KERAS, "keras"]),
        "keras3_step_50": ("keras", [KERAS, "keras"] + FIFTY),
        "keras3_step_xla": ("keras", [KERAS, "keras", "--jit", "on"]),
    }


class GanSpeed(harness.Benchmark):
    base = "no_hooks"
    peers = {name: module for name, (module, _) in PEERS.items()}
    checkpoint_span = 20.0  # a score takes longer than the classifier's evaluation

    def names(self, setting, arguments):
        return [name for name in arguments.only if setting == "dcgan" or name in GRAPH]

    def span_options(self, name, arguments):
        # Sample grids and health checks come every `sample_steps`: a span contains whole intervals.
        return {"period": arguments.sample_steps} if name == "ours" else {}

    def command(self, name, setting, arguments, folder, more=()):
        sizes = [
            "--batch-size",
            str(BATCH_SIZE),
            "--width",
            str(arguments.width),
            "--latent-size",
            str(LATENT_SIZE),
        ]
        # Everything that Keras's networks assume is set, whatever the plugin's defaults are.
        method = [
            "--preset",
            setting,
            "--network",
            "dcgan",
            "--conditional",
            "none",
            "--update",
            "alternating",
            "--schedule",
            "constant",
        ] + sizes
        if name == "ours":
            return (
                ["-m", "toolkit", "run", "--plugin", "gan"]
                + method
                + [
                    "--features",
                    "pixels",
                    "--sample-steps",
                    str(arguments.sample_steps),
                    "--steps",
                    "1000000000",
                    "--log-steps",
                    "100",
                    "--run-dir",
                    tempfile.mkdtemp(dir=folder),
                    "--with",
                    os.path.join(harness.HERE, "pause.py"),
                ]
                + list(more)
            )
        if name in PEERS:
            file, *which = PEERS[name][1]
            return [os.path.join(harness.HERE, file)] + which + sizes + ["--folder", folder]
        module = os.path.join(harness.HERE, "gan_graph_contenders.py")
        return [module, name, "--folder", folder] + method


def main() -> None:
    parser = harness.parser(__doc__, GRAPH + list(PEERS), PRESETS, "--presets", 5, 5.0)
    parser.add_argument(
        "--sample-steps",
        type=int,
        default=500,
        help="steps between two sample grids of `ours`, a multiple of 100 [default %(default)s]",
    )
    parser.add_argument(
        "--width", type=int, default=32, help="filters at full size [default %(default)s]"
    )
    arguments = parser.parse_args()
    if arguments.sample_steps < 1 or arguments.sample_steps % 100:
        parser.error(f"--sample-steps is {arguments.sample_steps}, not a multiple of 100")
    harness.run(GanSpeed(), arguments)


if __name__ == "__main__":
    main()
