"""Reads batches as training does, of examples whose pixels and labels are their numbers."""

import numpy as np

from toolkit.compat import tf
from toolkit.data.prepare import NO_HOOKS
from toolkit.data.readers.reader import ReaderOptions, make_reader
from toolkit.data.structure import flatten


def read(split, batch_size, numbers, hooks=NO_HOOKS, **options):
    """The batches with some numbers, from 0 on: flat key -> array, and the "positions" of their
    examples. The reader starts at the first, with the seed 1 unless its options name another.
    """
    options = ReaderOptions(**{"seed": 1, **options})
    with tf.Graph().as_default(), tf.Session() as session:
        reader = make_reader(split, batch_size, options, hooks)
        number = tf.placeholder(tf.int64, [])
        batch = flatten(*reader.batch(number))
        for key, tensor in batch.items():
            shape = reader.form.batch_shape(key, batch_size)
            assert options.part is not None or tensor.shape.as_list() == shape
        batch["positions"] = reader.positions(number)
        reader.initialize(session, numbers[0])
        return [session.run(batch, {number: each}) for each in numbers]


def read_labels(split, batch_size, count, start=0, **options):
    """The labels of batches from `start` on, int [count, B], after a look at the first pixels."""
    batches = read(split, batch_size, range(start, start + count), **options)
    for batch in batches:
        pixels = np.rint(batch["features"][:, 0, 0, 0] * 255)
        assert np.array_equal(pixels, batch["labels"] % 256)
    return np.array([batch["labels"] for batch in batches])


def numbered_dataset(count):
    """A function that makes a `tf.data.Dataset` of such images of 2 x 2 pixels."""

    def make():
        dataset = tf.data.Dataset.range(count)
        return dataset.map(lambda n: (tf.fill([2, 2], tf.cast(n, tf.uint8)), n))

    return make
