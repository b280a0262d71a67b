"""IDX files: what is read, and one error message for each fault."""

import os

import numpy as np
import pytest
from data_fixtures import gzip_bytes, idx_bytes, numbered_images, refusal_of
from file_fixtures import write_idx

from toolkit.data.arrays.idx import open_idx, read_idx
from toolkit.data.column import memory_map
from toolkit.data.reading_options import Settings
from toolkit.errors import DataError

IMAGES = idx_bytes(numbered_images(3))
LABELS = idx_bytes(np.arange(3, dtype=np.uint8))


@pytest.mark.parametrize(
    "content, kind, expected, actual",
    [
        (b"\x12\x34" + IMAGES[2:], "images", "magic number that starts 0000", "12340803"),
        (b"\0\0\x55" + IMAGES[3:], "images", "element type uint8 or float32", "0x55"),
        (b"\0\0\x0d" + LABELS[3:], "labels", "element type uint8 or int32", "float32 (0x0d)"),
        (LABELS, "images", "images of 3 dimension(s)", "found 1"),
        (IMAGES[:-1], "images", "64 bytes for dimensions [3, 4, 4]", "63"),
        (IMAGES[:9], "images", "header of 16 bytes", "9 bytes"),
        (b"", "images", "header of 4 bytes", "0 bytes"),
        (idx_bytes(np.zeros((0, 4, 4), np.uint8)), "images", "one example or more", "[0, 4, 4]"),
        (gzip_bytes(IMAGES)[:-12], "images", "intact gzip data", "ended before"),
        (gzip_bytes(IMAGES)[:-8] + b"\1\2\3\4\5\6\7\x08", "images", "intact gzip data", "CRC"),
        (gzip_bytes(b"\0\0\x08\x08" + b"\xff" * 32), "images", "[4294967295", "found 36"),
    ],
)
def test_a_damaged_file_is_described_in_one_sentence(tmp_path, content, kind, expected, actual):
    path = tmp_path / "file"
    path.write_bytes(content)
    message = refusal_of(read_idx, str(path), kind)
    assert str(path) in message and message.endswith(".")
    assert expected in message and actual in message


def test_a_plain_file_and_a_part_of_it_are_memory_mapped(idx_folder):
    train = open_idx(Settings(idx_folder)).splits["train"]
    assert memory_map(train.columns["features"].values) is not None
    features, labels = train.take(slice(8, 10))
    numbers = train.index[8:10].tolist()  # of the images, which are their pixels
    assert features[:, 0, 0, 0].tolist() == numbers and labels.tolist() == [n % 5 for n in numbers]


def test_names_with_a_dot_are_recognized(idx_folder):
    for name in os.listdir(idx_folder):
        path = os.path.join(idx_folder, name)
        os.rename(path, path.replace("-idx", ".idx"))
    assert len(open_idx(Settings(idx_folder)).splits["test"]) == 6


@pytest.mark.parametrize(
    "labels, text",
    [
        (np.zeros(19, np.uint8), "numbers of examples: features 20, labels 19"),
        (np.full(20, -1), "{path}: Labels have the value -1 in example 0, expected 0"),
        (None, "expected train-labels-idx1-ubyte or"),
    ],
    ids=["count", "negative", "missing"],
)
def test_labels_that_do_not_fit_are_refused(idx_folder, labels, text):
    path = os.path.join(idx_folder, "train-labels-idx1-ubyte")
    if labels is None:
        os.remove(path)
    else:
        write_idx(path, labels)
    with pytest.raises(DataError, match=text.format(path=path)):
        open_idx(Settings(idx_folder))
