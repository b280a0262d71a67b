"""`tensorflow.examples.tutorials.mnist.input_data`: MNIST of local files, never downloaded.

Batches, their order and what is drawn of NumPy's generator are those of TensorFlow 1.15.
"""

from __future__ import annotations

import collections
import gzip
import os
from typing import Any, List, Tuple

import numpy as np

from toolkit import DataError, tf

_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_MAGIC = {1: 2049, 3: 2051}  # rank of the array -> the first four bytes of its file


Datasets = collections.namedtuple("Datasets", "train validation test")  # DataSet each


def _read(folder: str, name: str, rank: int) -> np.ndarray:
    """The uint8 array of an IDX file, which may be compressed."""
    paths = [os.path.join(folder, name + ending) for ending in (".gz", "")]
    path = next(filter(os.path.isfile, paths), None)
    if path is None:
        names = ", ".join(f"{each}.gz" for pair in _FILES.values() for each in pair)
        raise DataError(
            f"The script reads MNIST from '{folder}', which has no {name}.gz; nothing is "
            "downloaded.",
            hint=f"Put {names} into '{os.path.abspath(folder)}'.",
        )
    opener: Any = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            header = np.frombuffer(file.read(4 + 4 * rank), ">u4")
            values = np.frombuffer(file.read(), np.uint8)
        if header[0] == _MAGIC[rank]:
            return values.reshape(header[1:].astype(int))
    except (OSError, EOFError, ValueError, IndexError) as error:
        raise DataError(f"'{path}' is not a readable IDX file: {error}.")
    raise DataError(
        f"'{path}' begins with {header[0]}, not {_MAGIC[rank]} as a file of MNIST does."
    )


class DataSet:
    """Images, uint8 [N, H, W, 1], and labels, [N] or [N, classes], given in batches.

    With tf.float32 images are in [0, 1], with tf.uint8 as they are; reshaped they are [N, H * W].
    The seed, of NumPy's generator, is by default that of the graph, else entropy.
    """

    def __init__(
        self,
        images,
        labels,
        fake_data=False,
        one_hot=False,
        dtype=tf.float32,
        reshape=True,
        seed=None,
    ):
        graph_seed, op_seed = tf.get_seed(seed)
        np.random.seed(graph_seed if seed is None else op_seed)
        if reshape:
            images = images.reshape(len(images), images.shape[1] * images.shape[2])
        if tf.as_dtype(dtype) == tf.float32:
            images = images.astype(np.float32) * np.float32(1.0 / 255.0)
        self._images, self._labels = images, labels
        self._epochs_completed = self._index_in_epoch = 0

    images = property(lambda self: self._images, doc="In the order of the present epoch.")
    labels = property(lambda self: self._labels, doc="In the order of the present epoch.")
    num_examples = property(lambda self: len(self._images))
    epochs_completed = property(lambda self: self._epochs_completed)

    def _shuffle(self) -> None:
        order = np.arange(len(self._images))
        np.random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]

    def next_batch(self, batch_size, fake_data=False, shuffle=True) -> Tuple[Any, Any]:
        """The next images and labels; a batch that crosses an epoch's end has rows of both."""
        start, stop = self._index_in_epoch, self._index_in_epoch + batch_size
        if shuffle and start == 0 and self._epochs_completed == 0:
            self._shuffle()
        if stop <= len(self._images):
            self._index_in_epoch = stop
            return self._images[start:stop], self._labels[start:stop]
        ended = self._images[start:], self._labels[start:]
        self._epochs_completed += 1
        if shuffle:
            self._shuffle()
        self._index_in_epoch = stop = batch_size - len(ended[0])
        begun = self._images[:stop], self._labels[:stop]
        images, labels = (np.concatenate(both) for both in zip(ended, begun))
        return images, labels


def read_data_sets(
    train_dir,
    fake_data=False,
    one_hot=False,
    dtype=tf.float32,
    reshape=True,
    validation_size=5000,
    seed=None,
    source_url="",
) -> Datasets:
    """MNIST of the IDX files in a folder; labels are uint8 [N], or one-hot float64 [N, 10].

    Raises DataError for a file that is not there or not readable, and ValueError for fake data or
    more examples for validation than there are.
    """
    if fake_data:
        raise ValueError("The stand-in of input_data has no fake_data: leave it out.")
    arrays: List[np.ndarray] = []
    for images_name, labels_name in _FILES.values():
        arrays.append(_read(train_dir, images_name, 3)[..., np.newaxis])
        labels = _read(train_dir, labels_name, 1)
        arrays.append(np.eye(10)[labels] if one_hot else labels)
    images, labels, *test = arrays
    n = validation_size
    if not 0 <= n <= len(images):
        raise ValueError(f"validation_size is from 0 to {len(images)}, not {n}.")
    parts = (images[n:], labels[n:]), (images[:n], labels[:n]), test
    options = {"dtype": dtype, "reshape": reshape, "seed": seed}
    return Datasets(*(DataSet(*part, **options) for part in parts))


def load_mnist(train_dir="MNIST-data") -> Datasets:
    """`read_data_sets` with its defaults."""
    return read_data_sets(train_dir)


def load_dataset(name, size="small", test_with_fake_data=False) -> Datasets:
    """`tf.contrib.learn.datasets.load_dataset`, for "mnist" alone. Raises ValueError."""
    if name != "mnist":
        raise ValueError(f"The stand-in of load_dataset has 'mnist' alone, not {name!r}.")
    return load_mnist()
