"""`tfrecord:PATH`: files of serialized `tf.train.Example`s, plain or compressed.

PATH is a file, a folder or a pattern. Keys with usual names are the image and its class; options
name others. The type of a key's values decides what they become: see `_plan_key`.

Legend: M records of all files, K classes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import warnings
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from ...errors import DataError, UsageError, join_names
from ..column import MAX_CLASSES, Column, Sequences, first_not_finite
from ..decoded import Decoded, hash_texts
from ..examples import Dataset, Split, describe
from ..held_out import hold_out
from ..images.image_file import ImageHeader, read_header, read_image
from ..images.image_files import check_shape, choose_form
from ..reading_options import ColumnOptions, Settings, refuse_idle_images
from ..spec import sequences_of
from ..tables.roles import NONE, refuse_conflicts
from .record_files import HINT, find_shards, iterate_records, open_shard
from .record_index import BYTES, FLOATS, IMAGE, INTEGERS, NAME, SPAN, KeyPlan, Record, RecordIndex

IMAGE_KEYS = ("image/encoded", "image_raw", "image")
LABEL_KEYS = ("image/class/label", "label", "class", "target", "y")
NAME_KEY = "image/class/text"  # the names of the classes in image/class/label
_SIZES = (("height", "rows"), ("width", "cols"), ("channels", "depth"))  # of pixels


def open_tfrecord(settings: Settings) -> Dataset:
    """Open TFRecord files as a data set. Raises a UsageError if options contradict each other, and
    a DataError if there are no records, a damaged one, or one that lacks a key.
    """
    place, model = settings.path, settings.model and settings.model.record_keys
    if model is None:
        refuse_conflicts(settings.columns)
    files, notes = find_shards(place)
    all_paths = [path for paths in files.values() for path in paths]
    digests = settings.files.digests(all_paths)
    shards = list(map(open_shard, all_paths, digests))
    records = ((shard, record) for shard in shards for _, record in iterate_records(shard))
    shard, record = next(records, (None, b""))
    if shard is None:
        raise DataError(f"{place}: expected one record or more, found empty files.", hint=HINT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of protobuf, about damage
        first = Record(f"{shard.path}: record 0", record, is_first=True)
    if model is None:
        features, labels = _choose_keys(first, settings.columns)
    else:
        labels = [key for key in model["labels"] if {*model["labels"]} & {*first.features}]
        features = list(model["features"])
        hint = f"The model was trained on the keys {', '.join(features)}."
        _check_keys(first, features + labels, hint)
    plans = [_plan_key(first, key, key in labels) for key in features + labels]
    is_free = NAME_KEY not in (*features, *settings.columns.ignore_columns)
    if labels == [LABEL_KEYS[0]] and first.kind(NAME_KEY) == BYTES and is_free:
        plans.append(KeyPlan(NAME_KEY, NAME))
    reader = _RecordReader(settings, RecordIndex(shards, plans), labels)
    read = {key for plan in plans for key in (plan.key, *plan.size_keys)}
    others = [key for key in reader.index.keys if key not in read]
    if others:
        notes.append(f"Keys that are not read: {join_names(sorted(others), 12)}.")
    inputs = reader.collect(features)
    if model is None and not any(plan.kind == IMAGE for plan in plans):
        refuse_idle_images(place, settings.images)
    targets, class_names = reader.read_labels() if labels else (None, ())
    splits, start = {}, 0
    ends = dict(zip(all_paths, reader.index.ends.tolist()))
    for split, paths in files.items():  # of all records, which are in the order of the files
        end = ends[paths[-1]]
        if start == end:
            raise DataError(
                f"{place} ({split}): expected one record or more, found none.", hint=HINT
            )
        rows = None if len(files) == 1 else np.arange(start, end)
        splits[split] = Split(inputs, targets, index=rows)
        start = end
    contents = reader.index.digests[: len(splits["train"])]
    absolute = [os.path.abspath(path) for path in all_paths]
    folder = os.path.commonpath([os.path.dirname(path) for path in absolute])
    names = [os.path.relpath(path, folder).replace(os.sep, "/") for path in absolute]
    keys = model or {"features": tuple(features), "labels": tuple(labels)}
    return Dataset(
        "tfrecord:" + place,
        describe(splits["train"], class_names)._replace(records=keys),
        hold_out(splits, settings.shares, contents),
        dict(zip(names, all_paths)),
        notes + reader.notes,
        dict(zip(names, digests)),
    )


class _RecordReader:
    """Turns records into features and labels, by what the index has of their keys."""

    def __init__(self, settings: Settings, index: RecordIndex, labels: List[str]):
        self._settings, self.index, self._labels = settings, index, labels
        self.notes: List[str] = []

    def collect(self, keys: Sequence[str]) -> Any:
        """One component, a vector of single numbers, or a dict of components by name."""
        values = [self._read_key(key) for key in keys]
        if len(keys) > 1 and all(map(_is_single, values)):
            return np.stack([each.astype(np.float32) for each in values], axis=1)
        if len(keys) == 1 and _is_single(values[0]) and keys != self._labels:
            values = [values[0][:, np.newaxis]]  # features have two axes
        kinds = [None if isinstance(each, Decoded) else "value" for each in values]
        columns = [Column(each, kind) for each, kind in zip(values, kinds)]
        if len(keys) == 1 and not isinstance(values[0], Sequences):
            return columns[0]
        keys_of: Dict[str, str] = {}
        for key in keys:
            other = keys_of.setdefault(component_name(key), key)
            if other != key:
                raise DataError(
                    f"{self._settings.path}: the keys '{other}' and '{key}' are both the component "
                    f"'{component_name(key)}'.",
                    hint="Leave one out with --ignore-columns or --feature-columns.",
                )
        return dict(zip(keys_of, columns))

    def _read_key(self, key: str) -> Any:
        """An array [M, ...], sequences, or what is decoded at each read."""
        kind = self.index.plans[key].kind
        if kind == IMAGE:
            return self._decode(key)
        if kind in (FLOATS, INTEGERS):
            sequences = sequences_of(self._settings.model)
            values = self.index.numbers(key, component_name(key) in sequences)
            is_sequence = isinstance(values, Sequences)
            row = first_not_finite(values.values if is_sequence else values)
            if row is not None:
                if is_sequence:
                    row = int(np.searchsorted(values.starts, row, side="right")) - 1
                raise DataError(
                    f"{self.index.name_of(row)}: expected finite numbers in the key '{key}', "
                    "found NaN or infinity.",
                    hint="Repair or remove that record.",
                )
            return values
        if kind == NAME:
            raise DataError(
                f"{self._settings.path}: expected numbers in each of several keys of labels, found "
                f"texts in the key '{key}'.",
                hint="Name one key of texts with --label-column.",
            )
        paths = [shard.records for shard in self.index.shards]
        return Decoded(self.index.bytes_reader(key), (len(self.index),), object, paths=paths)

    def _decode(self, key: str) -> Decoded:
        """The images of a key, uint8 [M, H, W, C]."""
        read, name_of = self.index.bytes_reader(key), self.index.name_of
        rows, is_raw = self.index.rows(key)[:, 2:], bool(self.index.plans[key].size_keys)
        headers = ImageHeader(rows[:, :2], *(rows[:, 2:] == 1).T)
        options = self._settings.images.of(component_name(key))
        form, shape, notes = choose_form(self._settings.path, name_of, options, headers)
        self.notes += notes

        def decode(row: int) -> np.ndarray:
            content = read(row)
            if is_raw:
                width, height, is_grey, _ = rows[row].tolist()
                content = b"P%d %d %d 255\n" % (5 if is_grey else 6, width, height) + content  # PPM
            return check_shape(read_image(content, form, name_of(row)), shape, name_of(row))

        identity = hash_texts([key, *(shard.digest for shard in self.index.shards), repr(form)])
        paths = [shard.records for shard in self.index.shards]
        return Decoded(decode, (len(self.index), *shape), identity=identity, paths=paths)

    def read_labels(self) -> Tuple[Any, Tuple[str, ...]]:
        """The labels of all records, and the names of the classes; () if they are no classes."""
        key = self._labels[0]
        kind, wanted = self.index.plans[key].kind, self._settings.columns.label_kind
        is_one = len(self._labels) == 1
        if kind == NAME and is_one:
            if wanted == "value":
                raise DataError(
                    f"{self._settings.path}: expected labels that are values in the key '{key}', "
                    "found texts.",
                    hint="Write values as floats, or omit --label-kind value.",
                )
            labels, names = self.index.names(key)
            return labels, tuple(names)
        if kind == INTEGERS and wanted != "value" and is_one:
            values = self.index.numbers(key)
            if _is_single(values):
                return self._number_classes(key, values)
        if wanted == "class":
            raise UsageError(
                f"--label-kind class: the values of the key '{key}' are no classes.",
                hint="Classes are one integer or one text in each record.",
            )
        return self.collect(self._labels), ()

    def _number_classes(self, key: str, values: np.ndarray) -> Tuple[np.ndarray, Tuple[str, ...]]:
        """Class numbers from 0, and the names of the classes: their numbers, or their texts if each
        has one. Labels that begin at 1, or higher, are counted from 1.
        """
        lowest, highest = int(values.min()), int(values.max())
        first = max(0, min(lowest, 1))
        if lowest < 0 or highest - first >= MAX_CLASSES:
            row = int(np.argmin(values) if lowest < 0 else np.argmax(values))
            raise DataError(
                f"{self.index.name_of(row)}: expected a class from {first} to "
                f"{first + MAX_CLASSES - 1:,} in the key '{key}', found {int(values[row])}.",
                hint="Number the classes from 0 or 1, or use --label-kind value or "
                "--label-column none.",
            )
        names = tuple(str(number) for number in range(first, highest + 1))
        if first:
            self.notes.append(
                f"No record has the class 0 in the key '{key}': the classes are counted from 1, "
                f"and the class 1 has the number 0."
            )
        labels = (values - first).astype(np.int32)
        if key != LABEL_KEYS[0] or NAME_KEY not in self.index.plans:
            return labels, names
        if self.index.plans[NAME_KEY].kind != NAME:  # it is a feature
            return labels, names
        codes, texts = self.index.names(NAME_KEY)
        pairs = np.unique(np.stack([labels, codes]), axis=1).tolist()
        texts_of = dict(zip(pairs[0], (texts[code] for code in pairs[1])))
        named = tuple(texts_of.get(label, name) for label, name in enumerate(names))
        if len(texts_of) == len(pairs[0]) and len(set(named)) == len(named) and all(named):
            return labels, named
        self.notes.append(
            f"The key '{NAME_KEY}' does not name each class in one way: it is not used."
        )
        return labels, names


def _is_single(values: Any) -> bool:
    """Whether values are one number for each record, [M]."""
    return isinstance(values, np.ndarray) and values.ndim == 1


def component_name(key: str) -> str:
    """The name of the component of a key: `image/encoded` becomes `image_encoded`."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", key).strip("_")
    return name if name[:1].isalpha() else "key_" + name


