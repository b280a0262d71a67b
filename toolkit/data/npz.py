"""`npz:FILE`: arrays that numpy saved, under the names in use, never unpickled."""

from __future__ import annotations

import os
import warnings
import zipfile
from typing import Dict, Optional, Tuple

import numpy as np

from ..errors import DataError
from .examples import Dataset, Split, check_label_range, describe, hold_out

SPLIT_KEYS = {
    "train": (("x_train", "y_train"),),
    "validation": (("x_validation", "y_validation"), ("x_val", "y_val"), ("x_valid", "y_valid")),
    "test": (("x_test", "y_test"),),
}
WHOLE_KEYS = (("images", "labels"), ("features", "labels"), ("x", "y"))
_HINT = "Save it with numpy.savez(file, x_train=..., y_train=..., x_test=..., y_test=...)."


def open_npz(path: str, validation_share: float = 0.1) -> Dataset:
    """The data set in an .npz file; labels may be missing in all of its splits."""
    splits = {name: _split(path, name, pair) for name, pair in _load(path).items()}
    _check_alike(path, splits)
    labelled = [split.labels for split in splits.values() if split.labels is not None]
    count = 1 + max((int(labels.max()) for labels in labelled), default=-1)
    for labels in labelled:
        check_label_range(labels, count, path)
    spec = describe(splits["train"], num_classes=count)
    files = {os.path.basename(path): path}
    return Dataset("npz:" + path, spec, hold_out(splits, validation_share), files)


def read_arrays(path: str) -> Dict[str, np.ndarray]:
    """Every array of an .npz file by its name, uint8 or float32; DataError where one cannot be
    used.
    """
    with _opened(path) as stored:
        return {key: _array(path, stored, key) for key in stored.files}


def _load(path: str) -> Dict[str, Tuple[np.ndarray, Optional[np.ndarray]]]:
    with _opened(path) as stored:
        return {name: _pair(path, stored, keys) for name, keys in _keys(path, stored.files).items()}


def _opened(path: str):
    if not os.path.isfile(path):
        raise DataError(f"{path}: expected an .npz file, found none.", hint=_HINT)
    try:
        zipfile.ZipFile(path).close()
        stored = np.load(path, allow_pickle=False)
    except Exception as error:  # damaged bytes may lead zipfile and numpy to any
        raise _not_npz(path, error) from error
    if isinstance(stored, np.ndarray):  # with a zip file behind it
        raise _not_npz(path, ValueError("one array"))
    return stored


def _not_npz(path: str, error: Exception) -> DataError:
    with open(path, "rb") as file:
        start = file.read(4)
    found = (
        "nothing" if not start else f"bytes {' '.join(f'{byte:02x}' for byte in bytearray(start))}"
    )
    if start == b"\x93NUM":
        found = "one array of an .npy file"
    if start == b"PK\x03\x04":
        found = f"a damaged zip file ({_reason(error)})"
    return DataError(f"{path}: expected an .npz file, found {found}.", hint=_HINT)


def _keys(path: str, present) -> Dict[str, Tuple[str, str]]:
    found = {}
    for split, pairs in SPLIT_KEYS.items():
        for features, labels in pairs:
            if features in present:
                found.setdefault(split, (features, labels))
    if "train" not in found:
        for features, labels in WHOLE_KEYS:
            if features in present:
                found.setdefault("train", (features, labels))
    if "train" not in found:
        raise DataError(
            f"{path}: expected the array x_train, images, features or x, found "
            f"{', '.join(sorted(present)) or 'no array'}.",
            hint=_HINT,
        )
    return found


def _pair(path: str, stored, keys: Tuple[str, str]):
    features = _array(path, stored, keys[0])
    labels = _array(path, stored, keys[1]) if keys[1] in stored.files else None
    return features, labels


def _array(path: str, stored, key: str) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files from Python 2, which are as good
            array = stored[key]
    except Exception as error:  # of zipfile, of what unpacks, of numpy: any may be met
        if "allow_pickle" in str(error) or "pickled" in str(error):
            raise DataError(
                f"{path}: expected numbers in '{key}', found Python objects.",
                hint="Save arrays of one shape and a number type.",
            ) from error
        raise DataError(
            f"{path}: expected the array '{key}', found {_reason(error)}.",
            hint="The file is damaged; copy it again.",
        ) from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: expected the array '{key}', found a file.", hint=_HINT)
    return array


def _reason(error: Exception) -> str:
    """The start of the first line of an error."""
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__


def _split(path: str, name: str, pair) -> Split:
    features, labels = pair
    where = f"{path} ({name})"
    if not features.shape or not len(features):
        raise DataError(f"{where}: expected one example or more, found none.", hint=_HINT)
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]  # Keras's CIFAR keeps them as a column
    if labels is not None and labels.ndim and len(labels) != len(features):
        raise DataError(
            f"{where}: expected {len(features)} labels, one for each example, found {len(labels)}.",
            hint="Save features and labels that belong together.",
        )
    try:
        split = Split(features, labels)
    except DataError as error:
        raise DataError(f"{where}: {error.message}", hint=error.hint) from None
    check_finite(split.features, where)
    return split


def check_finite(features: np.ndarray, source: str) -> None:
    """Raise a DataError that names the first example with a value that is not finite."""
    if features.dtype.kind != "f":
        return
    for start in range(0, len(features), 4096):
        part = np.isfinite(features[start : start + 4096])
        if not part.all():
            bad = start + int(np.flatnonzero(~part.reshape(len(part), -1).all(axis=1))[0])
            raise DataError(
                f"{source}: expected finite numbers, found NaN or infinity in example {bad}.",
                hint="Repair or remove that example.",
            )


def _check_alike(path: str, splits: Dict[str, Split]) -> None:
    train = splits["train"]
    for name, split in splits.items():
        found = (split.shape, split.dtype, split.labels is not None)
        if found != (train.shape, train.dtype, train.labels is not None):
            raise DataError(
                f"{path}: expected examples {train.dtype} "
                f"{list(train.shape)}{_labelled(train)} in '{name}' as in 'train', found "
                f"{split.dtype} {list(split.shape)}{_labelled(split)}.",
                hint="Save splits that look alike.",
            )


def _labelled(split: Split) -> str:
    return "" if split.labels is not None else " without labels"
