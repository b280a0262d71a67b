"""The index of TFRecord files in the cache: the values of numeric keys, and where all others are.

The records are read once from beginning to end, by TensorFlow, which verifies their checksums. The
index is named by the SHA-256 of the files, so a second start reads no record.

Legend: M records of all files, S files (shards), T values of all records together.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import json
import os
import struct
import warnings
from typing import Any, Callable, Counter, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ...compat import tf
from ...errors import DataError
from ..column import MAX_CLASSES
from ..files.cache import open_entry
from ..images.image_file import decode_header
from .record_files import GROUP, Shard, iterate_records, read_span

BYTES, FLOATS, INTEGERS, EMPTY = "bytes", "floats", "integers", "empty"  # kinds of features
IMAGE, SPAN, NAME = "image", "span", "name"  # further kinds of keys, beside FLOATS and INTEGERS
_KINDS = {"bytes_list": BYTES, "float_list": FLOATS, "int64_list": INTEGERS, None: EMPTY}
_VERSION = 5  # of the files in the cache
_MAX_NAMES = 12  # keys in a message

warnings.filterwarnings("ignore", "Unexpected end-group tag")  # of protobuf; see `parse_record`

Features = Dict[str, Any]  # the `tf.train.Feature` of each key of a record


class KeyPlan(NamedTuple):
    """What the index has of one key.

    Attributes:
        key: the name in the records.
        kind: FLOATS or INTEGERS for the values, SPAN for the positions of bytes, IMAGE for those
            of an image and its header, NAME for the number of a text among all, sorted.
        is_content: whether the key tells examples apart, as features do.
        size_keys: the keys of height, width and maybe channels of bytes that are pixels.
    """

    key: str
    kind: str
    is_content: bool = False
    size_keys: Tuple[str, ...] = ()


class RecordIndex:
    """The index of shards, opened from a folder of the cache.

    Args:
        folder: the folder.
        shards: the files.

    Attributes:
        counts: records of each shard, int64 [S].
        keys: name -> number of records that have the key.
        digests: a hash of the content of each example, uint64 [M].
    """

    def __init__(self, folder: str, shards: Sequence[Shard]):
        with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
            values = json.load(file)
        self._folder = folder
        self.shards = list(shards)
        self.counts = np.array(values["counts"], np.int64)
        self.ends = np.cumsum(self.counts)
        self.keys: Dict[str, int] = values["keys"]
        self._columns: Dict[str, Dict[str, Any]] = values["columns"]
        self.digests = self._map("digests", "<u8")

    def __len__(self) -> int:
        return int(self.counts.sum())

    def locate(self, row: int) -> Tuple[Shard, int]:
        """The shard of a record, and the number of the record in it."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return self.shards[number], row - int(self.ends[number] - self.counts[number])

    def name_of(self, row: int) -> str:
        """A record in a message."""
        shard, number = self.locate(row)
        return f"{shard.path}: record {number}"

    def spans(self, key: str) -> np.ndarray:
        """Where the bytes of a key are in their shards: start and size, int64 [M, 2]."""
        return self._map(self._columns[key]["file"], "<i8").reshape(-1, 2)

    def bytes_reader(self, key: str) -> Callable[[int], bytes]:
        """A function that reads the bytes of a key in the record of a row."""
        spans = self.spans(key)
        return lambda row: read_span(self.locate(row)[0], *spans[row].tolist())

    def headers(self, key: str) -> np.ndarray:
        """Width, height, is_grey and has_alpha of each image, int32 [M, 4]."""
        return self._map(self._columns[key]["file"] + "-headers", "<i4").reshape(-1, 4)

    def names(self, key: str) -> Tuple[np.ndarray, List[str]]:
        """The number of the text of each record, int32 [M], and the texts, sorted."""
        column = self._columns[key]
        return self._map(column["file"], "<i4"), column["names"]

    def numbers(self, key: str) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """The values of a key, and where those of each record begin.

        Returns:
            values: float32 or int64: [M, length] if all records have one length, else [T].
            starts: int64 [M + 1], or None if all records have one length.
        """
        column = self._columns[key]
        values = self._map(column["file"], column["dtype"])
        if column["length"] is not None:
            return values.reshape(len(self), column["length"]), None
        return values, self._map(column["file"] + "-starts", "<i8")

    def _map(self, name: str, dtype: str) -> np.ndarray:
        path = os.path.join(self._folder, name + ".bin")
        return np.memmap(path, dtype, "r") if os.path.getsize(path) else np.zeros(0, dtype)


