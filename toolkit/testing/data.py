"""Small data that a model can learn, written to files: images, tables, images with masks."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Tuple

import numpy as np


def write_digits(
    path: Any, count: int = 96, shape: Tuple[int, ...] = (8, 8, 1), classes: int = 3
) -> str:
    """Write small images that a model can learn: class k is brighter in row k.

    The same arguments write the same images.

    Args:
        path: the .npz file to write.
        count: the number of training images; there are a third as many test images.
        shape: of an image, [H, W, C] in pixels; H is at least `classes`.
        classes: the number of classes.

    Returns:
        The value of `--data` that names the file.
    """
    random = np.random.RandomState(0)

    def make(n: int) -> Tuple[np.ndarray, np.ndarray]:
        labels = np.arange(n) % classes
        images = random.randint(0, 60, (n,) + tuple(shape))
        images[np.arange(n), labels] += 150
        return images.astype(np.uint8), labels.astype(np.int64)

    (x_train, y_train), (x_test, y_test) = make(count), make(count // 3)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return f"npz:{path}"


def write_table(path: Any, count: int = 96, numbers: int = 3) -> str:
    """Write a table of numbers and a target, a float that is linear in them.

    Args:
        path: the .csv file to write.
        count: the number of rows.
        numbers: the number of columns besides the target.

    Returns:
        The value of `--data` that names the file. The column `target` is found by its name.
    """
    values = np.random.RandomState(0).uniform(-1, 1, (count, numbers)).round(4)
    target = values.dot(np.arange(1, numbers + 1)) + 0.5
    with open(str(path), "w", encoding="utf-8") as file:
        file.write(",".join([f"number{i}" for i in range(numbers)] + ["target"]) + "\n")
        for row, label in zip(values, target):
            file.write(",".join(f"{value:.4f}" for value in [*row, label]) + "\n")
    return f"table:{path}"


def write_pairs(folder: Any, count: int = 24, size: int = 8, classes: int = 3) -> str:
    """Write images with masks: the class of a pixel is a function of its brightness.

    Args:
        folder: to be created; it gets the folders `images` and `masks`.
        count: the number of pairs.
        size: of the sides of an image, in pixels.
        classes: the number of classes of a pixel.

    Returns:
        The value of `--data` that names the folder.
    """
    from PIL import Image

    random = np.random.RandomState(0)
    for name in ("images", "masks"):
        os.makedirs(os.path.join(str(folder), name))
    for number in range(count):
        mask = random.randint(0, classes, (size, size)).astype(np.uint8)
        image = mask * (200 // classes) + random.randint(0, 30, mask.shape)
        for name, array in (("images", image), ("masks", mask)):
            path = os.path.join(str(folder), name, f"{number:03}.png")
            Image.fromarray(array.astype(np.uint8)).save(path)
    return f"pairs:{folder}"


def write_unlabelled(path: Any, count: int = 96, shape: Tuple[int, ...] = (8, 8, 1)) -> str:
    """Write the images of `write_digits` without their labels.

    Args:
        path: the .npz file to write.
        count: the number of training images.
        shape: of an image, [H, W, C] in pixels.

    Returns:
        The value of `--data` that names the file.
    """
    write_digits(path, count, shape)
    with np.load(path) as arrays:
        images = {name: arrays[name] for name in ("x_train", "x_test")}
    np.savez(path, **images)
    return f"npz:{path}"


# Kinds of data for a plugin to be checked on: name -> a function from a path without suffix to the
# value of `--data`.
SYNTHETIC_DATA: Dict[str, Callable[[str], str]] = {
    "images": lambda path: write_digits(path + ".npz"),
    "colour-images": lambda path: write_digits(path + ".npz", shape=(32, 32, 3)),
    "unlabelled-images": lambda path: write_unlabelled(path + ".npz"),
    "table": lambda path: write_table(path + ".csv"),
    "pairs": write_pairs,
}
