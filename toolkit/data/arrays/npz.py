"""`npz:FILE`: arrays saved by numpy; nothing is unpickled. Their names say what they are:

    x_train, y_train                    the examples of a split, and their labels
    train_images, train_labels          the same
    x_train_left, x_train_right         features with the names left and right; labels likewise
    x, y; images, labels; features, labels
                                        all examples, of which some are held out

Upper and lower case are the same.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..column import Column, first_not_finite
from ..examples import Dataset, Split, check_alike, describe
from ..held_out import hold_out
from ..reading_options import Settings
from .label_arrays import read_label_arrays

_HINT = "Save it with numpy.savez(file, x_train=..., y_train=..., x_test=..., y_test=...)."
_WORDS = {"train": ("train",), "validation": ("validation", "val", "valid"), "test": ("test",)}
_PREFIXES = (("x_{}", "y_{}"), ("{}_images", "{}_labels"), ("{}_x", "{}_y"))
_WHOLE_PREFIXES = (("images", "labels"), ("features", "labels"), ("x", "y"))

Keys = Mapping[str, str]  # the key of an array by the name of the component; "" for a single one


def open_npz(settings: Settings) -> Dataset:
    """Open an .npz file as a data set; either all splits have labels or none has.

    Raises:
        DataError: the file cannot be used.
    """
    path, index = settings.path, settings.files
    with _open(path) as file:
        pairs = _find_keys(path, file.files)
        names = [name for pair in pairs.values() for keys in pair for name in keys.values()]
        arrays = {name: _read_array(path, file, name) for name in names}
        unused = sorted(set(file.files) - set(names))
    splits, label_notes = make_splits(path, arrays, settings.columns.label_kind)
    notes = [f"Arrays that are not read: {', '.join(unused[:10])}."] if unused else []
    name = os.path.basename(path)
    hashes = {name: index.digests([path])[0]}
    spec = describe(splits["train"])
    splits = hold_out(splits, settings.shares, index=index, files=list(hashes.values()))
    return Dataset("npz:" + path, spec, splits, {name: path}, notes + label_notes, hashes)


def make_splits(
    source: str, arrays: Mapping[str, np.ndarray], label_kind: str = "auto"
) -> Tuple[Dict[str, Split], List[str]]:
    """The splits of arrays, and sentences on what their labels are.

    Args:
        source: of the arrays, for error messages.
        arrays: by the names of an .npz file.
        label_kind: "class", "value", or "auto" for what the types of the labels say.

    Raises:
        DataError: the arrays are no examples.
    """
    pairs = _find_keys(source, list(arrays))
    labels: Dict[str, Dict[str, Column]] = {}  # by split, and by name of the component
    notes: List[str] = []
    for name in sorted({name for _, keys in pairs.values() for name in keys}):
        by_split = {s: arrays[keys[name]] for s, (_, keys) in pairs.items() if name in keys}
        columns, note = read_label_arrays(source, by_split, label_kind)
        notes += note
        for split, column in columns.items():
            labels.setdefault(split, {})[name] = column
    splits = {}
    for split, (keys, _) in pairs.items():
        features = {name: arrays[key] for name, key in keys.items()}
        splits[split] = _make_split(f"{source} ({split})", features, labels.get(split, {}))
    check_alike(splits, source)
    return splits, notes


def _make_split(source: str, features: Dict[str, np.ndarray], labels: Dict[str, Column]) -> Split:
    """The split of features and labels, both by the name of the component."""
    for array in features.values():
        if not array.shape or not len(array):
            raise DataError(
                f"{source}: expected one example or more, found none.", hint="Give examples."
            )
    count = len(next(iter(features.values())))
    for column in labels.values():
        if column.values.ndim and len(column) != count:
            raise DataError(
                f"{source}: expected {count} labels, one per example, found {len(column)}.",
                hint="Give features and labels that belong together.",
            )
    numbers = {  # truth values are 0 and 1
        name: array.astype(np.float32) if array.dtype == np.bool_ else array
        for name, array in features.items()
    }
    try:
        split = Split(numbers.get("", numbers), labels.get("", labels) if labels else None)
        for column in split.columns.values():
            if column.component.kind == "class" and column.component.shape:
                column.take(slice(None))  # refuses what no class is; single ones are read by now
    except DataError as error:
        subject, is_value, _ = error.message.partition(" the value ")
        is_label = bool(is_value) and "abel" in subject
        hint = error.hint + " --label-kind value reads any numbers." * is_label
        raise DataError(f"{source}: {error.message}", hint=hint) from None
    for column in split.columns.values():
        row = first_not_finite(column.values) if column.component.dtype == "float32" else None
        if row is not None:
            raise DataError(
                f"{source}: expected finite numbers, found NaN or infinity in example {row}.",
                hint="Repair or remove that example.",
            )
    return split


# ------------------------------------------------------------------------------------------- names


def _find_keys(path: str, names: Sequence[str]) -> Dict[str, Tuple[Keys, Keys]]:
    """Split name -> the keys of its features and of its labels; always with "train".

    Raises:
        DataError: no array has the name of features, or two names differ in their case alone.
    """
    key_of: Dict[str, str] = {}
    for name in names:
        if key_of.setdefault(name.lower(), name) != name:
            raise DataError(
                f"{path}: the arrays {key_of[name.lower()]} and {name} differ in case alone.",
                hint="Rename one of them.",
            )
    pairs = {}
    for split, words in _WORDS.items():
        prefixes = [(x.format(word), y.format(word)) for word in words for x, y in _PREFIXES]
        whole = _WHOLE_PREFIXES if split == "train" else ()
        for features, labels in [*prefixes, *whole]:
            keys = _with_prefix(key_of, features)
            if keys:
                pairs[split] = keys, _with_prefix(key_of, labels)
                break
    if "train" not in pairs:
        raise DataError(
            f"{path}: expected the array x_train, images, features or x, found "
            f"{', '.join(sorted(names)) or 'no array'}.",
            hint=_HINT,
        )
    return pairs


def _with_prefix(key_of: Mapping[str, str], prefix: str) -> Keys:
    """The array of a name, or else those of names that continue it."""
    if prefix in key_of:
        return {"": key_of[prefix]}
    start = prefix + "_"
    words = [word for group in _WORDS.values() for word in group]
    return {
        key[len(start) :]: key
        for name, key in key_of.items()
        if name.startswith(start) and name[len(start) :].split("_")[0] not in words
    }


# -------------------------------------------------------------------------------------------- file


def read_arrays(path: str) -> Dict[str, np.ndarray]:
    """Every array of an .npz file by its name. Raises DataError if one cannot be used."""
    with _open(path) as file:
        return {key: _read_array(path, file, key) for key in file.files}


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


def _read_array(path: str, file: Any, key: str) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files from Python 2, which are fine
            array = file[key]
    except Exception as error:  # zipfile, the decompressor and numpy can raise anything
        if "allow_pickle" in str(error) or "pickled" in str(error):
            raise DataError(
                f"{path}: expected numbers in '{key}', found Python objects.",
                hint="Save arrays of one shape and a number type, and texts with dtype=str.",
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
