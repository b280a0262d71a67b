"""Parts of batches, which are those of one process together."""

import numpy as np
import pytest
from data_fixtures import numbered_images
from reader_fixtures import numbered_dataset, read

from toolkit import Split, read_dataset
from toolkit.graph.replica import Replica

NUM_EXAMPLES = 22
BATCH_SIZE = 5  # of two batches a step; neither divides the number of examples
NUM_STEPS = 9  # four epochs


def read_parts(kind, replica, start=0):
    """What a replica reads: the labels, and the positions of these examples, int [steps, n]."""
    split = Split(numbered_images(NUM_EXAMPLES), np.arange(NUM_EXAMPLES))
    options = {"kind": kind, "seed": 3}
    if kind == "dataset":  # its shuffle lets epochs overlap, with or without parts
        split = read_dataset(numbered_dataset(NUM_EXAMPLES), NUM_EXAMPLES)
        options = {"kind": "stream", "shuffle_buffer": 1}
    part = np.arange(2 * BATCH_SIZE).reshape(2, BATCH_SIZE)
    part = part[:, replica.start : replica.start + replica.num_examples].reshape(-1)
    options = dict(options, part=None if replica.count == 1 else part)
    batches = read(split, 2 * BATCH_SIZE, range(start, NUM_STEPS), **options)
    for batch in batches:
        assert np.array_equal(np.rint(batch["features"][:, 0, 0, 0] * 255), batch["labels"])
    return [np.array([batch[key] for batch in batches]) for key in ("labels", "positions")]


def join_parts(parts):
    """The parts of all replicas in the order of one process: the first of each batch first."""
    batches = [part.reshape(len(part), 2, -1) for part in parts]
    return np.concatenate(batches, axis=2).reshape(len(parts[0]), -1)


@pytest.mark.parametrize("kind", ["resident", "stream", "dataset"])
def test_the_parts_of_any_number_of_replicas_are_the_batches_of_one_process(kind):
    whole = read_parts(kind, Replica(0, 1, BATCH_SIZE))
    for count, start in ((2, 0), (3, 5)):  # a resume with a replica more reads the rest
        parts = [read_parts(kind, Replica(rank, count, BATCH_SIZE), start) for rank in range(count)]
        assert count == 2 or [labels.shape[1] for labels, _ in parts] == [4, 4, 2]
        for number, values in enumerate(whole):
            assert np.array_equal(join_parts([part[number] for part in parts]), values[start:])
