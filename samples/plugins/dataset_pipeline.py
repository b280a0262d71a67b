"""A pipeline of `tf.data` as in a TensorFlow 1 script: MNIST's files, read by TensorFlow itself.

    toolkit run --plugin classifier --with samples/plugins/dataset_pipeline.py --data idx:DIR

An extension with the hook `data`: any model plugin trains on it, here the classifier's network. DIR
has MNIST's four files, as they are published (`.gz`) or unpacked. The run adds what ends such a
script, `repeat`, `shuffle` with its seed (`--shuffle-buffer`) and `padded_batch` (`--batch-size`).

`--data idx:DIR` alone reads the same files faster, and resumes exactly. Take a pipeline of your own
for what the toolkit cannot read, or to change or choose examples while it trains.
"""

from __future__ import annotations

import glob
import gzip
import os
import struct

import numpy as np

from toolkit import DataError, hookimpl, read_dataset, tf

HELD_OUT = 10  # of the training files, each tenth example is for validation
THREADS = 2  # that decode examples


@hookimpl
def data(split, run):
    source, _, folder = run.options.data.partition(":")
    if source != "idx":
        return None  # the core opens what --data names
    prefix = "t10k" if split == "test" else "train"
    images = find_file(folder, f"{prefix}-images-idx3-ubyte")
    labels = find_file(folder, f"{prefix}-labels-idx1-ubyte")
    count, height, width = read_sizes(images)

    def keep(number, image, label):
        is_held_out = tf.equal(number % HELD_OUT, 0)
        return is_held_out if split == "validation" else ~is_held_out

    def decode(number, image, label):
        image = tf.py_func(to_pixels, [image], tf.uint8)
        image.set_shape([height, width, 1])  # what Python returns may have any shape
        return image, tf.cast(tf.decode_raw(label, tf.uint8)[0], tf.int32)

    def to_pixels(record):  # the place for any code of NumPy
        return np.frombuffer(record, np.uint8).reshape(height, width, 1)

    def make_dataset():
        parts = tf.data.Dataset.range(count), records(images, 16, height * width)
        dataset = tf.data.Dataset.zip((*parts, records(labels, 8, 1)))
        if split != "test":
            dataset = dataset.filter(keep)
        return dataset.map(decode, num_parallel_calls=THREADS)

    return read_dataset(make_dataset, count, num_classes=10)


def records(path, header, size):
    """The data set of a file's records of `size` bytes, behind a header."""
    compression = "GZIP" if path.endswith(".gz") else ""
    return tf.data.FixedLengthRecordDataset(path, size, header, compression_type=compression)


def find_file(folder, name):
    """The path of a file of MNIST, packed or not."""
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), name + "*")))
    if not paths:
        raise DataError(f"{folder} has no file {name} or {name}.gz.", hint="Name another folder.")
    return paths[0]


def read_sizes(path):
    """The number of images of an IDX file, their height and their width."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return struct.unpack(">4xIII", file.read(16))