def open_index(
    shards: Sequence[Shard], plans: Sequence[KeyPlan], cache_dir: Optional[str] = None
) -> RecordIndex:
    """The index of shards, from the cache or built now.

    Args:
        shards: the files.
        plans: what the index has of each key.
        cache_dir: the cache folder; None for the default.

    Raises:
        DataError: a record is damaged, or lacks a key.
    """
    values = json.dumps([_VERSION, [shard.digest for shard in shards], plans])
    name = "index-" + hashlib.sha256(values.encode()).hexdigest()[:32]
    build = functools.partial(_write_index, shards, plans)
    return RecordIndex(open_entry(GROUP, name, build, cache_dir), shards)


# ----------------------------------------------------------------------------------------- records


def parse_record(shard: Shard, number: int, record: bytes) -> Features:
    """The features of a record. Raises a DataError that names it if it is no Example."""
    example = tf.train.Example()
    try:
        # Older versions of protobuf read damaged bytes up to the damage, and warn.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            if example.MergeFromString(record) != len(record):
                raise DecodeError
            features = dict(example.features.feature)
            if number or not tf.train.SequenceExample.FromString(record).HasField("feature_lists"):
                return features
        finding = "a tf.train.SequenceExample"
    except DecodeError:
        finding = "bytes that are no tf.train.Example"
    raise DataError(
        f"{shard.path}: record {number}: expected a tf.train.Example, found {finding}.",
        hint="Write each record as tf.train.Example(...).SerializeToString().",
    )


def kind_of(features: Features, key: str) -> str:
    """BYTES, FLOATS or INTEGERS; EMPTY also where a record lacks the key."""
    return _KINDS[features[key].WhichOneof("kind")] if key in features else EMPTY


def values_of(features: Features, key: str) -> Any:
    """The values of a key: a list of bytes, float32 [length] or int64 [length]."""
    kind, feature = kind_of(features, key), features[key]
    if kind == FLOATS:
        return np.array(feature.float_list.value, "<f4")
    if kind == INTEGERS:
        return np.array(feature.int64_list.value, "<i8")
    return list(feature.bytes_list.value)


