"""What is decoded when it is read: rows, and errors that name the image."""

import numpy as np
import pytest
from data_fixtures import NUM_IMAGES
from PIL import Image

from toolkit.data.column import Column
from toolkit.data.decoded import Decoded
from toolkit.data.files.file_index import FileIndex
from toolkit.data.images.image_files import ImageFiles
from toolkit.data.reading_options import ImageOptions
from toolkit.errors import DataError


@pytest.fixture
def images(paths):
    return ImageFiles("images", paths, FileIndex(), ImageOptions()).select(paths)


@pytest.mark.parametrize(
    "rows", [slice(None), slice(3, 9, 2), slice(-2, None), [5, 5, 0], [], [-1]], ids=str
)
def test_rows_are_those_of_an_array(images, rows):
    expected = np.broadcast_to(np.arange(NUM_IMAGES)[:, None, None, None], (NUM_IMAGES, 2, 3, 1))
    rows = rows if isinstance(rows, slice) else np.array(rows, np.int64)
    assert images.shape == expected.shape and len(images) == NUM_IMAGES
    result = images[rows]
    assert result.dtype == np.uint8 and np.array_equal(result, expected[rows])


def test_a_column_of_files_names_them_and_is_not_decoded(images, paths):
    column = Column(images).bind("features")
    assert column.paths == paths and not column.is_decoded
    assert column.component.describe() == "image uint8 2x3x1"
    assert column.take(np.array([7])).max() == 7


def test_a_damaged_file_is_named_by_whoever_reads_it(images, paths):
    with open(paths[20], "rb+") as file:
        file.truncate(50)
    assert images[:20].shape[0] == 20
    with pytest.raises(DataError, match=f"{paths[20]}: expected an image, found"):
        images[:]
    Image.new("L", (9, 8)).save(paths[20])
    with pytest.raises(DataError, match=f"{paths[20]}: expected 3x2 pixels, found 9x8"):
        images[:]


def test_a_row_beyond_the_last_one_is_refused():
    array = Decoded(lambda row: np.zeros([1]), (9, 1))
    with pytest.raises(IndexError):
        array[[9]]
