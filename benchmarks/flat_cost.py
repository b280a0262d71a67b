"""The cost of a step and of reading, from few examples to many, beside other software.

    python benchmarks/flat_cost.py --sources idx,tfrecord,images --markdown flat.md

Steps: the perceptron is trained by `toolkit run` on each number of examples, with each reader. All
runs are processes that take turns; `ratio` is the median, over the rounds, of the time of a step
beside that of the row with the fewest examples. `own` is the memory without mapped files (RssAnon);
`first` and `second` are the seconds from the start of the process to its first step, when the data
is new and when it was read before.

Reading: batches alone, by the toolkit, by tf.data and by PyTorch's DataLoader in the ways that
their guides recommend. `ratio` is how much faster the toolkit reads.

The data is random, written to a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import struct
import sys
import tempfile

import harness
import numpy as np
import outputs
import training_speed

COUNTS = {"idx": "5000,500000,10000000", "tfrecord": "5000,50000,200000", "images": "1000,10000"}
READERS = {"idx": ("resident", "stream"), "tfrecord": ("resident", "mapped", "stream")}
READERS["images"] = READERS["tfrecord"]
WAYS = ("stream", "mapped", "resident", "tf.data", "tf.data cache", "torch")
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
CHUNK = 50000  # examples per write
CLASSES = 10
SHARDS = 4
RESIDENT_LIMIT = 1 << 30  # bytes of examples that "resident" is measured with
STEP_HEADS = ["data", "examples", "reader", "us/step", "ratio", "least", "most"]
STEP_HEADS += ["own MiB", "first s", "second s", "others"]
READ_HEADS = ["data", "reader", "us/batch", "ratio", "least", "most", "own MiB"]


# -------------------------------------------------------------------------------------------- data


def write_idx(folder: str, count: int, side: int) -> str:
    """Random images in IDX files; returns the `--data` value's path."""
    random = np.random.RandomState(1)
    with open(os.path.join(folder, IMAGES), "wb") as images:
        images.write(struct.pack(">HBBIII", 0, 8, 3, count, side, side))
        with open(os.path.join(folder, LABELS), "wb") as labels:
            labels.write(struct.pack(">HBBI", 0, 8, 1, count))
            for start in range(0, count, CHUNK):
                size = min(CHUNK, count - start)
                images.write(random.bytes(size * side * side))
                labels.write(random.randint(CLASSES, size=size).astype(np.uint8).tobytes())
        os.fsync(images.fileno())  # else the disk is still busy while steps are timed
    return folder


def write_tfrecord(folder: str, count: int, side: int) -> str:
    """PNG images in `tf.train.Example`s of several shards; returns their pattern."""
    from toolkit import tf

    for shard in range(SHARDS):
        path = os.path.join(folder, f"train-{shard:05}-of-{SHARDS:05}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for number in range(shard, count, SHARDS):
                values = {
                    "image/encoded": tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[encode(number, side, "PNG", "L")])
                    ),
                    "image/class/label": tf.train.Feature(
                        int64_list=tf.train.Int64List(value=[number % CLASSES])
                    ),
                }
                example = tf.train.Example(features=tf.train.Features(feature=values))
                writer.write(example.SerializeToString())
    return os.path.join(folder, "*.tfrecord")


def write_images(folder: str, count: int, side: int) -> str:
    """JPEG files in a folder per class; returns the folder."""
    for number in range(count):
        name = os.path.join(folder, str(number % CLASSES))
        os.makedirs(name, exist_ok=True)
        with open(os.path.join(name, f"{number:08}.jpg"), "wb") as file:
            file.write(encode(number, side, "JPEG", "RGB"))
    return folder


