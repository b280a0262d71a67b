"""Folders of damaged IDX files, plain and compressed: accepted or refused, never a traceback."""

from __future__ import annotations

import gzip
import io
import struct

import numpy as np
import pytest
from fuzz_fixtures import fuzz, run_and_check
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import mutants, pieces

from toolkit.data.arrays.idx import ELEMENTS


def idx_bytes(array, code=8):
    """The content of an IDX file."""
    header = struct.pack(">HBB", 0, code, array.ndim)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def gzip_bytes(content):
    """Compressed content, without the time."""
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as file:
        file.write(content)
    return stream.getvalue()


FILES = {
    "train-images-idx3-ubyte": idx_bytes(np.arange(12 * 9, dtype=np.uint8).reshape(12, 3, 3)),
    "train-labels-idx1-ubyte": idx_bytes(np.arange(12, dtype=np.uint8) % 3),
    "t10k-images-idx3-ubyte": idx_bytes(np.arange(4 * 9, dtype=np.uint8).reshape(4, 3, 3)),
    "t10k-labels-idx1-ubyte": idx_bytes((np.arange(4) % 3).astype(">i4"), 12),
}
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def damaged_file(content, other):
    """One of the files, damaged: name -> bytes. content, other: functions of a name -> bytes."""
    return st.sampled_from(sorted(FILES)).flatmap(
        lambda name: mutants(content(name), other(name)).map(lambda mutant: {name: mutant})
    )


def other(name):
    """The content of another file, for splices."""
    return FILES[LABELS if name == IMAGES else IMAGES]


@pytest.fixture
def check(tmp_path):
    """`check({"train-images-idx3-ubyte": b"..."}, ".gz")`: check FILES, with these replaced."""

    def call(files, ending="", codes=(0, 4)):
        for name, content in dict(FILES, **files).items():
            content = gzip_bytes(content) if ending and name not in files else content
            (tmp_path / (name + ending)).write_bytes(content)
        return run_and_check("data", "check", f"idx:{tmp_path}", codes=codes)

    return call


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_intact_files_are_accepted(check, ending):
    assert "train    11 examples" in check({}, ending, codes=(0,)).out


@fuzz
@given(damaged_file(FILES.get, other))
def test_damaged_plain_files_are_accepted_or_refused(check, files):
    check(files)


@fuzz
@given(damaged_file(lambda name: gzip_bytes(FILES[name]), lambda name: gzip_bytes(other(name))))
def test_damaged_compressed_files_are_accepted_or_refused(check, files):
    check(files, ".gz")


@fuzz
@given(damaged_file(FILES.get, other))
def test_damaged_content_of_intact_gzip_is_accepted_or_refused(check, files):
    check({name: gzip_bytes(content) for name, content in files.items()}, ".gz")


DIMENSIONS = st.integers(0, 5) | st.sampled_from([12, 2**16, 2**31 - 1, 2**31, 2**32 - 1])


@fuzz
@given(
    st.sampled_from([IMAGES, LABELS]),
    st.sampled_from(sorted(ELEMENTS)) | st.integers(0, 255),
    st.lists(DIMENSIONS, max_size=9),
    st.lists(pieces(), max_size=12).map(b"".join),
    st.booleans(),
)
@example(IMAGES, 8, [2**32 - 1] * 8, b"", True)
@example(IMAGES, 8, [10**5, 10**5, 10**3], b"", True)
def test_any_header_is_accepted_or_refused(check, name, code, shape, body, compress):
    content = struct.pack(">HBB", 0, code, len(shape))
    content += struct.pack(f">{len(shape)}I", *shape) + body
    check({name: gzip_bytes(content) if compress else content}, ".gz" if compress else "")


@fuzz
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=12, max_size=12))
@example([0, 1, 2] * 4)
@example([2**31 - 1] * 12)
def test_any_labels_are_accepted_or_refused(check, labels):
    result = check({LABELS: idx_bytes(np.array(labels).astype(">i4"), 12)})
    assert result.code == (4 if min(labels) < 0 or max(labels) >= 2**20 else 0)


@fuzz
@given(st.lists(st.floats(width=32), min_size=12, max_size=12))
@example([0.5] * 12)
@example([float("inf"), float("-inf")] * 6)
def test_any_floats_are_accepted_or_refused(check, values):
    vectors = np.array(values).astype(">f4").reshape(12, 1)
    tests = np.zeros([4, 1], ">f4")
    result = check({IMAGES: idx_bytes(vectors, 13), "t10k-images-idx3-ubyte": idx_bytes(tests, 13)})
    assert result.code == (0 if np.isfinite(vectors).all() else 4)
