"""Grids of images."""

import os

import numpy as np
import pytest
from PIL import Image

from toolkit.display.grid import save_grid
from toolkit.errors import UsageError


def grid(images, **more):
    """The pixels of a grid."""
    save_grid("grid.png", images, **more)
    with Image.open("grid.png") as picture:
        return np.asarray(picture)


def test_images_lie_row_by_row(here):
    images = np.arange(1, 4, dtype=np.uint8).reshape(3, 1, 1, 1)
    assert grid(images, columns=2, padding=1).tolist() == [
        [0, 0, 0, 0, 0],
        [0, 1, 0, 2, 0],
        [0, 0, 0, 0, 0],
        [0, 3, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]


def test_floats_from_0_to_1_become_0_to_255_and_others_are_clipped(here):
    images = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan], np.float32).reshape(6, 1, 1, 1)
    assert grid(images, columns=6, padding=0).ravel().tolist() == [0, 0, 128, 255, 255, 0]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_png_is_written_without_a_temporary_file_left(tmp_path, channels):
    path = str(tmp_path / "new" / "sheet.png")
    save_grid(path, np.full((5, 8, 8, channels), 200, np.uint8), labels=range(5))
    with Image.open(path) as picture:
        assert picture.size == (3 * 10 + 2, 2 * (8 + 12 + 2) + 2)
        assert len(picture.getbands()) == channels
    assert os.listdir(str(tmp_path / "new")) == ["sheet.png"]


def test_captions_may_have_any_letters(here):
    assert grid(np.zeros((2, 20, 20, 1), np.uint8), labels=["\u732b", "\u0141o\u015b"]).any()


@pytest.mark.parametrize("shape", [(0, 4, 4, 1), (2, 4, 4, 2), (2, 4)])
def test_other_shapes_than_those_of_images_are_refused(shape):
    with pytest.raises(UsageError, match="expected .N, H, W, C"):
        save_grid("grid.png", np.zeros(shape, np.uint8))
