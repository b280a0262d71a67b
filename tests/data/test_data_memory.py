"""Compressed files: the size that they promise is compared with their contents."""

import gzip
import os
import struct
import tracemalloc

import numpy as np
import pytest

from toolkit.data.arrays import idx
from toolkit.data.examples import Split, iterate_slices
from toolkit.errors import DataError

MEGABYTE = 1 << 20


@pytest.fixture
def limit(monkeypatch, tmp_path):
    """A function that sets the bytes of arrays that are read into memory; the cache is empty."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    return lambda count: monkeypatch.setattr(idx, "UNPACK_LIMIT", count)


def write_gzip(path, shape, payload):
    """An IDX file of a shape with a payload of its own size, compressed."""
    with gzip.open(str(path), "wb") as file:
        file.write(struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape))
        for _ in range(payload // MEGABYTE):
            file.write(bytes(MEGABYTE))


def peak_while(call):
    """What a call returns or the message of its DataError, and the most bytes that it allocated."""
    tracemalloc.start()
    try:
        result = call()
    except DataError as error:
        result = error.message
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, peak


@pytest.mark.parametrize("size, is_mapped", [(32, True), (16, False)])
def test_a_gzip_file_is_read_into_its_array_or_once_unpacked_into_the_cache(
    tmp_path, limit, monkeypatch, size, is_mapped
):
    path = tmp_path / "train.gz"
    write_gzip(path, (size, 1024, 1024), size * MEGABYTE)
    limit(16 * MEGABYTE)
    array, peak = peak_while(lambda: idx.read_idx(str(path)))
    assert array.shape == (size, 1024, 1024) and not array.any() and not array.flags.writeable
    assert isinstance(array, np.memmap) == is_mapped
    assert peak < (16 if is_mapped else 24) * MEGABYTE
    if is_mapped:
        monkeypatch.setattr(idx.os, "mkdir", lambda *_: pytest.fail("unpacked again"))
        assert isinstance(idx.read_idx(str(path)), np.memmap)


@pytest.mark.parametrize("payload", [31, 33])
def test_a_gzip_file_of_another_size_leaves_nothing_in_the_cache(tmp_path, limit, payload):
    path = tmp_path / "train.gz"
    write_gzip(path, (32, 1024, 1024), payload * MEGABYTE)
    limit(16 * MEGABYTE)
    with pytest.raises(DataError, match="bytes for dimensions"):
        idx.read_idx(str(path))
    assert not [files for _, _, files in os.walk(str(tmp_path / "cache")) if files]


def test_a_gzip_file_that_is_longer_than_its_header_says_is_not_unpacked_to_its_end(tmp_path):
    path = tmp_path / "train.gz"
    write_gzip(path, (1, 1024, 1024), 64 * MEGABYTE)
    message, peak = peak_while(lambda: idx.read_idx(str(path)))
    assert "1,048,592 bytes for dimensions [1, 1024, 1024], found 1,048,593 or more" in message
    assert peak < 8 * MEGABYTE


@pytest.mark.parametrize(
    "shape, sizes", [((1,), [1024, 76]), ((1 << 25,), [1] * 3), ((1 << 24,), [2, 1])], ids=str
)
def test_large_examples_are_read_a_few_at_a_time(shape, sizes):
    rows = np.broadcast_to(np.uint8(7), (sum(sizes), *shape))
    slices = list(iterate_slices(Split(rows)))
    assert [part.stop - part.start for part in slices] == sizes
    assert slices[0].start == 0 and slices[-1].stop == sum(sizes)
