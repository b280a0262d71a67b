"""The parts of a batch that several replicas read: together, each is the batch of one process."""

import numpy as np
import pytest
from data_fixtures import numbered_images
from PIL import Image
from reader_fixtures import read

from toolkit.compat import tf
from toolkit.data.decoded import Decoded
from toolkit.data.examples import Split
from toolkit.data.images.image_file import ImageForm, read_image
from toolkit.data.readers.options import BatchSlice
from toolkit.data.readers.pipeline import read_dataset
from toolkit.graph.replica import Replica

NUM_EXAMPLES = 22
BATCH_SIZE = 5  # of two batches a step; neither divides the number of examples
NUM_STEPS = 11  # five epochs


def in_memory(folder):
    return Split(numbered_images(NUM_EXAMPLES), np.arange(NUM_EXAMPLES))


def in_files(folder):
    paths = [str(folder / f"{i:02}.png") for i in range(NUM_EXAMPLES)]
    for i, path in enumerate(paths):
        Image.new("L", (3, 2), i).save(path)
    form = ImageForm(channels=1)
    shape = (NUM_EXAMPLES, 2, 3, 1)
    images = Decoded(
        lambda row: read_image(paths[row], form), shape, identity="images", paths=paths
    )
    return Split(images, np.arange(NUM_EXAMPLES))


def in_a_dataset(folder):
    def make():
        dataset = tf.data.Dataset.range(NUM_EXAMPLES)
        return dataset.map(lambda n: (tf.fill([2, 2], tf.cast(n, tf.uint8)), n))

    return read_dataset(make, NUM_EXAMPLES)


SPLITS = {"resident": in_memory, "stream": in_memory, "mapped": in_files, "dataset": in_a_dataset}


@pytest.fixture(params=list(SPLITS))
def source(request, tmp_path, monkeypatch):
    """A split, and the options of the reader that reads it."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    split = SPLITS[request.param](tmp_path)
    if request.param == "dataset":  # its shuffle lets epochs overlap, with or without parts
        return split, {"kind": "stream", "shuffle": False}
    return split, {"kind": request.param, "seed": 3}


def read_parts(source, replica, start=0):
    """What a replica reads: the labels, and the positions of these examples, int [steps, n]."""
    split, options = source
    part = BatchSlice(BATCH_SIZE, replica.start, replica.num_examples)
    options = dict(options, part=None if replica.count == 1 else part)
    batches = read(split, 2 * BATCH_SIZE, range(start, NUM_STEPS), **options)
    for batch in batches:
        assert np.array_equal(np.rint(batch["features"][:, 0, 0, 0] * 255), batch["labels"])
    return [np.array([batch[key] for batch in batches]) for key in ("labels", "positions")]


def join_parts(parts):
    """The parts of all replicas in the order of one process: the first of each batch first."""
    batches = [part.reshape(len(part), 2, -1) for part in parts]
    return np.concatenate(batches, axis=2).reshape(len(parts[0]), -1)


def test_the_parts_of_all_replicas_are_the_batches_of_one_process(source):
    whole, positions = read_parts(source, Replica(0, 1, BATCH_SIZE))
    epochs = whole.reshape(-1, NUM_EXAMPLES)
    assert np.array_equal(np.sort(epochs), np.tile(np.arange(NUM_EXAMPLES), (len(epochs), 1)))
    parts = [read_parts(source, Replica(rank, 3, BATCH_SIZE)) for rank in range(3)]
    assert [part.shape[1] for part, _ in parts] == [4, 4, 2]
    assert np.array_equal(join_parts([part for part, _ in parts]), whole)
    assert np.array_equal(join_parts([numbers for _, numbers in parts]), positions)


def test_a_resume_with_another_number_of_replicas_reads_the_rest(source):
    whole, _ = read_parts(source, Replica(0, 1, BATCH_SIZE))
    before = [read_parts(source, Replica(rank, 2, BATCH_SIZE))[0][:7] for rank in range(2)]
    after = [read_parts(source, Replica(rank, 3, BATCH_SIZE), start=7)[0] for rank in range(3)]
    rows = np.concatenate([join_parts(before), join_parts(after)])
    assert np.array_equal(rows, whole)