def encode(number: int, side: int, form: str, mode: str) -> bytes:
    """A random image of few frequencies in a file format."""
    import io

    from PIL import Image

    small = np.random.RandomState(number).randint(0, 256, (4, 4, 3)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(small).convert(mode).resize((side, side)).save(stream, form)
    return stream.getvalue()


WRITERS = {"idx": write_idx, "tfrecord": write_tfrecord, "images": write_images}
CHANNELS = {"idx": 1, "tfrecord": 1, "images": 3}


# ------------------------------------------------------------------------------------------- steps


class Row:
    """A run that is measured.

    Args:
        source: of the data.
        count: examples.
        reader: of the training split.
        command: the arguments of Python that start it.
        folder: its working directory.
    """

    def __init__(self, source: str, count: int, reader: str, command, folder: str):
        self.source, self.count, self.reader = source, count, reader
        first = harness.Contender("first", command(), folder)
        self.first_secs = first.marks["step"]
        first.close()
        self.contender = harness.Contender("second", command(), folder)

    def micros(self):
        """Microseconds of a step in each round."""
        return [1e6 / rate for rate in self.contender.rates]

    def cells(self, base: Row):
        """The cells of this row, in the order of STEP_HEADS."""
        ratios = [mine / other for mine, other in zip(self.micros(), base.micros())]
        numbers = (statistics.median(ratios), min(ratios), max(ratios))
        others = statistics.median(span["others"] for span in self.contender.spans)
        return [
            self.source,
            f"{self.count:,}",
            self.reader,
            f"{statistics.median(self.micros()):.0f}",
            *(f"{number:.2f}" for number in numbers),
            f"{self.contender.own_mib():.0f}",
            f"{self.first_secs:.1f}",
            f"{self.contender.marks['step']:.1f}",
            f"{others:.2f}",
        ]


def measure_steps(source: str, paths, arguments, folder: str):
    """The table rows of one source.

    Args:
        paths: number of examples -> where they are.
    """
    table = []
    for reader in READERS[source]:
        rows = []
        try:
            for count, path in paths.items():
                size = count * arguments.side**2 * CHANNELS[source]
                if reader != "resident" or size <= RESIDENT_LIMIT:
                    rows.append(start_run(source, path, count, reader, arguments, folder))
            for _ in range(arguments.rounds):
                for row in rows:
                    row.contender.time(arguments.seconds, tries=2)
            table += [row.cells(rows[0]) for row in rows]
        finally:
            for row in rows:
                row.contender.close()
        for cells in table[-len(rows) :]:
            harness.say("  ".join(map(": ".join, zip(STEP_HEADS, cells))))
    return table


def start_run(source: str, path: str, count: int, reader: str, arguments, folder: str) -> Row:
    """Start the two runs of a row."""
    place = tempfile.mkdtemp(dir=folder)

    def command():
        run_dir = tempfile.mkdtemp(dir=place)
        sizes = ["--network", "mlp", "--batch-size", str(arguments.batch_size)]
        sizes += ["--data", f"{source}:{path}", "--reader", reader]
        return training_speed.ours(sizes, run_dir)

    return Row(source, count, reader, command, place)


# ----------------------------------------------------------------------------------------- reading


def measure_reading(source: str, path: str, arguments, folder: str):
    """The table rows of all ways to read one source."""
    contenders = {}
    try:
        for way in WAYS:
            if is_possible(way, source):
                command = [os.path.join(harness.HERE, "input_readers.py"), "--way", way]
                command += ["--source", source, "--path", path, "--side", str(arguments.side)]
                command += ["--batch-size", str(arguments.batch_size)]
                place = tempfile.mkdtemp(dir=folder)
                contenders[way] = harness.Contender(way, command, place)
        for _ in range(arguments.rounds):
            for contender in contenders.values():
                contender.time(arguments.seconds, tries=2)
        return [reading_cells(source, way, contenders) for way in contenders]
    finally:
        for contender in contenders.values():
            contender.close()


def is_possible(way: str, source: str) -> bool:
    """Whether a way reads a source, and its software is installed."""
    if way == "torch":
        return source != "tfrecord" and importlib.util.find_spec("torch") is not None
    return way.startswith("tf.data") or way in READERS[source]


def reading_cells(source: str, way: str, contenders):
    """The cells of a way, in the order of READ_HEADS."""
    base, mine = contenders["stream"], contenders[way]
    ratios = [ours / rate for ours, rate in zip(base.rates, mine.rates)]
    return [
        source,
        way,
        f"{1e6 / statistics.median(mine.rates):.0f}",
        *(f"{n:.2f}" for n in (statistics.median(ratios), min(ratios), max(ratios))),
        f"{mine.own_mib():.0f}",
    ]


# ---------------------------------------------------------------------------------------- the whole


def main() -> None:
    arguments = parse_arguments()
    harness.end_on_sigterm()
    folder = tempfile.mkdtemp(prefix="flat-cost-", dir=arguments.folder)
    os.environ["TOOLKIT_CACHE"] = os.path.join(folder, "cache")
    machine = harness.machine()
    print(harness.describe_machine(machine))
    steps, reading = [STEP_HEADS], [READ_HEADS]
    try:
        for source in arguments.sources:
            counts = arguments.examples or COUNTS[source]
            paths = {}
            for count in sorted(int(text) for text in counts.split(",")):
                data = tempfile.mkdtemp(dir=folder)
                paths[count] = WRITERS[source](data, count, arguments.side)
            if "steps" in arguments.parts:
                steps += measure_steps(source, paths, arguments, folder)
            if "reading" in arguments.parts:
                reading += measure_reading(source, paths[sorted(paths)[-1]], arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tables = [table for table in (steps, reading) if len(table) > 1]
    for table in tables:
        print("\n" + "\n".join(outputs.align(table)))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"machine": machine, "steps": steps, "reading": reading}, file, indent=1)
    if arguments.markdown:
        lines = [line for table in tables for line in [*outputs.markdown_table(table), ""]]
        outputs.write(arguments.markdown, lines)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sources", default="idx", help="of idx,tfrecord,images [%(default)s]")
    parser.add_argument("--examples", help="numbers of them, instead of those of each source")
    parser.add_argument("--parts", default="steps,reading", help="[default %(default)s]")
    parser.add_argument("--side", type=int, default=28, help="of images [default %(default)s]")
    parser.add_argument("--batch-size", type=int, default=64, help="[default %(default)s]")
    parser.add_argument("--rounds", type=int, default=7, help="[default %(default)s]")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="of a turn [default %(default)s]"
    )
    parser.add_argument(
        "--folder",
        default=tempfile.gettempdir(),
        help="folder of the temporary files [default %(default)s]",
    )
    parser.add_argument("--json", metavar="FILE", help="also write all measurements")
    parser.add_argument("--markdown", metavar="FILE", help="also write the tables as Markdown")
    arguments = parser.parse_args()
    arguments.sources = arguments.sources.split(",")
    for source in arguments.sources:
        if source not in WRITERS:
            parser.error(f"--sources has {source}, expected some of {', '.join(WRITERS)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
