"""Fixtures that write tiny data sets."""

import os

import numpy as np
import pytest
from data_fixtures import NUM_IMAGES, numbered_images
from file_fixtures import write_idx


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of an empty cache, which is not there yet."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def idx_folder(tmp_path):
    """A folder of four IDX files: 20 training and 6 test images of 4x4, labels i mod 5."""
    (tmp_path / "idx").mkdir()
    for name, count in (("train", 20), ("t10k", 6)):
        start = tmp_path / "idx" / name
        write_idx(f"{start}-images-idx3-ubyte", numbered_images(count))
        write_idx(f"{start}-labels-idx1-ubyte", (np.arange(count) % 5).astype(np.uint8))
    return str(tmp_path / "idx")


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