# -------------------------------------------------------------------------------------------- keys


def _choose_keys(first: Record, columns: ColumnOptions) -> Tuple[List[str], List[str]]:
    """The keys of features and labels: those of the options, or those with usual names."""
    keys = sorted(first.features)
    explicit = [*columns.feature_columns, *filter(None, [columns.image_column])]
    labels = [] if columns.label_column == (NONE,) else list(columns.label_column)
    ignored = columns.ignore_columns
    hint = "Name other keys with --image-column, --feature-columns and --label-column."
    _check_keys(first, [*explicit, *labels], hint)
    _check_keys(first, ignored, "Name other keys with --ignore-columns.")
    rest = [key for key in keys if key not in explicit and key not in ignored]
    if not columns.label_column:
        labels = [key for key in LABEL_KEYS if key in rest][:1]
    if columns.label_kind != "auto" and not labels:
        raise UsageError(
            f"--label-kind {columns.label_kind} has no effect on {first.place}, which has no key "
            f"{' or '.join(LABEL_KEYS)}.",
            hint="Omit it, or name the key of the labels with --label-column.",
        )
    if explicit:
        return list(dict.fromkeys(explicit)), labels
    rest = [key for key in rest if key not in labels]
    pictures = [key for key in IMAGE_KEYS if key in rest][:1]
    numbers = [key for key in rest if first.kind(key) in (FLOATS, INTEGERS)]
    if not pictures + numbers:
        raise DataError(
            f"{first.place}: expected the key {' or '.join(IMAGE_KEYS)}, or keys of numbers, found "
            f"the keys {first.list_keys()}.",
            hint="Name the keys of the features with --image-column or --feature-columns.",
        )
    return pictures or numbers, labels


