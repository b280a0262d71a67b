"""What driving a script costs: per call beside the script alone, in the journal, at a replay.

    python benchmarks/adopt_drive.py [--calls 2000]

Prints milliseconds per train call of a small model, alone and driven (both in this process, in
turn), the bytes of the journal per call, and the seconds in which as many calls are answered.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile

from toolkit.cli import run_command

SCRIPT = """
import time
import numpy as np
import tensorflow as tf

x = tf.placeholder(tf.float32, [None, SIZE])
w = tf.get_variable("w", [SIZE, SIZE])
loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
train = tf.train.AdamOptimizer(0.001).minimize(loss)
data = np.random.RandomState(0).randn(64, SIZE).astype("f")
config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    start = time.time()
    for i in range(CALLS):
        sess.run([train, loss], {x: data})
        if i == CALLS - 2:
            open("seconds", "w").write(str(time.time() - start))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--size", type=int, default=128)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("script.py", "w") as file:
            file.write(SCRIPT.replace("CALLS", str(flags.calls)).replace("SIZE", str(flags.size)))
        alone, driven = [], []
        for number in range(3):
            alone.append(_run_alone())
            words = ["--run-dir", f"run{number}", "--commit-steps", str(flags.calls - 1)]
            driven.append(_seconds(["adopt", "script.py", *words]))
        ms = [1000 * sorted(values)[1] / flags.calls for values in (alone, driven)]
        print(f"ms per call: alone {ms[0]:.3f}, driven {ms[1]:.3f}")
        size = os.path.getsize("run0/journal.bin")
        print(f"journal: {size / flags.calls:.0f} bytes per call")
        _seconds(["adopt", "script.py", "--run-dir", "half", "--steps", str(flags.calls - 1)])
        secs = _seconds(["resume", "half", "--steps", str(flags.calls)])
        print(f"replay of {flags.calls - 1} calls: {secs:.2f} s")


def _run_alone() -> float:
    from toolkit import tf

    tf.reset_default_graph()
    with open("script.py") as file:
        exec(file.read().replace("import tensorflow as tf", "from toolkit import tf"), {})
    with open("seconds") as file:
        return float(file.read())


def _seconds(words) -> float:
    with contextlib.redirect_stderr(io.StringIO()):
        assert run_command(words) == 0
    with open("seconds") as file:
        return float(file.read())


if __name__ == "__main__":
    main()
