"""Folders of damaged IDX files, plain and compressed: used or refused, never a traceback."""

from __future__ import annotations

import gzip
import io
import struct

import numpy as np
import pytest
from fuzz_fixtures import ended, fuzzed
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import mutated, pieces

from toolkit.data.idx import ELEMENTS


def idx(array, code=8):
    header = struct.pack(">HBB", 0, code, array.ndim)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def gzipped(content):
    """The same bytes at any time of day."""
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", mtime=0) as file:
        file.write(content)
    return made.getvalue()


FILES = {
    "train-images-idx3-ubyte": idx(np.arange(12 * 9, dtype=np.uint8).reshape(12, 3, 3)),
    "train-labels-idx1-ubyte": idx(np.arange(12, dtype=np.uint8) % 3),
    "t10k-images-idx3-ubyte": idx(np.arange(4 * 9, dtype=np.uint8).reshape(4, 3, 3)),
    "t10k-labels-idx1-ubyte": idx((np.arange(4) % 3).astype(">i4"), 12),
}
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def damaged(content, other):
    """One of the files, damaged: name -> bytes."""
    return st.sampled_from(sorted(FILES)).flatmap(
        lambda name: st.builds(lambda made: {name: made}, mutated(content(name), other(name)))
    )


def other(name):
    return FILES[LABELS if name == IMAGES else IMAGES]


@pytest.fixture
def check(tmp_path):
    """`check({"train-images-idx3-ubyte": b"..."}, ".gz")`: with these files in the sound set."""

    def call(files, ending="", codes=(0, 4)):
        for name, content in dict(FILES, **files).items():
            content = gzipped(content) if ending and name not in files else content
            (tmp_path / (name + ending)).write_bytes(content)
        return ended("data", "check", f"idx:{tmp_path}", codes=codes)

    return call


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_sound_files_are_accepted(check, ending):
    assert "train    11 examples" in check({}, ending, codes=(0,)).out


@fuzzed
@given(damaged(FILES.get, other))
def test_damaged_plain_files_are_used_or_refused(check, files):
    check(files)


@fuzzed
@given(damaged(lambda name: gzipped(FILES[name]), lambda name: gzipped(other(name))))
def test_damaged_compressed_files_are_used_or_refused(check, files):
    check(files, ".gz")


@fuzzed
@given(damaged(FILES.get, other))
def test_damage_inside_of_sound_gzip_is_used_or_refused(check, files):
    check({name: gzipped(content) for name, content in files.items()}, ".gz")


DIMENSIONS = st.integers(0, 5) | st.sampled_from([12, 2**16, 2**31 - 1, 2**31, 2**32 - 1])


@fuzzed
@given(
    st.sampled_from([IMAGES, LABELS]),
    st.sampled_from(sorted(ELEMENTS)) | st.integers(0, 255),
    st.lists(DIMENSIONS, max_size=9),
    st.lists(pieces(), max_size=12).map(b"".join),
    st.booleans(),
)
@example(IMAGES, 8, [2**32 - 1] * 8, b"", True)
@example(IMAGES, 8, [10**5, 10**5, 10**3], b"", True)
def test_any_header_is_used_or_refused(check, name, code, shape, body, compress):
    content = struct.pack(">HBB", 0, code, len(shape))
    content += struct.pack(f">{len(shape)}I", *shape) + body
    check({name: gzipped(content) if compress else content}, ".gz" if compress else "")


@fuzzed
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=12, max_size=12))
@example([0, 1, 2] * 4)
@example([2**31 - 1] * 12)
def test_any_labels_are_used_or_refused(check, labels):
    result = check({LABELS: idx(np.array(labels).astype(">i4"), 12)})
    assert result.code == (4 if min(labels) < 0 or max(labels) >= 2**20 else 0)


@fuzzed
@given(st.lists(st.floats(width=32), min_size=12, max_size=12))
@example([0.5] * 12)
@example([float("inf"), float("-inf")] * 6)
def test_any_floats_are_used_or_refused(check, values):
    vectors = np.array(values).astype(">f4").reshape(12, 1)
    tests = np.zeros([4, 1], ">f4")
    result = check({IMAGES: idx(vectors, 13), "t10k-images-idx3-ubyte": idx(tests, 13)})
    assert result.code == (0 if np.isfinite(vectors).all() else 4)
