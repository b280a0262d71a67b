"""The names of arrays in an .npz file: which are features and labels, and of which split.

    x_train, y_train                    the examples of a split, and their labels
    train_images, train_labels          the same
    x_train_left, x_train_right         features with the names left and right; labels likewise
    x, y; images, labels; features, labels
                                        all examples, of which some are held out

Upper and lower case are the same.
"""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence, Tuple

from ...errors import DataError

HINT = "Save it with numpy.savez(file, x_train=..., y_train=..., x_test=..., y_test=...)."
_SPLITS = {
    "train": ("train",),
    "validation": ("validation", "val", "valid"),
    "test": ("test",),
}
_SPLIT_PREFIXES = (("x_{}", "y_{}"), ("{}_images", "{}_labels"), ("{}_x", "{}_y"))
_WHOLE_PREFIXES = (("images", "labels"), ("features", "labels"), ("x", "y"))

Keys = Mapping[str, str]  # the key of an array by the name of the component; "" for a single one
Pair = Tuple[Keys, Keys]  # of the features of a split, and of its labels: empty for no labels


def find_keys(path: str, names: Sequence[str]) -> Dict[str, Pair]:
    """Split name -> the keys of its arrays; always with "train".

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
    splits = {}
    for split, words in _SPLITS.items():
        patterns = [(x.format(word), y.format(word)) for word in words for x, y in _SPLIT_PREFIXES]
        keys = _find_pair(key_of, patterns)
        if keys is not None:
            splits[split] = keys
    if "train" not in splits:
        keys = _find_pair(key_of, _WHOLE_PREFIXES)
        if keys is None:
            raise DataError(
                f"{path}: expected the array x_train, images, features or x, found "
                f"{', '.join(sorted(names)) or 'no array'}.",
                hint=HINT,
            )
        splits["train"] = keys
    return splits


def _find_pair(key_of: Mapping[str, str], prefixes: Sequence[Tuple[str, str]]) -> Optional[Pair]:
    """The keys of the first pair of prefixes that names features."""
    for features, labels in prefixes:
        keys = _with_prefix(key_of, features)
        if keys:
            return keys, _with_prefix(key_of, labels)
    return None


def _with_prefix(key_of: Mapping[str, str], prefix: str) -> Keys:
    """The array of a name, or else those of names that continue it."""
    if prefix in key_of:
        return {"": key_of[prefix]}
    start = prefix + "_"
    words = [word for group in _SPLITS.values() for word in group]
    return {
        key[len(start) :]: key
        for name, key in key_of.items()
        if name.startswith(start) and name[len(start) :].split("_")[0] not in words
    }
