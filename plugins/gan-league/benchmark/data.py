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


def prepare_emoji(folder: str, archive: str = "") -> int:
    """Write the pictures of the package as FOLDER/CATEGORY/CODE.png; return their number.

    Args:
        folder: is complete when it exists.
        archive: the package's file; "" to get it with `npm pack`.
    """
    if os.path.isdir(folder):
        return sum(len(files) for _, _, files in os.walk(folder))
    with tempfile.TemporaryDirectory() as download:
        partial = folder + ".partial"
        with tarfile.open(archive or _pack(download)) as package:
            count = _extract(package, partial)
    os.rename(partial, folder)
    return count


def _pack(folder: str) -> str:
    """Get the package with npm; return its file."""
    command = ["npm", "pack", PACKAGE, "--silent"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (name,) = os.listdir(folder)
    return os.path.join(folder, name)


def _extract(package: tarfile.TarFile, folder: str) -> int:
    """Write each picture into the folder of its category; return their number."""
    members = {member.name: member for member in package.getmembers()}
    count = 0
    for emoji in json.load(package.extractfile(members["package/emoji.json"])):
        name = f"package/img/google/64/{emoji['image']}"
        if emoji["category"] == "Component" or name not in members:
            continue
        place = os.path.join(folder, re.sub(r"\W+", "-", emoji["category"]))
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f"{emoji['unified'].lower()}.png"), "wb") as file:
            file.write(package.extractfile(members[name]).read())
        count += 1
    return count


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
