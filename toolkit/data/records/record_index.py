"""The index of TFRecord files in the cache: the values of numeric keys, and where all others are.

The records are read once from beginning to end, by TensorFlow, which verifies their checksums. The
index is named by the SHA-256 of the files, so a second start reads no record.

Legend: M records of all files, S files (shards), T values of all records together.
"""

from __future__ import annotations

import array
import collections
import functools
import hashlib
import json
import os
import warnings
from typing import Any, Callable, Counter, Dict, List, NamedTuple, Optional, Sequence, Tuple

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
_DTYPES: Dict[str, Any] = {FLOATS: np.dtype(np.float32), INTEGERS: np.dtype(np.int64)}
_VERSION = 6  # of the files in the cache
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
        plans: what the index has of each key.

    Attributes:
        ends: records of each shard and of those before it, int64 [S].
        keys: name -> number of records that have the key.
        digests: a hash of the content of each example, uint64 [M].
    """

    def __init__(self, folder: str, shards: Sequence[Shard], plans: Sequence[KeyPlan]):
        with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
            ends, self.keys, self._names = json.load(file)
        self.ends = np.array(ends, np.int64)
        self._folder = folder
        self.shards = list(shards)
        self._plans = {plan.key: (f"key{i}", plan.kind) for i, plan in enumerate(plans)}
        self.digests = self._map("digests", "<u8")

    def __len__(self) -> int:
        return int(self.ends[-1])

    def locate(self, row: int) -> Tuple[Shard, int]:
        """The shard of a record, and the number of the record in it."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return self.shards[number], row - (int(self.ends[number - 1]) if number else 0)

    def name_of(self, row: int) -> str:
        """A record in a message."""
        shard, number = self.locate(row)
        return f"{shard.path}: record {number}"

    def spans(self, key: str) -> np.ndarray:
        """Where the bytes of a key are in their shards: start and size, int64 [M, 2]."""
        return self._rows(key).reshape(-1, 2)

    def bytes_reader(self, key: str) -> Callable[[int], bytes]:
        """A function that reads the bytes of a key in the record of a row."""
        spans = self.spans(key)
        return lambda row: read_span(self.locate(row)[0], *spans[row].tolist())

    def headers(self, key: str) -> np.ndarray:
        """Width, height, is_grey and has_alpha of each image, int32 [M, 4]."""
        return self._map(self._plans[key][0] + "-headers", np.int32).reshape(-1, 4)

    def names(self, key: str) -> Tuple[np.ndarray, List[str]]:
        """The number of the text of each record, int32 [M], and the texts, sorted."""
        return self._rows(key).astype(np.int32), self._names[key]

    def numbers(self, key: str) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """The values of a key, and where those of each record begin.

        Returns:
            values: float32 or int64: [M, length] if all records have one length, else [T].
            starts: int64 [M + 1], or None if all records have one length.
        """
        name, kind = self._plans[key]
        values, lengths = self._map(name + "-values", _DTYPES[kind]), self._rows(key)
        if (lengths == lengths[0]).all():
            return values.reshape(len(self), -1 if len(values) else 0), None
        return values, np.concatenate([[0], np.cumsum(lengths)])

    def _rows(self, key: str) -> np.ndarray:
        return self._map(self._plans[key][0], np.int64)

    def _map(self, name: str, dtype: Any) -> np.ndarray:
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
    return RecordIndex(open_entry(GROUP, name, build, cache_dir), shards, plans)


# ----------------------------------------------------------------------------------------- records


def parse_record(name: str, record: bytes, is_first: bool = False) -> Features:
    """The features of a record. Raises a DataError that names it if it is no Example."""
    example = tf.train.Example()
    try:
        # Older versions of protobuf read damaged bytes up to the damage, and warn.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            if example.MergeFromString(record) != len(record):
                raise DecodeError
            if not is_first or not _is_sequence_example(record):
                return dict(example.features.feature)
        finding = "a tf.train.SequenceExample"
    except DecodeError:
        finding = "bytes that are no tf.train.Example"
    raise DataError(
        f"{name}: expected a tf.train.Example, found {finding}.",
        hint="Write each record as tf.train.Example(...).SerializeToString().",
    )


def _is_sequence_example(record: bytes) -> bool:
    return tf.train.SequenceExample.FromString(record).HasField("feature_lists")


def kind_of(features: Features, key: str) -> str:
    """BYTES, FLOATS or INTEGERS; EMPTY also where a record lacks the key."""
    return _KINDS[features[key].WhichOneof("kind")] if key in features else EMPTY


def values_of(features: Features, key: str) -> Any:
    """The values of a key: a list of bytes, float32 [length] or int64 [length]."""
    kind, feature = kind_of(features, key), features[key]
    if kind == BYTES:
        return list(feature.bytes_list.value)
    values = feature.float_list.value if kind == FLOATS else feature.int64_list.value
    return np.array(values, _DTYPES[FLOATS if kind == FLOATS else INTEGERS])


