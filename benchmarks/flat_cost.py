"""The cost of a step from few examples to many: the perceptron on IDX files of random bytes.

    python benchmarks/flat_cost.py --steps 40000 --markdown flat.md

Up to the resident limit (1 GiB) a run keeps its training split in memory; above it, the run streams
from disk. One folder of files grows from count to count and is removed at the end: 10 million
examples take 7.8 GB. `peak` is the peak memory of training, including mapped files; `own` is the
memory at the end of training without them. The same two follow for the evaluations at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import sys
import tempfile

import harness
import numpy as np
import outputs
import training_speed

COUNTS = "5000,50000,500000,2000000,10000000"
SHAPE = (28, 28)
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
CHUNK = 50000  # images per write
INTERVAL = 1000  # steps per interval, of which least and most are reported
MEMORY = ("peak", "own", "end's peak", "end's own")  # MiB
HEADS = ["examples", "input", "us/step", "least", "most"] + list(outputs.MARKS)
HEADS += list(MEMORY) + ["others"]


class Digits:
    """A growing folder of training files in the IDX format, with random images and labels."""

    def __init__(self, folder: str):
        self.folder, self.count = folder, 0
        for name, shape in ((IMAGES, (0,) + SHAPE), (LABELS, (0,))):
            with open(os.path.join(folder, name), "wb") as file:
                self._write_header(file, shape)
        self._random = np.random.RandomState(1)

    def grow(self, count: int) -> None:
        """Append examples up to `count` and update the headers."""
        with self._open(IMAGES) as images, self._open(LABELS) as labels:
            images.seek(0, os.SEEK_END)
            labels.seek(0, os.SEEK_END)
            for start in range(self.count, count, CHUNK):
                size = min(CHUNK, count - start)
                images.write(self._random.bytes(size * SHAPE[0] * SHAPE[1]))
                labels.write(self._random.randint(10, size=size).astype(np.uint8).tobytes())
            self._write_header(images, (count,) + SHAPE)
            self._write_header(labels, (count,))
            os.fsync(images.fileno())  # else the disk is still busy while steps are timed
        self.count = count

    def _open(self, name: str):
        return open(os.path.join(self.folder, name), "r+b")

    @staticmethod
    def _write_header(file, shape) -> None:
        file.seek(0)
        file.write(struct.pack(">HBB", 0, 8, len(shape)))  # 8: unsigned bytes
        file.write(struct.pack(f">{len(shape)}I", *shape))


def measure(digits: Digits, steps: int, batch_size: int, folder: str):
    """One row: start a run, time `steps` steps, and let it end with its evaluations."""
    run_dir = tempfile.mkdtemp(dir=folder)
    sizes = ["--network", "mlp", "--batch-size", str(batch_size), "--data", "idx:" + digits.folder]
    contender = harness.Contender("ours", training_speed.ours(sizes, run_dir), folder)
    try:
        span = contender.observed_span(0, whole=True, period=steps)
        mib = (contender.peak_mib(), contender.own_mib()) + contender.finish()
    finally:
        contender.close()
    row = {
        "examples": digits.count,
        "input": reader_name(digits.count),
        "others": span["others"],
        "startup_secs": contender.marks,
        "mib": dict(zip(MEMORY, mib)),
    }
    row.update(costs(os.path.join(run_dir, "speed.jsonl")))
    return row


def reader_name(count: int) -> str:
    """The toolkit's way of reading `count` examples, a tenth of which is held out twice."""
    train = count * 0.9 * 0.9 * SHAPE[0] * SHAPE[1]
    return "resident" if train <= 1 << 30 else "streams"


def costs(path: str):
    """Microseconds per step, over all logged steps and in the fastest and slowest interval."""
    with open(path) as file:
        records = [json.loads(line) for line in file]
    at = {r["step"]: r["seconds"] for r in records}
    marks = [step for step in sorted(at) if step % INTERVAL == 0]
    spans = [(at[b] - at[a]) / (b - a) for a, b in zip(marks, marks[1:])]
    mean = (at[marks[-1]] - at[marks[0]]) / (marks[-1] - marks[0])
    return {"us": 1e6 * mean, "us_least": 1e6 * min(spans), "us_most": 1e6 * max(spans)}


def cells(row):
    """The cells of a row, in the order of HEADS."""
    marks = [f"{row['startup_secs'][mark]:.1f}" for mark in outputs.MARKS]
    micros = [f"{row[name]:.0f}" for name in ("us", "us_least", "us_most")]
    sizes = [f"{row['mib'][name]:.0f}" for name in MEMORY]
    return (
        [f"{row['examples']:,}", row["input"]] + micros + marks + sizes + [f"{row['others']:.2f}"]
    )


def check_disk(folder: str, count: int) -> None:
    """Exit with an error if the largest files would not fit."""
    needed, free = 1.1 * count * (SHAPE[0] * SHAPE[1] + 1), shutil.disk_usage(folder).free
    if needed > free:
        raise SystemExit(
            f"{count:,} examples take {needed / 1e9:.1f} GB, but {folder} has "
            f"{free / 1e9:.1f} GB left."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--examples", default=COUNTS, help="[default %(default)s]")
    parser.add_argument(
        "--steps",
        type=int,
        default=40000,
        help="steps to time, a multiple of 1000 [default %(default)s]",
    )
    parser.add_argument("--batch-size", type=int, default=32, help="[default %(default)s]")
    parser.add_argument(
        "--folder",
        default=tempfile.gettempdir(),
        help="folder of the temporary files [default %(default)s]",
    )
    parser.add_argument("--json", metavar="FILE", help="also write all measurements")
    parser.add_argument("--markdown", metavar="FILE", help="also write the table as Markdown")
    arguments = parser.parse_args()
    if arguments.steps < 2 * INTERVAL or arguments.steps % INTERVAL:
        parser.error(f"--steps is {arguments.steps}, not a multiple of {INTERVAL} greater than it")
    counts = sorted(int(text) for text in arguments.examples.split(","))
    check_disk(arguments.folder, counts[-1])
    harness.end_on_sigterm()
    folder = tempfile.mkdtemp(prefix="flat-cost-", dir=arguments.folder)
    result = {"machine": harness.machine(), "rows": []}
    print(harness.describe_machine(result["machine"]))
    try:
        digits = Digits(tempfile.mkdtemp(dir=folder))
        for count in counts:
            digits.grow(count)
            row = measure(digits, arguments.steps, arguments.batch_size, folder)
            result["rows"].append(row)
            harness.say("  ".join(map(": ".join, zip(HEADS, cells(row)))))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = outputs.align([HEADS] + [cells(row) for row in result["rows"]])
    print("\n".join(lines))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)
    if arguments.markdown:
        table = [HEADS] + [cells(row) for row in result["rows"]]
        outputs.write(arguments.markdown, outputs.markdown_table(table))


if __name__ == "__main__":
    sys.exit(main())
