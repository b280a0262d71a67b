"""Data sets of the GAN league that have to be prepared: emoji from an npm package, MNIST without
labels.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import tarfile
import tempfile

import numpy as np

PACKAGE = "emoji-datasource-google@16.0.0"  # of npm; pictures of Noto Emoji, 64 pixels
_IDX_HEADER = 16  # bytes, of files of images


def prepare_emoji(folder: str) -> None:
    """Get the package with npm, and write its pictures as FOLDER/CATEGORY/CODE.png.

    Args:
        folder: is complete when it exists.
    """
    if os.path.isdir(folder):
        return
    with tempfile.TemporaryDirectory() as download:
        command = ["npm", "pack", PACKAGE, "--silent"]
        subprocess.run(command, cwd=download, check=True, stdout=subprocess.DEVNULL)
        (name,) = os.listdir(download)
        with tarfile.open(os.path.join(download, name)) as package:
            members = {member.name: member for member in package.getmembers()}
            for emoji in json.load(package.extractfile(members["package/emoji.json"])):
                name = f"package/img/google/64/{emoji['image']}"
                if emoji["category"] == "Component" or name not in members:
                    continue
                place = os.path.join(f"{folder}.partial", re.sub(r"\W+", "-", emoji["category"]))
                os.makedirs(place, exist_ok=True)
                with open(os.path.join(place, f"{emoji['unified'].lower()}.png"), "wb") as file:
                    file.write(package.extractfile(members[name]).read())
    os.rename(f"{folder}.partial", folder)


def remove_labels(folder: str, path: str) -> None:
    """Write the images of MNIST's four files, of which two have labels, to an npz file.

    Args:
        folder: of train-images-idx3-ubyte and t10k-images-idx3-ubyte, or of these with .gz.
        path: is complete when it exists.
    """
    if os.path.exists(path):
        return
    arrays = {
        "x_train": _read_images(folder, "train-images-idx3-ubyte"),
        "x_test": _read_images(folder, "t10k-images-idx3-ubyte"),
    }
    with open(path + ".partial", "wb") as file:
        np.savez(file, **arrays)
    os.rename(path + ".partial", path)


def _read_images(folder: str, name: str) -> np.ndarray:
    """uint8 [N, H, W, 1] from an idx file."""
    path = os.path.join(folder, name)
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz") as file:
        content = file.read()
    shape = np.frombuffer(content[4:_IDX_HEADER], ">i4")
    return np.frombuffer(content[_IDX_HEADER:], np.uint8).reshape(*shape, 1)
