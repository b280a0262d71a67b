"""What driving a script costs beside the script alone, and what lifting it gains.

    python benchmarks/adopt_drive.py [--rounds 5] [--sizes 64,1024] [--calls 3000,300]

The script trains a perceptron with a hidden layer on made-up rows that it feeds. For each size of
the layer, in turn and in processes of their own: the script alone, driven, and lifted into the loop
of steps with batches of the same data. Prints the milliseconds of a train call as medians of the
rounds, each with its ratio to the script alone; the bytes that a call adds to the journal; and the
seconds in which a resume answers 10,000 calls from it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

SCRIPT = """
import sys, time
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
SIZE, CALLS = map(int, sys.argv[1:3])
FIRST = min(100, CALLS // 4)  # of the calls that count
data = np.load("rows.npz")
rows, classes = data["x_train"], data["y_train"].astype("i4")
rng = np.random.RandomState(0)
x = tf.placeholder(tf.float32, [None, 784])
y = tf.placeholder(tf.int32, [None])
hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("hidden", [784, SIZE])))
logits = tf.matmul(hidden, tf.get_variable("logits", [SIZE, 10]))
loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
train = tf.train.AdamOptimizer(0.001).minimize(loss)
config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(CALLS):
        if i == FIRST:
            start = time.time()
        k = rng.randint(0, len(rows), 64)
        sess.run([train, loss], {x: rows[k], y: classes[k]})
        if i == CALLS - 2:
            print("ms", 1000 * (time.time() - start) / (CALLS - 1 - FIRST), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="64,1024")
    parser.add_argument("--calls", default="3000,300")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _write_files()
        for size, calls in zip(flags.sizes.split(","), flags.calls.split(",")):
            _compare(size, int(calls), flags.rounds)
        _measure_replay()


def _write_files() -> None:
    rng = np.random.RandomState(0)
    rows = rng.rand(6000, 784).astype("f")
    classes = rng.randint(0, 10, 6000)
    np.savez("rows.npz", x_train=rows, y_train=classes, x_test=rows[:10], y_test=classes[:10])
    with open("script.py", "w") as file:
        file.write(SCRIPT)


def _compare(size: str, calls: int, rounds: int) -> None:
    found = {"alone": [], "driven": [], "lifted": []}
    for number in range(rounds):
        found["alone"].append(_milliseconds([sys.executable, "script.py", size, str(calls)]))
        words = ["script.py", "--run-dir", f"drive-{size}-{number}", "--", size, str(calls)]
        found["driven"].append(_milliseconds(_adopt(*words)))
        found["lifted"].append(_lifted(size, calls, number))
    base = statistics.median(found["alone"])
    for name, values in found.items():
        median = statistics.median(values)
        print(f"size {size}  {name:7} {median:7.3f} ms per call  ratio {median / base:.2f}")
    journal = os.path.getsize(f"drive-{size}-0/journal.bin")
    print(f"size {size}  journal {journal / calls:.0f} bytes per call", flush=True)


def _lifted(size: str, calls: int, number: int) -> float:
    """Milliseconds of a step of the lifted graph, from two runs of different length."""
    seconds, first = [], min(100, calls // 4)
    for steps in (first, calls):
        words = ["--mode", "lift", "--data", "npz:rows.npz", "--steps", str(steps), "--json"]
        run = ["--run-dir", f"lift-{size}-{number}-{steps}"]
        output = _run(_adopt("script.py", *words, *run, "--", size, str(calls)))
        seconds.append(json.loads(output[output.index("{") :])["seconds"])
    return 1000 * (seconds[1] - seconds[0]) / (calls - first)


def _measure_replay() -> None:
    _run(_adopt("script.py", "--run-dir", "long", "--steps", "10000", "--", "64", "10002"))
    start = time.time()
    _run([sys.executable, "-m", "toolkit", "resume", "long", "--steps", "10001"])
    whole = time.time() - start
    start = time.time()
    _run(_adopt("script.py", "--run-dir", "short", "--steps", "1", "--", "64", "10002"))
    print(f"replay of 10000 calls: {whole - (time.time() - start):.2f} s")


def _adopt(*words: str) -> list:
    return [sys.executable, "-m", "toolkit", "adopt", *words]


def _milliseconds(command: list) -> float:
    return float(re.search(r"^ms ([0-9.]+)", _run(command), re.MULTILINE).group(1))


def _run(command: list) -> str:
    ended = subprocess.run(command, capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


if __name__ == "__main__":
    main()
