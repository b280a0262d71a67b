"""`npz:FILE`: arrays saved by numpy, under their usual names; nothing is unpickled."""

from __future__ import annotations

import os
import warnings
import zipfile
from typing import Any, Dict, Iterable, Optional, Tuple

import numpy as np

from ..errors import DataError
from .examples import Arrays, Dataset, Split, check_label_range, describe
from .file_index import FileIndex
from .held_out import DEFAULT_SHARES, Shares, hold_out
from .memory import check_memory

SPLIT_KEYS = {
    "train": (("x_train", "y_train"),),
    "validation": (("x_validation", "y_validation"), ("x_val", "y_val"), ("x_valid", "y_valid")),
    "test": (("x_test", "y_test"),),
}
WHOLE_KEYS = (("images", "labels"), ("features", "labels"), ("x", "y"))
_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,  # its names are UTF-8, and its sizes as in 2.0
}
_HINT = "Save it with numpy.savez(file, x_train=..., y_train=..., x_test=..., y_test=...)."


def open_npz(
    path: str, shares: Shares = DEFAULT_SHARES, index: Optional[FileIndex] = None
) -> Dataset:
    """Open an .npz file as a data set; either all splits have labels or none has.

    Args:
        path: the file.
        shares: of the examples, held out for test and validation.
        index: knows the hash of the file; None to compute it.

    Raises:
        DataError: the file cannot be used.
    """
    splits = {name: _make_split(path, name, arrays) for name, arrays in _read(path).items()}
    _check_alike(path, splits)
    labels = [split.labels for split in splits.values() if split.labels is not None]
    count = 1 + max((int(array.max()) for array in labels), default=-1)
    for array in labels:
        check_label_range(array, count, path)
    spec = describe(splits["train"], num_classes=count)
    index, name = index or FileIndex(), os.path.basename(path)
    hashes = {name: index.digests([path])[0]}
    splits = hold_out(splits, shares, index=index, files=list(hashes.values()))
    return Dataset("npz:" + path, spec, splits, {name: path}, sha256=hashes)


def read_arrays(path: str) -> Dict[str, np.ndarray]:
    """Every array of an .npz file by its name. Raises DataError if one cannot be used."""
    with _open(path) as file:
        _check_sizes(path, file, file.files)
        return {key: _read_array(path, file, key) for key in file.files}


def _read(path: str) -> Dict[str, Arrays]:
    """Split name -> features and labels."""
    with _open(path) as file:
        splits = _find_keys(path, file.files)
        _check_sizes(path, file, [key for keys in splits.values() for key in keys])
        return {name: _read_pair(path, file, keys) for name, keys in splits.items()}


def _open(path: str) -> Any:
    """The NpzFile of a path."""
    if not os.path.isfile(path):
        raise DataError(f"{path}: expected an .npz file, found none.", hint=_HINT)
    try:
        zipfile.ZipFile(path).close()
        file = np.load(path, allow_pickle=False)
    except Exception as error:  # damaged bytes can make zipfile and numpy raise anything
        raise _not_npz_error(path, error) from error
    if isinstance(file, np.ndarray):  # followed by a zip file
        raise _not_npz_error(path, ValueError("one array"))
    return file


def _not_npz_error(path: str, error: Exception) -> DataError:
    with open(path, "rb") as file:
        start = file.read(4)
    content = f"bytes {' '.join(f'{byte:02x}' for byte in start)}" if start else "nothing"
    if start == b"\x93NUM":
        content = "one array of an .npy file"
    if start == b"PK\x03\x04":
        content = f"a damaged zip file ({_reason(error)})"
    return DataError(f"{path}: expected an .npz file, found {content}.", hint=_HINT)


def _find_keys(path: str, names: Iterable[str]) -> Dict[str, Tuple[str, str]]:
    """Split name -> the keys of its features and labels."""
    keys: Dict[str, Tuple[str, str]] = {}
    for split, pairs in SPLIT_KEYS.items():
        for features, labels in pairs:
            if features in names:
                keys.setdefault(split, (features, labels))
    if "train" not in keys:
        for features, labels in WHOLE_KEYS:
            if features in names:
                keys.setdefault("train", (features, labels))
    if "train" not in keys:
        raise DataError(
            f"{path}: expected the array x_train, images, features or x, found "
            f"{', '.join(sorted(names)) or 'no array'}.",
            hint=_HINT,
        )
    return keys


