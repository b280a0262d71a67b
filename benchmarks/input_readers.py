"""One reader of examples, which `flat_cost.py` times: the toolkit's, tf.data's or PyTorch's.

    python benchmarks/input_readers.py --way tf.data --source idx --path DIR --batch-size 64

Each makes batches of float32 pixels in [0, 1] and of labels, in a shuffled order, in the way that
its documentation recommends, and does nothing with them but add up one number of each.
"""

from __future__ import annotations

import argparse
import glob
import os

import numpy as np
from link import Link

BATCHES = 50  # per call
BUFFER = 10000  # examples that tf.data shuffles at a time; the toolkit's default
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
IMAGE_HEADER, LABEL_HEADER = 16, 8  # bytes of an IDX file
WORKERS = 2  # of PyTorch; more than the cores of a small machine cost time


def toolkit_call(arguments):
    """A function that reads BATCHES batches through the toolkit's reader."""
    from toolkit import tf
    from toolkit.data.held_out import NOTHING
    from toolkit.data.readers.reader import ReaderOptions, make_reader
    from toolkit.data.sources import open_data

    split = open_data(f"{arguments.source}:{arguments.path}", shares=NOTHING).splits["train"]
    options = ReaderOptions(arguments.way, seed=1, shuffle_buffer=BUFFER)
    reader = make_reader(split, arguments.batch_size, options)
    first = tf.placeholder(tf.int64, [])

    def read(number, total):
        features, labels = reader.batch(first + number)
        return number + 1, total + features[0, 0, 0, 0] + tf.cast(labels[0], tf.float32)

    start = [tf.constant(0, tf.int64), tf.constant(0.0)]
    loop = tf.while_loop(lambda number, _: number < BATCHES, read, start, parallel_iterations=1)
    session = tf.Session()
    reader.initialize(session)
    call = session.make_callable(loop, [first])
    steps = iter(range(0, 1 << 60, BATCHES))
    return lambda: call(next(steps))


def tf_data_call(arguments):
    """A function that reads BATCHES batches through a pipeline of tf.data."""
    import tensorflow as tf

    build = {"idx": idx_pipeline, "tfrecord": tfrecord_pipeline, "images": images_pipeline}
    batches = build[arguments.source](tf, arguments)
    iterator = iter(batches.prefetch(tf.data.AUTOTUNE))

    @tf.function
    def read():
        total = tf.constant(0.0)
        for _ in tf.range(BATCHES):
            features, labels = next(iterator)
            total += features[0, 0, 0, 0] + tf.cast(labels[0], tf.float32)
        return total

    return lambda: read().numpy()


def shuffle_and_batch(tf, examples, arguments):
    """Shuffled batches of raw examples: cached if asked, without end."""
    if arguments.way == "tf.data cache":
        examples = examples.cache()
    examples = examples.shuffle(BUFFER).repeat()
    return examples.batch(arguments.batch_size, drop_remainder=True)


def idx_pipeline(tf, arguments):
    """Fixed-length records; batches are decoded at once, as the guide on performance advises."""
    paths = [os.path.join(arguments.path, name) for name in (IMAGES, LABELS)]
    side = arguments.side
    images = tf.data.FixedLengthRecordDataset(paths[0], side * side, IMAGE_HEADER)
    labels = tf.data.FixedLengthRecordDataset(paths[1], 1, LABEL_HEADER)
    batches = shuffle_and_batch(tf, tf.data.Dataset.zip((images, labels)), arguments)

    def decode(images, labels):
        pixels = tf.reshape(tf.io.decode_raw(images, tf.uint8), [-1, side, side, 1])
        numbers = tf.reshape(tf.io.decode_raw(labels, tf.uint8), [-1])
        return tf.cast(pixels, tf.float32) / 255, tf.cast(numbers, tf.int32)

    return batches.map(decode, tf.data.AUTOTUNE)


