"""What a source hands over: splits of examples, what they look like, and how splits are held out.

Legend: N examples of a split, M examples of the array or file behind it, ... the shape of one
example, H height, W width, C channels.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import DataError, UsageError
from ..files import sha256_of

Arrays = Tuple[np.ndarray, Optional[np.ndarray]]  # features [n, ...], labels [n]
Progress = Callable[[str, int, int], None]  # (file, bytes done, total bytes or 0 if unknown)
MAX_CLASSES = 1 << 20


class RecordFiles(NamedTuple):
    """The two files behind a split, as fixed-length records, for reading without loading."""

    features: str
    labels: Optional[str]
    feature_header: int  # bytes before the first record
    label_header: int
    feature_dtype: str  # "uint8", or ">f4": float32, high byte first
    label_dtype: str  # "uint8", or ">i4"
    feature_compression: str = ""  # "" or "GZIP", as tf.data names it
    label_compression: str = ""


class DataSpec(NamedTuple):
    """What one example looks like. Cannot be changed."""

    shape: Tuple[int, ...]  # (H, W, C) of images
    dtype: str  # as stored: "uint8", which reaches the graph as x / 255, or "float32"
    num_classes: int = 0  # 0: unlabelled
    class_names: Tuple[str, ...] = ()
    class_counts: Tuple[int, ...] = ()  # training examples of each class, where they were counted

    @classmethod
    def from_json(cls, values: dict) -> DataSpec:
        """The inverse of `_asdict` across JSON, which has no tuples."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


class Split:
    """N examples with their labels.

    features: uint8 [M, H, W, C] or [M, H, W] images, other uint8 [M, ...], or floats [M, ...] (kept
        as float32); an array or a memory map, which stays on disk until it is asked for.
    labels: integers [M], each at least 0 and below MAX_CLASSES, or None.
    index: the positions in `features` and `labels` that belong to this split, or None for all of
        them.
    files: where the M records lie on disk, if they do.
    Raises DataError where the arrays do not fit together.
    """

    def __init__(self, features, labels=None, index=None, files: Optional[RecordFiles] = None):
        self._stored = _checked_features(features)
        self._index = None if index is None else np.asarray(index, np.int64)
        self.labels = _checked_labels(labels, len(self._stored), self._index)
        self.files = files

    def __len__(self) -> int:
        return len(self._stored) if self._index is None else len(self._index)

    @property
    def shape(self) -> Tuple[int, ...]:
        """The shape of one example."""
        return tuple(self._stored.shape[1:])

    @property
    def dtype(self) -> str:
        return "uint8" if self._stored.dtype == np.uint8 else "float32"

    @property
    def nbytes(self) -> int:
        """Bytes of the features of the N examples, loaded."""
        return len(self) * int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def index(self) -> Optional[np.ndarray]:
        """int64 [N]: which of the M stored records these are, or None where it is all of them."""
        return self._index

    @property
    def num_records(self) -> int:
        """M: how many records are stored, in this split or not."""
        return len(self._stored)

    @property
    def features(self) -> np.ndarray:
        """uint8 or float32 [N, ...]; loads them where the split is a part of a larger array."""
        if self._index is None and self._stored.dtype.isnative:
            return self._stored
        return self.take(slice(None))[0]

    def take(self, positions) -> Arrays:
        """Features uint8 or float32 [n, ...] and labels int32 [n] (or None) at `positions`, in
        memory.

        positions: a slice, or integers [n], counted within the split.
        """
        where = positions if self._index is None else self._index[positions]
        features = np.asarray(self._stored[where], dtype=self.dtype)
        return features, None if self.labels is None else self.labels[positions]

    def subset(self, positions) -> Split:
        """The split of the examples at integer `positions`, or under a mask; copies no features."""
        positions = np.asarray(positions)
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        index = positions if self._index is None else self._index[positions]
        part = Split(self._stored, None, index, self.files)
        part.labels = None if self.labels is None else self.labels[positions]
        return part


