"""`npz:FILE`: arrays saved by numpy, under the names of `npz_keys`; nothing is unpickled."""

from __future__ import annotations

import os
import warnings
import zipfile
from typing import Any, Dict, Mapping, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..column import first_not_finite
from ..examples import Dataset, Split, check_alike, describe
from ..held_out import hold_out
from ..reading_options import Settings
from .label_arrays import LabelArrays, read_label_arrays
from .npz_keys import HINT, find_keys


def open_npz(settings: Settings) -> Dataset:
    """Open an .npz file as a data set; either all splits have labels or none has.

    Raises:
        DataError: the file cannot be used.
    """
    path, index = settings.path, settings.files
    with _open(path) as file:
        keys = find_keys(path, file.files)
        names = [name for pair in keys.values() for role in pair for name in role.values()]
        arrays = {name: _read_array(path, file, name) for name in names}
        unused = sorted(set(file.files) - set(names))
    splits, labels = make_splits(path, arrays, settings.columns.label_kind)
    only = labels.get("")
    spec = describe(
        splits["train"], only.class_names if only else (), only.num_classes if only else 0
    )
    notes = [f"Arrays that are not read: {', '.join(unused[:10])}."] if unused else []
    notes += [note for each in labels.values() for note in each.notes]
    name = os.path.basename(path)
    hashes = {name: index.digests([path])[0]}
    splits = hold_out(splits, settings.shares, index=index, files=list(hashes.values()))
    return Dataset("npz:" + path, spec, splits, {name: path}, notes, hashes)


def make_splits(
    source: str, arrays: Mapping[str, np.ndarray], label_kind: str = "auto"
) -> Tuple[Dict[str, Split], Dict[str, LabelArrays]]:
    """The splits of arrays, and the labels of all splits by the name of the component.

    Args:
        source: of the arrays, for error messages.
        arrays: by the names of `npz_keys`.
        label_kind: "class", "value", or "auto" for what the types of the labels say.

    Raises:
        DataError: the arrays are no examples.
    """
    parts = {
        split: [{n: arrays[k] for n, k in role.items()} for role in pair]
        for split, pair in find_keys(source, list(arrays)).items()
    }
    labels = {}
    for name in sorted({name for _, each in parts.values() for name in each}):
        by_split = {split: each[name] for split, (_, each) in parts.items() if name in each}
        labels[name] = read_label_arrays(source, by_split, label_kind)
    splits = {name: _make_split(source, name, each, labels) for name, each in parts.items()}
    check_alike(splits, source)
    return splits, labels


def read_arrays(path: str) -> Dict[str, np.ndarray]:
    """Every array of an .npz file by its name. Raises DataError if one cannot be used."""
    with _open(path) as file:
        return {key: _read_array(path, file, key) for key in file.files}


def _open(path: str) -> Any:
    """The NpzFile of a path."""
    if not os.path.isfile(path):
        raise DataError(f"{path}: expected an .npz file, found none.", hint=HINT)
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
    return DataError(f"{path}: expected an .npz file, found {content}.", hint=HINT)


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
        raise DataError(f"{path}: expected the array '{key}', found a file.", hint=HINT)
    return array


def _reason(error: Exception) -> str:
    """The start of the first line of an error."""
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__


def _make_split(
    path: str,
    name: str,
    arrays: Sequence[Dict[str, np.ndarray]],
    labels: Dict[str, LabelArrays],
) -> Split:
    """The split of the arrays of features and of labels, both by the name of the component."""
    source = f"{path} ({name})"
    features, targets = arrays
    for array in features.values():
        if not array.shape or not len(array):
            raise DataError(
                f"{source}: expected one example or more, found none.", hint="Give examples."
            )
    count = len(next(iter(features.values())))
    for array in targets.values():
        if array.ndim and len(array) != count:
            raise DataError(
                f"{source}: expected {count} labels, one per example, found {len(array)}.",
                hint="Give features and labels that belong together.",
            )
    try:
        split = Split(
            _pack(  # truth values are 0 and 1
                {
                    n: array.astype(np.float32) if array.dtype == np.bool_ else array
                    for n, array in features.items()
                }
            ),
            _pack({n: labels[n].column(name) for n in targets}),
        )
    except DataError as error:
        raise DataError(f"{source}: {error.message}", hint=error.hint) from None
    for column in split.columns.values():
        row = first_not_finite(column.values) if column.component.dtype == "float32" else None
        if row is not None:
            raise DataError(
                f"{source}: expected finite numbers, found NaN or infinity in example {row}.",
                hint="Repair or remove that example.",
            )
    return split


def _pack(by_name: Dict[str, Any]) -> Any:
    """A single component, a dict of them by name, or None."""
    return by_name.get("", by_name) if by_name else None