def only_value(features: Features, key: str, name: str) -> bytes:
    """The bytes of a key in a record. Raises a DataError if it has none or several."""
    values = values_of(features, key)
    if len(values) != 1:
        raise _value_error(name, key, f"{len(values)} values")
    return values[0]


def _value_error(name: str, key: str, finding: str) -> DataError:
    return DataError(
        f"{name}: expected one value in the key '{key}', found {finding}.",
        hint="Write one value for each record, or name another key.",
    )


def describe_keys(keys: Any) -> str:
    """The keys of a record in a message, sorted."""
    names = sorted(keys)
    rest = [f"and {len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    return ", ".join(names[:_MAX_NAMES] + rest) or "none"


# ----------------------------------------------------------------------------------------- writing


def _write_index(shards: Sequence[Shard], plans: Sequence[KeyPlan], folder: str) -> None:
    """Read all records of shards and write their index into a folder."""
    writers = [_KeyWriter(os.path.join(folder, f"key{i}"), plan) for i, plan in enumerate(plans)]
    keys: Counter[str] = collections.Counter()
    ends: List[int] = []
    count = 0
    with open(os.path.join(folder, "digests.bin"), "wb") as digests:
        for shard in shards:
            for number, (position, record) in enumerate(iterate_records(shard)):
                name = f"{shard.path}: record {number}"
                features = parse_record(name, record, is_first=not number)
                keys.update(list(features))
                digest = hashlib.blake2b(digest_size=8)
                for writer in writers:
                    content = writer.add(features, record, position, name)
                    if writer.plan.is_content:
                        digest.update(len(content).to_bytes(8, "little") + content)
                digests.write(digest.digest())
                count += 1
            ends.append(count)
    names = {writer.plan.key: writer.finish() for writer in writers}
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
        json.dump([ends, keys, names], file)


class _KeyWriter:
    """Writes what the index has of a key; values of numbers at once, the rest at the end.

    Args:
        path: with which the names of its files begin.
        plan: of the key.
    """

    def __init__(self, path: str, plan: KeyPlan):
        self.plan, self._path = plan, path
        self._expected = plan.kind if plan.kind in _DTYPES else BYTES
        self._rows = array.array("q")  # how many numbers; start and size of bytes; or of a text
        self._headers = array.array("i")
        self._texts: Dict[bytes, int] = {}
        self._values = open(path + "-values.bin", "wb")  # noqa: SIM115 - `finish` closes it

    def add(self, features: Features, record: bytes, position: int, name: str) -> bytes:
        """Add the values of a record, and return them as bytes.

        These do not depend on how the message is written: equal values have equal bytes.

        Args:
            features: of the record.
            record: the message.
            position: of the message in its shard.
            name: of the record, for error messages.
        """
        key, kind = self.plan.key, self.plan.kind
        _check_kind(features, key, self._expected, name)
        if kind in _DTYPES:
            values = values_of(features, key)
            self._rows.append(len(values))
            self._values.write(values.tobytes())
            return values.tobytes()
        content = only_value(features, key, name)
        if kind == NAME:
            self._rows.append(self._number_text(content, name))
            return content
        self._rows.extend((position + record.index(content), len(content)))
        if kind == IMAGE:
            self._headers.extend(map(int, decode_header(content, name)[:4]))
        return content

    def _number_text(self, text: bytes, name: str) -> int:
        if text not in self._texts:
            if len(self._texts) >= MAX_CLASSES:
                raise _value_error(name, self.plan.key, f"more than {MAX_CLASSES:,} texts")
            try:
                text.decode("utf-8")
            except UnicodeDecodeError:
                raise _value_error(name, self.plan.key, "other bytes than UTF-8") from None
        return self._texts.setdefault(text, len(self._texts))

    def finish(self) -> List[str]:
        """Write the files, and return the different texts, sorted."""
        self._values.close()
        texts, rows = sorted(self._texts), np.array(self._rows, np.int64)
        if texts:
            ranks = np.empty(len(texts), np.int64)
            ranks[[self._texts[text] for text in texts]] = np.arange(len(texts))
            rows = ranks[rows]
        rows.tofile(self._path + ".bin")
        np.array(self._headers, np.int32).tofile(self._path + "-headers.bin")
        return [text.decode("utf-8") for text in texts]


def _check_kind(features: Features, key: str, expected: str, name: str) -> None:
    """Refuse a record that lacks a key of the first record, or has it with another type."""
    if key not in features:
        raise DataError(
            f"{name}: expected the key '{key}' as in the first record, found the keys "
            f"{describe_keys(features)}.",
            hint="Write the key in all records or in none, or name another one.",
        )
    kind = kind_of(features, key)
    if kind != expected:
        raise DataError(
            f"{name}: expected {expected} in the key '{key}' as in the first record, found {kind}.",
            hint="Write each key with one type.",
        )
