"""Data sets: splits of examples, and the spec of one example.

Legend: N examples of a split, M records of the array or file behind it, ... the shape of one
example, H height, W width, C channels.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from ..errors import DataError
from ..files import sha256_of
from .column import VOID, Column, Component, Sequences, describe_shape
from .decoded import as_rows
from .spec import DataSpec
from .structure import FEATURES, LABELS, describe_key, flatten, pack

_CHUNK = 1024  # examples that are read at once, at most
_CHUNK_BYTES = 32 << 20  # of examples that are read at once, unless one is larger
LENGTH = "_length"  # ends the name of the component with the lengths of sequences


def _as_index(index: Any, num_records: int) -> np.ndarray:
    """The numbers of records, int64 [N]. Raises a DataError for what are none."""
    index = np.asarray(index)
    if index.ndim == 1 and (index.dtype.kind in "iu" or not index.size):
        with contextlib.suppress(IndexError):
            return as_rows(index, num_records)
    raise DataError(
        f"The index is {index.dtype} {list(index.shape)}, expected numbers of {num_records} "
        "records, integers [N].",
        hint="Of a mask, give np.flatnonzero(mask).",
    )


class Split:
    """N examples: features, and labels if there are any.

    Features and labels are one component each, or a dict of components by name. A component is an
    array [M, ...], a memory map (which stays on disk until examples are read), anything else that
    `toolkit.Column` takes, or such a column where the defaults do not fit.

    Args:
        features: uint8 [M, H, W, C] or [M, H, W] (images), other uint8 [M, ...], numbers [M, ...]
            or texts [M]; or a dict. A list of arrays of different lengths is a component of
            sequences, which must have a name: examples come padded, and a component NAME_length,
            int32 [N], is added.
        labels: integers [M] in [0, MAX_CLASSES) (classes), other integers (classes, for instance
            of each pixel), floats or bools (values); or a dict, or None.
        index: the records of this split, integers [N], or None for all.

    Attributes:
        columns: flat key -> `Column` of the M records.
        components: flat key -> `Component`.
        index: the records of this split, int64 [N]; None for all.
        num_records: M, which counts the records outside this split too.
        class_labels: int32 [N] if the label of each example is one class; else None.
        make_dataset: returns the `tf.data.Dataset` to train on; see `toolkit.read_dataset`. None to
            train on the examples.

    Raises:
        DataError: the arrays do not fit together.
    """

    make_dataset: Optional[Callable[[], Any]] = None

    def __init__(self, features: Any, labels: Any = None, index: Any = None):
        self.columns = _bind_columns(flatten(features, labels))
        self.num_records = len(next(iter(self.columns.values())))
        self.index = None if index is None else _as_index(index, self.num_records)
        self._longest: Dict[str, int] = {}  # key of sequences -> the longest, once it is known
        self.class_labels: Optional[np.ndarray] = None
        column = self.columns.get(LABELS)
        if column is not None and column.component.kind == "class" and not column.component.shape:
            self.class_labels = np.array(column.take(slice(None) if index is None else self.index))

    def __len__(self) -> int:
        return self.num_records if self.index is None else len(self.index)

    @property
    def components(self) -> Dict[str, Component]:
        return {key: column.component for key, column in self.columns.items()}

    @property
    def has_labels(self) -> bool:
        """Whether examples have labels of any kind."""
        return any(key.partition("/")[0] == LABELS for key in self.columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the N examples in memory, without labels that are classes."""
        left_out = None if self.class_labels is None else LABELS
        total = sum(column.nbytes for key, column in self.columns.items() if key != left_out)
        return total if self.index is None else total * len(self) // max(1, self.num_records)

    @property
    def features(self) -> Any:
        """[N, ...], or a dict of such arrays. Records are copied if the split has an index."""
        keys = [key for key in self.columns if key.partition("/")[0] == FEATURES]
        return pack(self.read(slice(None), keys))[0]

    @property
    def labels(self) -> Any:
        """Classes int32 [N]; other labels [N, ...], or a dict of such arrays; None without any."""
        if self.class_labels is not None or not self.has_labels:
            return self.class_labels
        flat = self.read(slice(None), [key for key in self.columns if key.startswith(LABELS)])
        return pack(flat)[1]

    def take(self, positions: Any) -> Tuple[Any, Any]:
        """Read examples into memory.

        Args:
            positions: a slice of the split, or integers [n].

        Returns:
            features: [n, ...] of the component's dtype, or a dict of such arrays by name.
            labels: likewise, or None.
        """
        return pack(self.read(positions))

    def read(
        self, positions: Any, keys: Optional[Sequence[str]] = None, is_longest: bool = False
    ) -> Dict[str, np.ndarray]:
        """Read components of examples into memory: flat key -> [n, ...].

        Args:
            positions: a slice of the split, or integers [n].
            keys: which components; None for all.
            is_longest: whether to pad sequences as a batch with the longest of the split.
        """
        records = positions if self.index is None else self.index[positions]
        arrays = {}
        for key in self.columns if keys is None else keys:
            if key == LABELS and self.class_labels is not None:
                arrays[key] = self.class_labels[positions]
            else:
                length = self.pad_length(key, positions, is_longest)
                arrays[key] = self.columns[key].take(records, length)
        return arrays

    def select_sequences(self, key: str) -> Sequences:
        """The sequences of a component, of the N examples."""
        sequences = self.columns[key].values
        return sequences if self.index is None else sequences.select(self.index)

    def pad_length(self, key: str, positions: Any = None, is_longest: bool = False) -> Any:
        """The length to which the sequences of a component are padded in a batch of the examples at
        some positions, or with the longest of the split; None for other components.
        """
        if not self.columns[key].component.is_sequence:
            return None
        lengths = self.columns[key + LENGTH].values  # int32 [M]
        if is_longest and key not in self._longest:
            used = lengths if self.index is None else lengths[self.index]
            self._longest[key] = int(used.max(initial=1))
        if is_longest:
            return self._longest[key]
        records = positions if self.index is None else self.index[positions]
        return int(lengths[records].max(initial=1))

    def sha256(self) -> str:
        """The SHA-256 of features and labels, hex digits."""
        components = self.components
        form: Any = ({key: c[:3] for key, c in components.items()}, len(self))
        if is_plain(self):
            form = components[FEATURES].dtype, components[FEATURES].shape, len(self)
        digest = hashlib.sha256(repr(form).encode())  # others may have the same bytes
        for part in iterate_slices(self):
            flat = self.read(part)
            for key in sorted(flat):
                digest.update(_bytes_of(flat[key]))
        return digest.hexdigest()

    def subset(self, positions: Any) -> Split:
        """The split of some of the examples; no features are copied.

        Args:
            positions: integers [n], or a mask, bool [N].
        """
        positions = np.asarray(positions)
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        part = copy.copy(self)
        part.index = positions if self.index is None else self.index[positions]
        part._longest = {}
        part.class_labels = None if self.class_labels is None else self.class_labels[positions]
        return part

    def with_classes(self, labels: np.ndarray) -> Split:
        """The same examples with other classes as labels, int32 [N]."""
        split = self.subset(np.arange(len(self)))
        split.class_labels = np.asarray(labels, np.int32)
        return split