def _read_pair(path: str, file: Any, keys: Tuple[str, str]) -> Arrays:
    features = _read_array(path, file, keys[0])
    labels = _read_array(path, file, keys[1]) if keys[1] in file.files else None
    return features, labels


def _check_sizes(path: str, file: Any, keys: Iterable[str]) -> None:
    """Refuse arrays that do not fit in memory, before one is unpacked.

    The zip file says how many bytes each unpacks to, and gives no more; the header of an array
    must promise as many.
    """
    members = {member.filename: member for member in file.zip.infolist()}
    sizes = 0
    for key in keys:
        member = members.get(key + ".npy", members.get(key))
        if member is None:
            continue  # without labels
        sizes += member.file_size
        expected = _header_size(file.zip, member)
        if expected is not None and expected != member.file_size:
            raise DataError(
                f"{path}: expected {expected:,} bytes for the array '{key}', found "
                f"{member.file_size:,}.",
                hint="The file is damaged; copy it again.",
            )
    check_memory(path, sizes)


def _header_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Optional[int]:
    """The size of a member in bytes by the header of its array; None if it has none that numpy
    can read, or one of Python objects: reading the array says so.
    """
    try:
        with archive.open(member) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files from Python 2, which are fine
            read_header = _HEADER_READERS[np.lib.format.read_magic(stream)]
            shape, _, dtype = read_header(stream)
            start = stream.tell()
    except Exception:  # damaged bytes can make zipfile and numpy raise anything
        return None
    if dtype.hasobject or min(shape, default=0) < 0:
        return None
    count = 1
    for dimension in shape:
        count *= dimension
    return start + count * dtype.itemsize


def _read_array(path: str, file: Any, key: str) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files from Python 2, which are fine
            array = file[key]
    except Exception as error:  # zipfile, the decompressor and numpy can raise anything
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


def _make_split(path: str, name: str, arrays: Arrays) -> Split:
    features, labels = arrays
    source = f"{path} ({name})"
    if not features.shape or not len(features):
        raise DataError(f"{source}: expected one example or more, found none.", hint=_HINT)
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]  # a column, as in Keras's CIFAR
    if labels is not None and labels.ndim and len(labels) != len(features):
        raise DataError(
            f"{source}: expected {len(features)} labels, one per example, found {len(labels)}.",
            hint="Save features and labels that belong together.",
        )
    try:
        split = Split(features, labels)
    except DataError as error:
        raise DataError(f"{source}: {error.message}", hint=error.hint) from None
    check_finite(split.features, source)
    return split


def check_finite(features: np.ndarray, source: str) -> None:
    """Raise a DataError that names the first example with a value that is not finite."""
    if features.dtype.kind != "f":
        return
    for start in range(0, len(features), 4096):
        is_finite = np.isfinite(features[start : start + 4096])
        if not is_finite.all():
            rows = is_finite.reshape(len(is_finite), -1).all(axis=1)
            position = start + int(np.flatnonzero(~rows)[0])
            raise DataError(
                f"{source}: expected finite numbers, found NaN or infinity in example {position}.",
                hint="Repair or remove that example.",
            )


def _check_alike(path: str, splits: Dict[str, Split]) -> None:
    """Raise a DataError unless all splits have one shape and dtype, and all or none have labels."""
    expected = _describe_examples(splits["train"])
    for name, split in splits.items():
        if _describe_examples(split) != expected:
            raise DataError(
                f"{path}: expected examples {expected} in '{name}' as in 'train', found "
                f"{_describe_examples(split)}.",
                hint="Save splits of one shape and dtype.",
            )


def _describe_examples(split: Split) -> str:
    labels = "" if split.labels is not None else " without labels"
    return f"{split.dtype} {list(split.shape)}{labels}"