def _check_keys(first: Record, keys: Sequence[str], hint: str) -> None:
    """Refuse the first of some keys that is none of those in the first record."""
    for key in keys:
        if key not in first.features:
            raise DataError(
                f"{first.place}: expected the key '{key}', found the keys {first.list_keys()}.",
                hint=hint,
            )


def _plan_key(first: Record, key: str, is_label: bool) -> KeyPlan:
    """What the values of a key become, by those of the first record.

    Integers and floats are numbers. Bytes are the pixels of an image if there are as many as the
    keys of its height and width say; else an image if they are those of an image file; else text,
    which is a class if it is a label.
    """
    kind = first.kind(key)
    if kind in (FLOATS, INTEGERS):
        return KeyPlan(key, kind, not is_label)
    content = first.only_value(key)
    size_keys = _find_size_keys(first, key, len(content))
    with contextlib.suppress(DataError):  # it is no image
        if not size_keys and key not in IMAGE_KEYS:
            read_header(content, first.place)
        return KeyPlan(key, IMAGE, not is_label, size_keys)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(
            f"{first.place}: expected an image or a text in UTF-8 in the key '{key}', found "
            f"{len(content):,} other bytes.",
            hint="Pixels need keys 'height' and 'width', and one byte each.",
        ) from None
    return KeyPlan(key, NAME if is_label else SPAN, not is_label)


def _find_size_keys(first: Record, key: str, num_bytes: int) -> Tuple[str, ...]:
    """The keys of height, width and maybe channels of the pixels in a key; () if it has others."""
    prefixes = dict.fromkeys((key[: key.rfind("/") + 1], ""))
    found = []
    for names in _SIZES:
        keys = [prefix + name for prefix in prefixes for name in names]
        found.append([each for each in keys if first.kind(each) == INTEGERS][:1])
    size_keys = tuple(itertools.chain(*found))
    values = [first.values(name) for name in size_keys]
    if not (found[0] and found[1]) or any(len(value) != 1 for value in values):
        return ()
    count = 1
    for value in values:
        count *= int(value[0])
    is_raw = count == num_bytes or (len(values) == 2 and 3 * count == num_bytes)
    return size_keys if is_raw and count > 0 else ()