class Dataset:
    """A named data set with its splits.

    Attributes:
        name: the `--data` value, or another name.
        spec: shape, dtype and classes of the examples.
        splits: by name: "train", and "validation" and "test" if there are any.
        files: name -> path of the files that it was read from.
        notes: sentences on what was changed or looks wrong.
        option_names: of a plugin's own data: the options that its hook read.

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
        self.option_names: Set[str] = set()
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


def without_lengths(columns: Mapping[str, Column]) -> Dict[str, Column]:
    """Columns by flat key, but the lengths of sequences, which `Split` itself adds."""
    lengths = {k + LENGTH for k, column in columns.items() if isinstance(column.values, Sequences)}
    return {key: column for key, column in columns.items() if key not in lengths}


def iterate_slices(split: Split) -> Iterator[slice]:
    """Slices of a split that are small enough to be read at once, from its start to its end."""
    example_bytes = max(1, split.nbytes // max(1, len(split)))
    count = max(1, min(_CHUNK, _CHUNK_BYTES // example_bytes))
    for start in range(0, len(split), count):
        yield slice(start, min(start + count, len(split)))


def is_plain(split: Split) -> bool:
    """Whether a split has one array of features, images or numbers as their dtype says, with one
    class as label or with no label.
    """
    features = split.components.get(FEATURES)
    plain = (("uint8", "image"), ("float32", "image"), ("float32", "value"))
    has_values = features is not None and (features.dtype, features.kind) in plain
    return has_values and (not split.has_labels or split.class_labels is not None)


def describe(split: Split, class_names: Sequence[str] = (), num_classes: int = 0) -> DataSpec:
    """The spec of a split, with the names of the classes in their order if each label is one class,
    or else their number K; without both it is the largest label + 1.
    """
    flat = {} if is_plain(split) else split.components
    for key, component in flat.items():
        if component.kind == "class" and not component.num_classes:
            flat[key] = component._replace(num_classes=_count_classes(split, key))
    only = split.components.get(FEATURES)
    shape, dtype = ((), "") if only is None else only[:2]
    spec = DataSpec(shape, dtype, components=tuple(flat.items()))  # type: ignore[arg-type]
    if split.class_labels is None:
        return spec
    declared = split.components[LABELS]
    count = num_classes or declared.num_classes or int(split.class_labels.max(initial=-1)) + 1
    return with_classes(spec, class_names or declared.class_names or [*map(str, range(count))])


def with_classes(spec: DataSpec, class_names: Sequence[str]) -> DataSpec:
    """The spec with other classes of the label."""
    names = tuple(class_names)
    components = tuple(
        (key, c._replace(num_classes=len(names), class_names=names) if key == LABELS else c)
        for key, c in spec.components
    )
    return spec._replace(num_classes=len(names), class_names=names, components=components)


def _count_classes(split: Split, key: str) -> int:
    """The largest class of a component + 1."""
    if not split.columns[key].is_decoded:
        raise DataError(
            f"The number of classes of {describe_key(key)} is not known.",
            hint="Declare it: toolkit.Column(values, num_classes=...).",
        )
    component = split.components[key]
    parts: Any = (split.read(part, [key])[key] for part in iterate_slices(split))
    if component.is_sequence:  # whose padding is no class
        parts = [split.select_sequences(key).values]
    classes = (part[part != VOID] if component.shape else part for part in parts)
    return 1 + max((int(part.max()) for part in classes if part.size), default=-1)


def feature_bytes(split: Split) -> Iterator[List[Any]]:
    """The content of each example's features, without its labels: that of each component.

    It does not depend on the examples beside it: sequences have their own length.
    """
    keys = [key for key in split.columns if key.partition("/")[0] == FEATURES]
    sequences = [key for key in keys if split.columns[key].component.is_sequence]
    for part in iterate_slices(split):
        flat: Dict[str, Any] = dict(split.read(part, keys))
        for key in sequences:
            flat[key] = [row[:length] for row, length in zip(flat[key], flat[key + LENGTH])]
        for rows in zip(*flat.values()):
            yield [_bytes_of(np.asarray(row)) for row in rows]


def check_alike(splits: Mapping[str, Split], source: str) -> None:
    """Raise a DataError if examples differ in names, shapes or dtypes from those to train on."""
    texts = {name: describe_form(split.components) for name, split in splits.items()}
    for name, text in texts.items():
        if len(splits[name]) and text != texts["train"]:
            raise DataError(
                f"{source}: expected {texts['train']} in '{name}' as in 'train', found {text}.",
                hint="Give all splits the same names, shapes and dtypes.",
            )


def describe_form(components: Mapping[str, Component]) -> str:
    """`features float32 [4], labels/mask uint8 [8, 8]`: names, dtypes and shapes of components."""
    parts = (f"{key} {c.dtype} {describe_shape(c.shape)}" for key, c in components.items())
    return ", ".join(parts)


def _bind_columns(flat: Dict[str, Any]) -> Dict[str, Column]:
    """Flat key -> checked column, with the lengths of sequences; all have M records."""
    columns: Dict[str, Column] = {}
    for key, leaf in flat.items():
        column = (leaf if isinstance(leaf, Column) else Column(leaf)).bind(key)
        columns[key] = column
        if column.component.is_sequence:
            if key + LENGTH in flat:
                raise DataError(
                    f"T{describe_key(key)[1:]} is a sequence, and its lengths are "
                    f"'{key.partition('/')[2]}{LENGTH}', which is there already.",
                    hint="Leave the lengths out.",
                )
            columns[key + LENGTH] = Column(column.values.lengths, kind="value").bind(key + LENGTH)
    counts = {key: len(column) for key, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise DataError(
            f"The components have different numbers of examples: "
            f"{', '.join(f'{key} {count}' for key, count in counts.items())}.",
            hint="Give one value of each for each example.",
        )
    return columns


def _bytes_of(array: np.ndarray) -> Any:
    """The content of an array, to be hashed."""
    if array.dtype == object:
        return b"".join(len(text).to_bytes(8, "little") + text for text in array.ravel())
    return array.tobytes()