class Dataset:
    """A named source: its spec, its splits by name, and the files that it was read from.

    splits: "train" always; "validation" and "test" where there are any.
    files: name -> path. `sha256`, name -> hex digits, is computed when first asked for.
    """

    def __init__(self, name: str, spec: DataSpec, splits: Dict[str, Split], files=None):
        self.name = name
        self.spec = spec
        self.splits = dict(splits)
        self.files = dict(files or {})
        self._sha256: Optional[Dict[str, str]] = None

    @property
    def sha256(self) -> Dict[str, str]:
        if self._sha256 is None:
            self._sha256 = {name: sha256_of(path) for name, path in sorted(self.files.items())}
        return self._sha256


def describe(split: Split, class_names=(), num_classes: int = 0) -> DataSpec:
    """The spec of a split; the classes are counted where neither names nor a number are given."""
    if split.labels is None:
        return DataSpec(split.shape, split.dtype)
    count = len(class_names) or num_classes or int(split.labels.max()) + 1
    names = tuple(class_names) or tuple(str(i) for i in range(count))
    return DataSpec(split.shape, split.dtype, count, names)


def check_label_range(labels: Optional[np.ndarray], num_classes: int, source: str) -> None:
    """Raise a DataError that names the first label outside [0, num_classes)."""
    if labels is None or not len(labels):
        return
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(wrong):
        raise DataError(
            f"{source}: expected labels from 0 to {num_classes - 1}, found "
            f"{int(labels[wrong[0]])} at example {int(wrong[0])}.",
            hint="Number the classes from 0.",
        )


def hold_out(splits: Dict[str, Split], validation_share: float) -> Dict[str, Split]:
    """Add the splits that a source lacks: a test split, then a validation split, out of "train".

    The choice is systematic, so it depends on the order of the data alone: the test split takes the
    positions 5 mod 10; validation every k-th of what remains, k = round(1 / share), none at 0.
    """
    if not 0 <= validation_share <= 0.5:
        raise UsageError(
            f"The validation share is {validation_share}, which is not between 0 and 0.5.",
            hint="Give the share of the training examples to hold out, for example 0.1.",
        )
    made = dict(splits)
    if "test" not in made:
        made["train"], made["test"] = _every(made["train"], 10, 5)
    if "validation" not in made and validation_share:
        every = round(1 / validation_share)
        made["train"], made["validation"] = _every(made["train"], every, every - 1)
    return {name: split for name, split in made.items() if len(split)}


def _every(split: Split, every: int, offset: int) -> Tuple[Split, Split]:
    """The split without the positions `offset` mod `every`, and those positions."""
    chosen = np.arange(len(split)) % every == offset
    if chosen.any():
        return split.subset(~chosen), split.subset(chosen)
    return split, split.subset(chosen)


def _checked_features(features) -> np.ndarray:
    array = features if isinstance(features, np.ndarray) else np.asarray(features)
    if array.ndim < 2:
        raise DataError(
            f"Features have shape {list(array.shape)}, expected [N, ...] of rank 2 or more.",
            hint="Put the examples along the first axis.",
        )
    if 0 in array.shape[1:]:
        raise DataError(
            f"Features have shape {list(array.shape)}, expected one value or more in each example.",
            hint="Save arrays that hold something.",
        )
    if array.dtype == np.uint8:
        return array[..., np.newaxis] if array.ndim == 3 else array  # [M, H, W, 1]
    if array.dtype.kind == "f":
        # A memory map of high-byte-first floats stays a map: `take` converts what it reads.
        with np.errstate(over="ignore"):  # becomes infinity, which sources refuse
            return array if array.dtype.itemsize == 4 else array.astype(np.float32)
    raise DataError(
        f"Features are of type {array.dtype}, expected uint8 or a float type.",
        hint="Store images as uint8 from 0 to 255, other features as float32.",
    )


def _checked_labels(labels, count: int, index) -> Optional[np.ndarray]:
    if labels is None:
        return None
    labels = np.asarray(labels)
    if labels.shape != (count,) or labels.dtype.kind not in "iu":
        raise DataError(
            f"Labels are {labels.dtype} {list(labels.shape)}, expected integers [{count}], "
            "one for each example.",
            hint="Give one class number for each example.",
        )
    if index is not None:
        labels = labels[index]
    wrong = np.flatnonzero((labels < 0) | (labels >= MAX_CLASSES))
    if len(wrong):
        raise DataError(
            f"Example {wrong[0]} has label {labels[wrong[0]]}, expected 0 to {MAX_CLASSES - 1}.",
            hint="Number the classes from 0.",
        )
    return labels.astype(np.int32)
