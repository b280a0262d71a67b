"""Batches by their numbers are those of a reader that reads them one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit import Split, read_dataset, tf
from toolkit.data.prepare import ExampleHooks
from toolkit.data.readers.reader import ReaderOptions, make_reader

NUM_EXAMPLES, BATCH = 20, 3


def array_split():
    return Split(np.arange(NUM_EXAMPLES, dtype=np.float32)[:, np.newaxis])


def dataset_split():
    def make_dataset():
        return tf.data.Dataset.range(NUM_EXAMPLES).map(lambda x: tf.cast(x, tf.float32)[tf.newaxis])

    return read_dataset(make_dataset, NUM_EXAMPLES)


def sequence_split():
    values = [np.arange(1 + number % 4) + number for number in range(NUM_EXAMPLES)]
    return Split({"x": values})


def read(split, numbers, by_number, ahead=0, first=0, hooks=None):
    """The batches of some numbers; `ahead`: how many of them are requested before."""
    options = ReaderOptions("auto" if split.make_dataset else "stream", 3, by_number=by_number)
    with tf.Graph().as_default(), tf.Session() as session:
        reader = make_reader(split, BATCH, options, **({"hooks": hooks} if hooks else {}))
        number = tf.placeholder(tf.int64, [])
        features, _ = reader.batch(number)
        reader.initialize(session, first)
        for each in numbers[:ahead]:
            reader.request(each)
        return [session.run(features, {number: each}) for each in numbers]


@pytest.mark.parametrize("ahead", [0, 2])
def test_streamed_batches_are_read_in_any_order(ahead):
    in_turn = read(array_split(), range(12), by_number=False)
    numbers = [7, 2, 11, 0]
    batches = read(array_split(), numbers, by_number=True, ahead=ahead)
    np.testing.assert_array_equal(batches, [in_turn[number] for number in numbers])


def test_so_are_sequences():
    in_turn = read(sequence_split(), range(6), by_number=False)
    for number, batch in zip([5, 1], read(sequence_split(), [5, 1], by_number=True, ahead=1)):
        np.testing.assert_array_equal(batch["x"], in_turn[number]["x"])


def test_so_are_converted_examples():
    hooks = ExampleHooks(convert=lambda features, label: (features * 2, label))
    in_turn = read(array_split(), range(6), by_number=False)
    (batch,) = read(array_split(), [4], by_number=True, hooks=hooks)
    np.testing.assert_array_equal(batch, 2 * in_turn[4])


@pytest.mark.parametrize("first", [0, 2])
def test_batches_of_a_dataset_between_two_numbers_are_dropped(first):
    in_turn = read(dataset_split(), range(12), by_number=False)
    numbers = [2, 3, 7, 11]
    batches = read(dataset_split(), numbers, by_number=True, first=first)
    np.testing.assert_array_equal(batches, [in_turn[number] for number in numbers])
