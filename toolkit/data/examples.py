"""Data sets: splits of examples, and the spec of one example.

Legend: N examples of a split, M records of the array or file behind it, ... the shape of one
example, H height, W width, C channels.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import DataError
from ..files import sha256_of

Arrays = Tuple[np.ndarray, Optional[np.ndarray]]  # features [n, ...], labels [n]
Progress = Callable[[str, int, int], None]  # (file, bytes done, total bytes or 0 if unknown)
MAX_CLASSES = 1 << 20
HASHED_AT_ONCE = 1024  # examples


class RecordFiles(NamedTuple):
    """The two files behind a split, as fixed-length records that can be streamed."""

    features: str  # a path
    labels: Optional[str]  # a path
    feature_header: int  # bytes before the first record
    label_header: int
    feature_dtype: str  # "uint8", or ">f4": big-endian float32
    label_dtype: str  # "uint8", or ">i4"
    feature_compression: str = ""  # "" or "GZIP", as tf.data names it
    label_compression: str = ""


class DataSpec(NamedTuple):
    """Shape, dtype and classes of the examples of a data set."""

    shape: Tuple[int, ...]  # of one example; (H, W, C) for images
    dtype: str  # as stored: "uint8", which reaches the graph as x / 255, or "float32"
    num_classes: int = 0  # 0: no labels
    class_names: Tuple[str, ...] = ()
    class_counts: Tuple[int, ...] = ()  # training examples of each class; empty if not counted
    value_range: Tuple[float, ...] = ()  # lowest and highest training value of float images
    # Mean and standard deviation of the training examples, of each index of the last axis; empty
    # unless the option `normalize` is on. See `toolkit.normalize`.
    mean: Tuple[float, ...] = ()
    deviation: Tuple[float, ...] = ()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> DataSpec:
        """The inverse of `_asdict` after JSON, which has no tuples."""
        fields: Dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**fields)


class Split:
    """N examples with their labels.

    Args:
        features: uint8 [M, H, W, C] or [M, H, W] (images), other uint8 [M, ...], or floats [M, ...]
            (converted to float32). A memory map stays on disk until examples are read.
        labels: integers [M] in [0, MAX_CLASSES), or None.
        index: the records of this split, integers [N], or None for all.
        files: the files of the M records, or None if they are not on disk.

    Attributes:
        labels: int32 [N], or None.
        files: the files of the M records, or None.

    Raises:
        DataError: the arrays do not fit together.
    """

    def __init__(
        self,
        features: Any,
        labels: Any = None,
        index: Any = None,
        files: Optional[RecordFiles] = None,
    ):
        self._records = _check_features(features)
        self._index = None if index is None else np.asarray(index, np.int64)
        self.labels = _check_labels(labels, len(self._records), self._index)
        self.files = files

    def __len__(self) -> int:
        return len(self._records) if self._index is None else len(self._index)

    @property
    def shape(self) -> Tuple[int, ...]:
        """The shape of one example."""
        return tuple(self._records.shape[1:])

    @property
    def dtype(self) -> str:
        """The dtype of the features in memory, "uint8" or "float32"."""
        return "uint8" if self._records.dtype == np.uint8 else "float32"

    @property
    def nbytes(self) -> int:
        """Bytes of the features of the N examples in memory."""
        return len(self) * int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def index(self) -> Optional[np.ndarray]:
        """The records of this split, int64 [N]; None for all M."""
        return self._index

    @property
    def num_records(self) -> int:
        """M, which counts the records outside this split too."""
        return len(self._records)

    @property
    def features(self) -> np.ndarray:
        """uint8 or float32 [N, ...]. Records are copied if the split has an index."""
        if self._index is None and self._records.dtype.isnative:
            return self._records
        return self.take(slice(None))[0]

    def take(self, positions: Any) -> Arrays:
        """Read examples into memory.

        Args:
            positions: a slice of the split, or integers [n].

        Returns:
            features: uint8 or float32 [n, ...].
            labels: int32 [n], or None.
        """
        records = positions if self._index is None else self._index[positions]
        _check_map(self._records)
        features = np.asarray(self._records[records], dtype=self.dtype)
        return features, None if self.labels is None else self.labels[positions]

    def sha256(self) -> str:
        """The SHA-256 of features and labels, hex digits."""
        digest = hashlib.sha256(repr((self.dtype, self.shape, len(self))).encode())
        for start in range(0, len(self), HASHED_AT_ONCE):
            for array in self.take(slice(start, start + HASHED_AT_ONCE)):
                if array is not None:
                    digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def subset(self, positions: Any) -> Split:
        """The split of some of the examples; no features are copied.

        Args:
            positions: integers [n], or a mask, bool [N].
        """
        positions = np.asarray(positions)
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        index = positions if self._index is None else self._index[positions]
        part = Split(self._records, None, index, self.files)
        part.labels = None if self.labels is None else self.labels[positions]
        return part


class Dataset:
    """A named data set with its splits.

    Attributes:
        name: the `--data` value, or another name.
        spec: shape, dtype and classes of the examples.
        splits: by name: "train", and "validation" and "test" if there are any.
        files: name -> path of the files that it was read from.
        notes: sentences on what was changed or looks wrong.

    Args:
        sha256: name -> SHA-256 of each file, if they are known.
    """

    def __init__(
        self,
        name: str,
        spec: DataSpec,
        splits: Mapping[str, Split],
        files: Optional[Mapping[str, str]] = None,
        notes: Sequence[str] = (),
        sha256: Optional[Dict[str, str]] = None,
    ):
        self.name = name
        self.spec = spec
        self.splits = dict(splits)
        self.files = dict(files or {})
        self.notes = list(notes)
        self._sha256 = sha256

    def partition(self) -> str:
        """A hash of which examples are in which split, 64 hex digits."""
        digest = hashlib.sha256()
        for name, split in sorted(self.splits.items()):
            digest.update(f"{name} {len(split)} ".encode())
            if split.index is not None:
                digest.update(np.ascontiguousarray(split.index, "<i8").data)
        return digest.hexdigest()

    @property
    def sha256(self) -> Dict[str, str]:
        """Name -> SHA-256 (hex digits) of each file, computed on first use.

        Of data without files it is split name -> SHA-256 of the content of the split.
        """
        if self._sha256 is None:
            self._sha256 = {name: sha256_of(path) for name, path in sorted(self.files.items())}
        if not self._sha256:
            self._sha256 = {name: split.sha256() for name, split in sorted(self.splits.items())}
        return self._sha256


def describe(split: Split, class_names: Sequence[str] = (), num_classes: int = 0) -> DataSpec:
    """The spec of a split.

    Args:
        split: the examples.
        class_names: in the order of the labels.
        num_classes: K, if there are no names; 0 for the largest label + 1.
    """
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


def _check_features(features: Any) -> np.ndarray:
    """The features as an array of uint8 or float32."""
    array = features if isinstance(features, np.ndarray) else np.asarray(features)
    if array.ndim < 2:
        raise DataError(
            f"Features have shape {list(array.shape)}, expected [N, ...] of rank 2 or more.",
            hint="Put the examples along the first axis.",
        )
    if 0 in array.shape[1:]:
        raise DataError(
            f"Features have shape {list(array.shape)}, expected one value or more in each example.",
            hint="Save arrays without empty dimensions.",
        )
    if array.dtype == np.uint8:
        return array[..., np.newaxis] if array.ndim == 3 else array  # [M, H, W, 1]
    if array.dtype.kind == "f":
        # A memory map of big-endian floats remains a map: `take` converts the part it reads.
        with np.errstate(over="ignore"):  # too large for float32: infinity, which sources refuse
            return array if array.dtype.itemsize == 4 else array.astype(np.float32)
    raise DataError(
        f"Features are of type {array.dtype}, expected uint8 or a float type.",
        hint="Store images as uint8 from 0 to 255, other features as float32.",
    )


def _check_map(records: np.ndarray) -> None:
    """Refuse a memory map whose file has become shorter: reading it would end the process."""
    base: Any = records
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    if base is None or base.filename is None or not os.path.exists(base.filename):
        return  # what is mapped of a removed file stays
    size, expected = os.path.getsize(base.filename), base.offset + base.nbytes
    if size < expected:
        raise DataError(
            f"{base.filename}: expected {expected:,} bytes, found {size:,}: it changed while it "
            "was used.",
            hint="Put the same file back.",
        )


def _check_labels(labels: Any, count: int, index: Optional[np.ndarray]) -> Optional[np.ndarray]:
    """The labels of the records in `index` as int32; there must be `count` labels."""
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
