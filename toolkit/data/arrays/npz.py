"""`npz:FILE`: arrays saved by numpy; nothing is unpickled. Their names say what they are:

    x_train, y_train                    the examples of a split, and their labels
    train_images, train_labels          the same
    x_train_left, x_train_right         features with the names left and right; labels likewise
    x, y; images, labels; features, labels
                                        all examples, of which some are held out

Upper and lower case are the same. The type of labels says whether they are classes:

    integers [N] or [N, 1], texts, bool [N]    one class for each example
    integers of higher rank                    classes, such as label images
    integers [N, L] of 0 and 1 alone           values: a vector for each example
    floats, bool of higher rank                values

Legend: N examples of a split, L labels of each.
"""

from __future__ import annotations

import itertools
import os
import warnings
import zipfile
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from ...errors import DataError, join_names
from ..column import MAX_CLASSES, VOID, Column, first_not_finite
from ..examples import Dataset, Split, check_alike, describe
from ..held_out import hold_out
from ..reading_options import Settings
from ..structure import FEATURES

_HINT = "Save it with numpy.savez(file, x_train=..., y_train=..., x_test=..., y_test=...)."
_WORDS = {"train": ("train",), "validation": ("validation", "val", "valid"), "test": ("test",)}
_PREFIXES = (("x_{}", "y_{}"), ("{}_images", "{}_labels"), ("{}_x", "{}_y"))
_WHOLE_PREFIXES = (("images", "labels"), ("features", "labels"), ("x", "y"))
_SPLIT_WORDS = [word for group in _WORDS.values() for word in group]
CLASS, VALUE = "class", "value"
_TOO_LARGE = 2.0**62  # for a class that is stored as a float: near the end of int64

Keys = Mapping[str, str]  # the key of an array by the name of the component; "" for a single one


def open_npz(settings: Settings) -> Dataset:
    """Open an .npz file as a data set; either all splits have labels or none has."""
    path, index = settings.path, settings.files
    with _open(path) as file:
        pairs = _find_keys(path, file.files)
        names = [name for pair in pairs.values() for keys in pair for name in keys.values()]
        arrays = {name: _read_array(path, file, name) for name in names}
        unused = sorted(set(file.files) - set(names))
    splits, label_notes = make_splits(path, arrays, settings.columns.label_kind)
    notes = [f"Arrays that are not read: {join_names(unused, 10)}."] if unused else []
    name = os.path.basename(path)
    hashes = {name: index.digests([path])[0]}
    spec = describe(splits["train"])
    splits = hold_out(splits, settings.shares, index=index, files=list(hashes.values()))
    return Dataset("npz:" + path, spec, splits, {name: path}, notes + label_notes, hashes)


def make_splits(
    source: str, arrays: Mapping[str, np.ndarray], label_kind: str = "auto"
) -> Tuple[Dict[str, Split], List[str]]:
    """The splits of arrays by the names of an .npz file, and sentences on what their labels are:
    "class", "value", or with "auto" what their types say. Raises a DataError that names the source
    if the arrays are no examples.
    """
    pairs = _find_keys(source, list(arrays))
    labels: Dict[str, Dict[str, Column]] = {}  # by split, and by name of the component
    notes: List[str] = []
    for name in sorted({name for _, keys in pairs.values() for name in keys}):
        by_split = {s: arrays[keys[name]] for s, (_, keys) in pairs.items() if name in keys}
        columns, note = _read_labels(source, by_split, label_kind)
        notes += note
        for split, column in columns.items():
            labels.setdefault(split, {})[name] = column
    splits = {}
    for split, (keys, _) in pairs.items():
        features = {name: arrays[key] for name, key in keys.items()}
        splits[split] = _make_split(f"{source} ({split})", features, labels.get(split, {}))
    check_alike(splits, source)
    for key, component in splits["train"].components.items():
        height, *sides = [side or 0 for side in component.shape] or [0]
        if key.startswith(FEATURES) and len(sides) == 2 and height in (1, 3, 4) and min(sides) > 4:
            notes.append(
                f"Images {list(component.shape)} are {height} high, with {sides[1]} channels; if "
                "the channels come first, give x.transpose(0, 2, 3, 1)."
            )
    return splits, notes


def _make_split(source: str, features: Dict[str, np.ndarray], labels: Dict[str, Column]) -> Split:
    """The split of features and labels, both by the name of the component."""
    if not all(array.shape and len(array) for array in features.values()):
        message = f"{source}: expected one example or more, found none."
        raise DataError(message, hint="Give examples.")
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


# ------------------------------------------------------------------------------------------- labels


