"""Data sets of the GAN league that have to be prepared: emoji from an npm package, MNIST without
labels.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import tempfile

import numpy as np

from toolkit import atomic_write, open_data

PACKAGE = "emoji-datasource-google@16.0.0"  # of npm; pictures of Noto Emoji, 64 pixels
SPLITS = ("train", "test")


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
        folder: of the files.
        path: is complete when it exists.
    """
    if not os.path.exists(path):
        examples = open_data("gan", {"data": f"idx:{folder}", "validation_share": 0.0})
        arrays = {f"x_{name}": examples.split(name).take(slice(None))[0] for name in SPLITS}
        with atomic_write(path) as file:
            np.savez(file, **arrays)
