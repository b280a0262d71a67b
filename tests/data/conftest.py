"""Fixtures that write tiny data sets."""

import os
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.dirname(__file__))

from data_fixtures import NUM_IMAGES, gzip_bytes, idx_bytes, numbered_images  # noqa: E402


@pytest.fixture
def idx_folder(tmp_path):
    """A folder of four IDX files: 20 training and 6 test images of 4x4, labels i mod 5."""

    def write(compress=False):
        folder = tmp_path / "idx"
        folder.mkdir(exist_ok=True)
        for name, count in (("train", 20), ("t10k", 6)):
            for kind, array in (
                ("images-idx3", numbered_images(count)),
                ("labels-idx1", (np.arange(count) % 5).astype(np.uint8)),
            ):
                content = gzip_bytes(idx_bytes(array)) if compress else idx_bytes(array)
                ending = ".gz" if compress else ""
                (folder / f"{name}-{kind}-ubyte{ending}").write_bytes(content)
        return str(folder)

    return write


@pytest.fixture
def tree(tmp_path):
    """`tree({"a/1.png": image, "b": b"text"})`: a folder with these files; returns its path."""

    def write(files):
        for name, content in files.items():
            path = tmp_path / "tree" / name
            os.makedirs(str(path.parent), exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                content.save(str(path))
        return str(tmp_path / "tree")

    return write


@pytest.fixture
def paths(tmp_path):
    """Files of 3 x 2 pixels; the pixels of file i are i."""
    from PIL import Image

    folder = tmp_path / "images"
    folder.mkdir()
    paths = [str(folder / f"{i:02}.png") for i in range(NUM_IMAGES)]
    for i, path in enumerate(paths):
        Image.new("L", (3, 2), i).save(path)
    return paths


@pytest.fixture
def reads(monkeypatch):
    """The paths of images that were decoded."""
    from toolkit.data.images import image_files

    paths = []
    read_image = image_files.read_image

    def record(path, form):
        paths.append(path)
        return read_image(path, form)

    monkeypatch.setattr(image_files, "read_image", record)
    return paths
