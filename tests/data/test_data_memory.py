"""What is read of large or forged files takes no more memory than its values."""

import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from toolkit.data.arrays import idx
from toolkit.data.examples import Split, iterate_slices
from toolkit.errors import DataError

MEGABYTE = 1 << 20


@pytest.mark.parametrize("num_images, payload, limit", [(16, 16, 24), (1, 64, 8)])
def test_a_gzip_file_takes_the_memory_of_its_header(tmp_path, num_images, payload, limit):
    """The second one goes on behind the array of its header, which is refused."""
    path = tmp_path / "train.gz"
    with gzip.open(str(path), "wb") as file:
        file.write(struct.pack(">HBBIII", 0, 8, 3, num_images, 1024, 1024))
        for _ in range(payload):
            file.write(bytes(MEGABYTE))
    tracemalloc.start()
    try:
        array = idx.read_idx(str(path))
        assert array.shape == (16, 1024, 1024) and not array.flags.writeable
    except DataError as error:
        assert "[1, 1024, 1024], found 1,048,593 or more" in error.message
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < limit * MEGABYTE


@pytest.mark.parametrize(
    "shape, sizes", [((1,), [1024, 76]), ((1 << 25,), [1] * 3), ((1 << 24,), [2, 1])], ids=str
)
def test_large_examples_are_read_a_few_at_a_time(shape, sizes):
    rows = np.broadcast_to(np.uint8(7), (sum(sizes), *shape))
    slices = list(iterate_slices(Split(rows)))
    assert [part.stop - part.start for part in slices] == sizes
    assert slices[0].start == 0 and slices[-1].stop == sum(sizes)
