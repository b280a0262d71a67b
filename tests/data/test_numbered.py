"""Batches by their numbers are those of a reader that reads them one after the other."""

import numpy as np
import pytest
from reader_fixtures import read

from toolkit import Split, read_dataset, tf
from toolkit.data.prepare import NO_HOOKS, ExampleHooks

NUM_EXAMPLES, BATCH = 20, 3
FLOATS = np.arange(NUM_EXAMPLES, dtype=np.float32)[:, np.newaxis]


def dataset_split():
    def make_dataset():
        return tf.data.Dataset.range(NUM_EXAMPLES).map(lambda x: tf.cast(x, tf.float32)[tf.newaxis])

    return read_dataset(make_dataset, NUM_EXAMPLES)


def sequence_split():
    return Split({"x": [np.arange(1 + number % 4) + number for number in range(NUM_EXAMPLES)]})


def double(features, label):
    return features * 2, label


@pytest.mark.parametrize(
    "make, numbers, requested, first, hooks",
    [
        (lambda: Split(FLOATS), [7, 2, 11, 0], 0, 0, NO_HOOKS),
        (lambda: Split(FLOATS), [7, 2, 11, 0], 2, 0, NO_HOOKS),
        (lambda: Split(FLOATS), [4], 0, 0, ExampleHooks(convert=double)),
        (sequence_split, [5, 1], 1, 0, NO_HOOKS),
        (dataset_split, [2, 3, 7, 11], 0, 0, NO_HOOKS),  # those between are dropped
        (dataset_split, [2, 3, 7, 11], 0, 2, NO_HOOKS),
    ],
    ids=["any order", "requested", "converted", "sequences", "data set", "data set from 2 on"],
)
def test_batches_are_read_by_their_numbers(make, numbers, requested, first, hooks):
    options = {"kind": "auto" if make is dataset_split else "stream", "hooks": hooks}
    in_turn = read(make(), BATCH, range(12), **options)
    batches = read(make(), BATCH, numbers, first, requested, by_number=True, **options)
    for number, batch in zip(numbers, batches):
        for key in batch:
            np.testing.assert_array_equal(batch[key], in_turn[number][key])