def tfrecord_pipeline(tf, arguments):
    """Shards read in parallel, parsed and decoded in parallel."""
    paths = sorted(glob.glob(arguments.path))
    records = tf.data.TFRecordDataset(paths, num_parallel_reads=tf.data.AUTOTUNE)
    keys = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(record):
        values = tf.io.parse_single_example(record, keys)
        image = tf.io.decode_image(values["image/encoded"], 1, expand_animations=False)
        image.set_shape([arguments.side, arguments.side, 1])
        return image, values["image/class/label"]

    return decode_after_shuffle(tf, records, parse, arguments)


def images_pipeline(tf, arguments):
    """Paths with the numbers of their folders; files are read and decoded in parallel."""
    paths = sorted(glob.glob(os.path.join(arguments.path, "*", "*.jpg")))
    names = sorted({os.path.dirname(path) for path in paths})
    labels = [names.index(os.path.dirname(path)) for path in paths]
    examples = tf.data.Dataset.from_tensor_slices((paths, labels))

    def load(path, label):
        image = tf.io.decode_jpeg(tf.io.read_file(path), 3)
        image.set_shape([arguments.side, arguments.side, 3])
        return image, label

    return decode_after_shuffle(tf, examples, load, arguments)


def decode_after_shuffle(tf, examples, decode, arguments):
    """Batches of decoded examples. A cache holds them decoded, else what is shuffled is small."""

    def parallel(data):
        return data.map(decode, tf.data.AUTOTUNE)

    if arguments.way == "tf.data cache":
        batches = shuffle_and_batch(tf, parallel(examples), arguments)
    else:
        shuffled = parallel(examples.shuffle(BUFFER).repeat())
        batches = shuffled.batch(arguments.batch_size, drop_remainder=True)

    def scale(images, labels):
        return tf.cast(images, tf.float32) / 255, tf.cast(labels, tf.int32)

    return batches.map(scale, tf.data.AUTOTUNE)


def torch_call(arguments):
    """A function that reads BATCHES batches through PyTorch's DataLoader, with its workers."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    data = {"idx": IdxRows, "images": ImageRows}[arguments.source](arguments)
    loader = DataLoader(
        data,
        arguments.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=WORKERS,
        persistent_workers=True,
    )

    def repeat():
        while True:
            yield from loader

    batches = repeat()

    def read():
        total = 0.0
        for _ in range(BATCHES):
            features, labels = next(batches)
            total += float(features[0].flatten()[0]) + float(labels[0])
        return total

    return read


class IdxRows:
    """A map-style data set over the memory map of IDX files."""

    def __init__(self, arguments):
        shape = (-1, 1, arguments.side, arguments.side)
        paths = [os.path.join(arguments.path, name) for name in (IMAGES, LABELS)]
        self._images = np.memmap(paths[0], np.uint8, "r", IMAGE_HEADER).reshape(shape)
        self._labels = np.memmap(paths[1], np.uint8, "r", LABEL_HEADER)

    def __len__(self):
        return len(self._images)

    def __getitem__(self, position):
        import torch

        image = torch.from_numpy(self._images[position].copy())
        return image.to(torch.float32) / 255, int(self._labels[position])


class ImageRows:
    """A map-style data set over the files of a folder per class."""

    def __init__(self, arguments):
        self._paths = sorted(glob.glob(os.path.join(arguments.path, "*", "*.jpg")))
        names = sorted({os.path.dirname(path) for path in self._paths})
        self._labels = [names.index(os.path.dirname(path)) for path in self._paths]

    def __len__(self):
        return len(self._paths)

    def __getitem__(self, position):
        import torch
        from PIL import Image

        with Image.open(self._paths[position]) as image:
            pixels = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        return torch.from_numpy(pixels.copy()).to(torch.float32) / 255, self._labels[position]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--way", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--side", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    arguments = parser.parse_args()
    link = Link()
    link.mark("import")
    makers = {"tf.data": tf_data_call, "tf.data cache": tf_data_call, "torch": torch_call}
    call = makers.get(arguments.way, toolkit_call)(arguments)
    link.mark("build")
    link.repeat(BATCHES, call)


if __name__ == "__main__":
    main()