def _read_labels(
    path: str, arrays: Dict[str, np.ndarray], kind: str
) -> Tuple[Dict[str, Column], List[str]]:
    """The labels of each split as columns, and sentences on what they are, if that is not clear."""
    arrays = {  # without a last axis of size 1: a column, or the channel of label images
        split: array[..., 0] if array.ndim in (2, 4) and array.shape[-1] == 1 else array
        for split, array in arrays.items()
    }
    first = next(iter(arrays.values()))
    nouns = {"S": "texts", "U": "texts", "b": "truth values"}
    types = {split: nouns.get(array.dtype.kind, "numbers") for split, array in arrays.items()}
    if len(set(types.values())) > 1:
        found = " and ".join(f"{text} in '{split}'" for split, text in types.items())
        raise DataError(
            f"{path}: expected labels of one type in all splits, found {found}.",
            hint="Save the labels of all splits as numbers, as texts or as truth values.",
        )
    names: Tuple[str, ...] = ()
    notes: List[str] = []
    if first.dtype.kind in "SU":
        arrays, names = _number_texts(path, arrays, kind)
        kind = CLASS
    elif first.dtype.kind == "b" and first.ndim == 1 and kind != VALUE:
        kind, names = CLASS, ("False", "True")
        arrays = {split: array.astype(np.int32) for split, array in arrays.items()}
    else:
        for split, array in arrays.items():
            if array.dtype.kind not in "fiub":
                raise DataError(
                    f"{path} ({split}): expected numbers or texts as labels, found {array.dtype}.",
                    hint="Save classes as integers or texts, and values as floats.",
                )
        if kind == "auto":
            are_integers = all(array.dtype.kind in "iu" for array in arrays.values())
            are_vectors = all(array.ndim == 2 and array.shape[1] > 1 for array in arrays.values())
            are_binary = are_vectors and all(np.isin(a, (0, 1)).all() for a in arrays.values())
            kind = CLASS if are_integers and not are_binary else VALUE
        if kind == VALUE:
            are_whole = all((array == np.rint(array)).all() for array in arrays.values())
            if first.dtype.kind == "f" and first.ndim == 1 and are_whole:
                fact = "The labels are floats and so values"
                notes = [f"{fact}; --label-kind class makes whole numbers classes."]
            with np.errstate(over="ignore"):  # too large for float32: infinity, refused later
                arrays = {split: array.astype(np.float32) for split, array in arrays.items()}
        else:
            for split, array in arrays.items():
                floats = array.reshape(-1) if array.dtype.kind == "f" else np.zeros(0)
                wrong = floats[(floats != np.rint(floats)) | ~(np.abs(floats) < _TOO_LARGE)]
                if wrong.size:
                    raise DataError(
                        f"{path} ({split}): expected classes, found the label {wrong[0]:g}.",
                        hint="Save integers from 0, or set --label-kind value.",
                    )
                arrays[split] = array.astype(np.int64) if array.dtype.kind in "fb" else array
    count = len(names)
    if kind == CLASS and not names:
        has_void = first.dtype == np.uint8 and first.ndim > 1
        numbers = [array[array != VOID] if has_void else array for array in arrays.values()]
        count = min(MAX_CLASSES, 1 + max(int(array.max(initial=0)) for array in numbers))
    return {split: Column(array, kind, count, names) for split, array in arrays.items()}, notes


def _number_texts(
    path: str, arrays: Dict[str, np.ndarray], kind: str
) -> Tuple[Dict[str, np.ndarray], Tuple[str, ...]]:
    """Texts as class numbers, in the order of the texts, and the texts without spaces around."""
    if kind == VALUE:
        message = f"{path}: expected labels that are values, found texts."
        raise DataError(message, hint="Save them as floats.")
    texts = {}
    for split, array in arrays.items():
        if array.dtype.kind == "S":  # of no texts, older versions of numpy decode floats
            array = np.char.decode(array, "utf-8", "replace").astype(str)
        texts[split] = np.char.strip(array)
    names = np.unique(np.concatenate([array.reshape(-1) for array in texts.values()]))
    numbers = {split: np.searchsorted(names, array) for split, array in texts.items()}
    return numbers, tuple(names.tolist())


# ------------------------------------------------------------------------------------------- names


def _find_keys(path: str, names: Sequence[str]) -> Dict[str, Tuple[Keys, Keys]]:
    """Split name -> the keys of its features and of its labels; always with "train"."""
    key_of: Dict[str, str] = {}
    twins: Dict[str, str] = {}  # by the name of which they have the letters
    for name in names:
        if key_of.setdefault(name.lower(), name) != name:
            twins[key_of[name.lower()]] = name
    pairs: Dict[str, Tuple[Keys, Keys]] = {}
    for split, words in _WORDS.items():
        prefixes = [(x.format(word), y.format(word)) for word in words for x, y in _PREFIXES]
        whole = _WHOLE_PREFIXES if split == "train" else ()
        for features, labels in [*prefixes, *whole]:
            others = _SPLIT_WORDS if (features, labels) in whole else ()
            keys = _with_prefix(key_of, features, others)
            if keys:
                pairs[split] = keys, _with_prefix(key_of, labels, others)
                break
    if "train" not in pairs:
        raise DataError(
            f"{path}: expected the array x_train, images, features or x, found "
            f"{', '.join(sorted(names)) or 'no array'}.",
            hint=_HINT,
        )
    for keys in itertools.chain(*pairs.values()):
        for name in twins.keys() & set(keys.values()):
            raise DataError(
                f"{path}: the arrays {name} and {twins[name]} differ in case alone.",
                hint="Rename one of them.",
            )
    return pairs


def _with_prefix(key_of: Mapping[str, str], prefix: str, words: Sequence[str]) -> Keys:
    """The array of a name, or else those of names that continue it, by none of the words."""
    if prefix in key_of:
        return {"": key_of[prefix]}
    start = prefix + "_"
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
    with open(path, "rb") as file:
        start = file.read(4)
    if start == b"\x93NUM":
        found = "one array of an .npy file"
    elif not start.startswith(b"PK"):
        found = f"bytes {' '.join(f'{byte:02x}' for byte in start)}" if start else "nothing"
    else:
        try:
            zipfile.ZipFile(path).close()  # for a damaged one, old NumPy prints an error as well
            return np.load(path, allow_pickle=False)
        except Exception as error:  # damaged bytes can make zipfile and numpy raise anything
            found = f"a damaged zip file ({_reason(error)})"
    raise DataError(f"{path}: expected an .npz file, found {found}.", hint=_HINT)


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
