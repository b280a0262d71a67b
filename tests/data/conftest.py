"""Fixtures that write tiny data sets."""

import gzip
import os
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.dirname(__file__))

from data_fixtures import idx_bytes, numbered_images  # noqa: E402


@pytest.fixture
def idx_folder(tmp_path):
    """A folder of four IDX files: 20 training and 6 test images of 4x4, labels i mod 5."""

    def write(compress=False, train=20, test=6):
        folder = tmp_path / "idx"
        folder.mkdir(exist_ok=True)
        for name, count in (("train", train), ("t10k", test)):
            for kind, array in (
                ("images-idx3", numbered_images(count)),
                ("labels-idx1", (np.arange(count) % 5).astype(np.uint8)),
            ):
                path = str(folder / f"{name}-{kind}-ubyte")
                content = idx_bytes(array)
                with open(path + (".gz" if compress else ""), "wb") as file:
                    file.write(gzip.compress(content) if compress else content)
        return str(folder)

    return write


@pytest.fixture
def image_folder(tmp_path):
    """A folder of PNGs by class: `{"cat": 3}` -> cat/0.png to cat/2.png, with pixels 0 to 2.

    The second class has pixels from 100 on, and so forth.
    """
    from PIL import Image

    def write(counts, size=(4, 4), mode="L", root="images"):
        for number, (name, count) in enumerate(counts.items()):
            folder = tmp_path / root / name
            os.makedirs(str(folder), exist_ok=True)
            for i in range(count):
                value = 100 * number + i
                Image.new(mode, size, value if mode == "L" else (value, 0, 0)).save(
                    str(folder / f"{i}.png")
                )
        return str(tmp_path / root)

    return write