def describe_keys(keys: Any) -> str:
    """The keys of a record in a message, sorted."""
    names = sorted(keys)
    rest = [f"and {len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    return ", ".join(names[:_MAX_NAMES] + rest) or "none"


# ----------------------------------------------------------------------------------------- writing


def _write_index(shards: Sequence[Shard], plans: Sequence[KeyPlan], folder: str) -> None:
    """Read all records of shards and write their index into a folder."""
    writers: List[_Writer] = [
        _WRITERS[plan.kind](folder, f"key{i}", plan) for i, plan in enumerate(plans)
    ]
    keys: Counter[str] = collections.Counter()
    counts = []
    with open(os.path.join(folder, "digests.bin"), "wb") as digests:
        for shard in shards:
            number = -1
            for number, (position, record) in enumerate(iterate_records(shard)):
                features = parse_record(shard, number, record)
                place = f"{shard.path}: record {number}"
                keys.update(list(features))
                digest = hashlib.blake2b(digest_size=8)
                for plan, writer in zip(plans, writers):
                    values = _take(plan, features, place)
                    content = writer.add(values, record, position, place)
                    if plan.is_content:
                        digest.update(len(content).to_bytes(8, "little") + content)
                digests.write(digest.digest())
            counts.append(number + 1)
    columns = {plan.key: writer.finish() for plan, writer in zip(plans, writers)}
    values = {"counts": counts, "keys": keys, "columns": columns}
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
        json.dump(values, file)


def _take(plan: KeyPlan, features: Features, place: str) -> Any:
    """The values of a key in a record: an array of numbers, or the only bytes."""
    expected = plan.kind if plan.kind in (FLOATS, INTEGERS) else BYTES
    if plan.key not in features:
        raise DataError(
            f"{place}: expected the key '{plan.key}' as in the first record, found the keys "
            f"{describe_keys(features)}.",
            hint="Write the key in all records or in none, or name another one.",
        )
    kind = kind_of(features, plan.key)
    if kind != expected:
        raise DataError(
            f"{place}: expected {expected} in the key '{plan.key}' as in the first record, found "
            f"{kind}.",
            hint="Write each key with one type.",
        )
    values = values_of(features, plan.key)
    if kind == BYTES and len(values) != 1:
        raise _value_error(place, plan.key, f"{len(values)} values")
    return values[0] if kind == BYTES else values


def _value_error(place: str, key: str, finding: str) -> DataError:
    return DataError(
        f"{place}: expected one value in the key '{key}', found {finding}.",
        hint="Write one value for each record, or name another key.",
    )


class _Writer:
    """Writes what the index has of a key, record by record.

    `add` returns the values of a record as bytes, which do not depend on how the message is
    written: equal values have equal bytes.
    """

    def __init__(self, folder: str, name: str, plan: KeyPlan):
        self.plan = plan
        self._folder, self._name = folder, name
        self._files: Dict[str, Any] = {}

    def add(self, values: Any, record: bytes, position: int, place: str) -> bytes:
        raise NotImplementedError

    def write(self, content: bytes, ending: str = "") -> None:
        if ending not in self._files:
            path = os.path.join(self._folder, f"{self._name}{ending}.bin")
            self._files[ending] = open(path, "wb")  # noqa: SIM115 - `finish` closes it
        self._files[ending].write(content)

    def finish(self) -> Dict[str, Any]:
        """Close the files, and return what `index.json` has of the key."""
        for file in self._files.values():
            file.close()
        return {"file": self._name}


class _Spans(_Writer):
    """Positions of bytes, and the headers of images."""

    def add(self, content: bytes, record: bytes, position: int, place: str) -> bytes:
        self.write(struct.pack("<2q", position + record.index(content), len(content)))
        if self.plan.kind == IMAGE:
            self.write(struct.pack("<4i", *decode_header(content, place)[:4]), "-headers")
        return content


class _Names(_Writer):
    """Texts as numbers."""

    def __init__(self, folder: str, name: str, plan: KeyPlan):
        super().__init__(folder, name, plan)
        self._numbers: Dict[bytes, int] = {}
        self._rows: List[int] = []

    def add(self, text: bytes, record: bytes, position: int, place: str) -> bytes:
        if text not in self._numbers:
            if len(self._numbers) >= MAX_CLASSES:
                finding = f"more than {MAX_CLASSES:,} different texts"
                raise _value_error(place, self.plan.key, finding)
            try:
                text.decode("utf-8")
            except UnicodeDecodeError:
                raise _value_error(place, self.plan.key, "other bytes than UTF-8") from None
        self._rows.append(self._numbers.setdefault(text, len(self._numbers)))
        return text

    def finish(self) -> Dict[str, Any]:
        texts = sorted(self._numbers)
        ranks = np.zeros(len(texts), "<i4")
        ranks[[self._numbers[text] for text in texts]] = np.arange(len(texts))
        self.write(ranks[self._rows].tobytes())
        return dict(super().finish(), names=[text.decode("utf-8") for text in texts])


class _Numbers(_Writer):
    """Values of a list of numbers."""

    def __init__(self, folder: str, name: str, plan: KeyPlan):
        super().__init__(folder, name, plan)
        self._end = 0
        self._lengths: Set[int] = set()
        self.write(struct.pack("<q", 0), "-starts")

    def add(self, values: np.ndarray, record: bytes, position: int, place: str) -> bytes:
        content = values.tobytes()
        self.write(content)
        self._end += len(values)
        self.write(struct.pack("<q", self._end), "-starts")
        self._lengths.add(len(values))
        return content

    def finish(self) -> Dict[str, Any]:
        length = next(iter(self._lengths), 1) if len(self._lengths) < 2 else None
        dtype = "<f4" if self.plan.kind == FLOATS else "<i8"
        return dict(super().finish(), dtype=dtype, length=length)


_WRITERS = {IMAGE: _Spans, SPAN: _Spans, NAME: _Names, FLOATS: _Numbers, INTEGERS: _Numbers}
