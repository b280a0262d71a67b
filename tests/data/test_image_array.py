"""Images that are decoded when they are read: rows, threads, and errors that name the image."""

import numpy as np
import pytest
from data_fixtures import NUM_IMAGES
from PIL import Image

from toolkit.data.column import Column
from toolkit.data.images.image_array import EncodedImages, ImageFiles
from toolkit.data.images.image_file import ImageForm, ImageReader
from toolkit.errors import DataError


@pytest.fixture
def images(paths):
    return ImageFiles(paths, ImageReader(ImageForm(channels=1)), (2, 3, 1))


@pytest.fixture
def encoded(paths):
    def read(row):
        with open(paths[row], "rb") as file:
            return file.read()

    reader = ImageReader(ImageForm(channels=1))
    return EncodedImages(read, lambda row: f"record {row}", len(paths), reader, (2, 3, 1))


@pytest.mark.parametrize("kind", ["images", "encoded"])
@pytest.mark.parametrize(
    "rows", [slice(None), slice(3, 9, 2), slice(-2, None), [5, 5, 0], [], [-1]], ids=str
)
def test_rows_are_those_of_an_array(kind, rows, request):
    array = request.getfixturevalue(kind)
    expected = np.broadcast_to(np.arange(NUM_IMAGES)[:, None, None, None], (NUM_IMAGES, 2, 3, 1))
    rows = rows if isinstance(rows, slice) else np.array(rows, np.int64)
    assert array.shape == expected.shape and len(array) == NUM_IMAGES
    result = array[rows]
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


def test_a_damaged_record_is_named():
    reader = ImageReader(ImageForm(channels=1))
    array = EncodedImages(
        lambda row: b"no image", lambda row: "a.tfrecord[3]", 9, reader, (1, 1, 1)
    )
    with pytest.raises(DataError, match=r"a.tfrecord\[3\]: expected an image, found bytes of no"):
        array[:1]
