"""The index of TFRecord files in the cache: the values of numeric keys, and where all others are.

The records are read once from beginning to end, by TensorFlow, which verifies their checksums. The
index is named by the SHA-256 of the files, so a second start reads no record.

Legend: M records of all files, S files (shards), T values of all records together.
"""

from __future__ import annotations

import array
import collections
import contextlib
import hashlib
import json
import os
import sys
import warnings
from typing import Any, Callable, Counter, Dict, Iterable, List, NamedTuple, Sequence, Tuple

import numpy as np
from google.protobuf.message import DecodeError

from ...compat import tf
from ...errors import DataError, join_names
from ..column import MAX_CLASSES, Sequences
from ..files.cache import open_entry
from ..images.image_file import read_header
from .record_files import GROUP, Shard, iterate_records, read_span

BYTES, FLOATS, INTEGERS = "bytes", "floats", "integers"  # kinds of values in a record
IMAGE, SPAN, NAME = "image", "span", "name"  # what the index has of bytes
_KINDS = {"bytes_list": BYTES, "float_list": FLOATS, "int64_list": INTEGERS, None: "empty"}
_DTYPES: Dict[str, Any] = {FLOATS: np.dtype(np.float32), INTEGERS: np.dtype(np.int64)}
_VERSION = 7  # of the files in the cache


class KeyPlan(NamedTuple):
    """What the index has of one key.

    The kind is FLOATS or INTEGERS for the values and how many each record has, SPAN for start and
    size of bytes in their shard, IMAGE also for width, height, is_grey and has_alpha of an image,
    NAME for the number of a text.
    """

    key: str
    kind: str
    is_content: bool = False  # whether the key tells examples apart, as features do
    size_keys: Tuple[str, ...] = ()  # height, width and maybe channels, if the bytes are pixels


class RecordIndex:
    """The index of shards, from the cache or built now: then a DataError names a record that is
    damaged, or lacks a key.
    """

    def __init__(self, shards: Sequence[Shard], plans: Sequence[KeyPlan]):
        facts = json.dumps([_VERSION, [shard.digest for shard in shards], plans])
        name = "index-" + hashlib.sha256(facts.encode()).hexdigest()[:32]
        self._folder = open_entry(GROUP, name, lambda folder: _write_index(shards, plans, folder))
        with open(os.path.join(self._folder, "index.json"), encoding="utf-8") as file:
            # Of the keys: name -> number of records that have the key.
            ends, self.keys, texts = json.load(file)
        self.ends = np.array(ends, np.int64)  # records of each shard and of those before it, [S]
        self.shards, self.plans = shards, {plan.key: plan for plan in plans}
        self._texts = dict(zip(self.plans, texts))
        self.digests = self._map("digests", "<u8")  # a hash of the content of each example, [M]

    def __len__(self) -> int:
        return int(self.ends[-1])

    def _locate(self, row: int) -> Tuple[Shard, int]:
        """The shard of a record, and the number of the record in it."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return self.shards[number], row - (int(self.ends[number - 1]) if number else 0)

    def name_of(self, row: int) -> str:
        """A record in a message."""
        shard, number = self._locate(row)
        return f"{shard.path}: record {number}"

    def rows(self, key: str) -> np.ndarray:
        """What `KeyPlan.kind` says of each record, int64 [M, columns]."""
        number = list(self.plans).index(key)
        return self._map(f"rows{number}", np.int64).reshape(len(self), -1)

    def bytes_reader(self, key: str) -> Callable[[int], bytes]:
        """A function that reads the bytes of a key in the record of a row."""
        rows = self.rows(key)
        return lambda row: read_span(self._locate(row)[0], *rows[row, :2].tolist())

    def names(self, key: str) -> Tuple[np.ndarray, List[str]]:
        """The number of the text of each record, int32 [M], and the texts, sorted."""
        texts = self._texts[key]
        names = sorted(texts)
        ranks = {text: rank for rank, text in enumerate(names)}
        return np.array([ranks[text] for text in texts], np.int32)[self.rows(key)[:, 0]], names

    def numbers(self, key: str, is_sequence: bool = False) -> Any:
        """The values of a key, float32 or int64: [M], [M, length], or `Sequences` where the lengths
        differ, or where that is asked for.
        """
        number, dtype = list(self.plans).index(key), _DTYPES[self.plans[key].kind]
        values, lengths = self._map(f"values{number}", dtype), self.rows(key)[:, 0]
        if is_sequence or (lengths != lengths[0]).any():
            return Sequences(values, np.concatenate([[0], np.cumsum(lengths)]))
        return values if lengths[0] == 1 else values.reshape(len(self), lengths[0])

    def _map(self, name: str, dtype: Any) -> np.ndarray:
        path = os.path.join(self._folder, name + ".bin")
        return np.memmap(path, dtype, "r") if os.path.getsize(path) else np.zeros(0, dtype)


# ----------------------------------------------------------------------------------------- records


class Record:
    """A serialized `tf.train.Example`, whose `features` are `tf.train.Feature`s by key; other
    content is refused. Messages call it by its place.
    """

    def __init__(self, place: str, content: bytes, is_first: bool = False):
        self.place, finding = place, "bytes that are no tf.train.Example"
        example = tf.train.Example()
        with contextlib.suppress(DecodeError):
            if example.MergeFromString(content) == len(content):
                sequence = tf.train.SequenceExample.FromString(content) if is_first else example
                if not is_first or not sequence.HasField("feature_lists"):
                    self.features: Dict[str, Any] = dict(example.features.feature)
                    return
                finding = "a tf.train.SequenceExample"
        raise DataError(
            f"{self.place}: expected a tf.train.Example, found {finding}.",
            hint="Write each record as tf.train.Example(...).SerializeToString().",
        )

    def error(self, key: str, finding: str) -> DataError:
        """The error for a key whose value is not the one expected."""
        return DataError(
            f"{self.place}: expected one value in the key '{key}', found {finding}.",
            hint="Write one value for each record, or name another key.",
        )

    def list_keys(self) -> str:
        """The keys in a message."""
        return join_names(sorted(self.features), 12) or "none"

    def kind(self, key: str) -> str:
        """BYTES, FLOATS or INTEGERS; another text where there are no values."""
        return _KINDS[self.features[key].WhichOneof("kind") if key in self.features else None]

    def values(self, key: str) -> Any:
        """The values of a key: a list of bytes, float32 [length] or int64 [length]."""
        kind, feature = self.kind(key), self.features[key]
        if kind == BYTES:
            return list(feature.bytes_list.value)
        values = feature.float_list.value if kind == FLOATS else feature.int64_list.value
        return np.array(values, _DTYPES[FLOATS if kind == FLOATS else INTEGERS])

    def only_value(self, key: str) -> Any:
        """The one value of a key. Raises a DataError if it has none or several."""
        values = self.values(key)
        if len(values) != 1:
            raise self.error(key, f"{len(values)} values")
        return values[0]

    def check_kind(self, key: str, expected: str) -> None:
        """Refuse a record that lacks a key of the first record, or has it with another type."""
        if key not in self.features:
            raise DataError(
                f"{self.place}: expected the key '{key}' as in the first record, found the keys "
                f"{self.list_keys()}.",
                hint="Write the key in all records or in none, or name another one.",
            )
        if self.kind(key) != expected:
            raise DataError(
                f"{self.place}: expected {expected} in the key '{key}' as in the first record, "
                f"found {self.kind(key)}.",
                hint="Write each key with one type.",
            )


# ----------------------------------------------------------------------------------------- writing


def _write_index(shards: Sequence[Shard], plans: Sequence[KeyPlan], folder: str) -> None:
    """Read all records of shards and write their index into a folder."""
    keys: Counter[str] = collections.Counter()
    ends: List[int] = []
    digests = bytearray()
    rows = [array.array("q") for _ in plans]
    texts: List[Dict[str, int]] = [{} for _ in plans]
    with contextlib.ExitStack() as files:
        paths = [os.path.join(folder, f"values{number}.bin") for number in range(len(plans))]
        values = [files.enter_context(open(path, "wb")) for path in paths]
        files.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", RuntimeWarning)  # of protobuf, about damage
        for shard in shards:
            for number, (position, message) in enumerate(iterate_records(shard)):
                record = Record(f"{shard.path}: record {number}", message, is_first=not number)
                keys.update(list(record.features))
                digest = hashlib.blake2b(digest_size=8)
                for plan, row, number_of, file in zip(plans, rows, texts, values):
                    is_number = plan.kind in _DTYPES
                    record.check_kind(plan.key, plan.kind if is_number else BYTES)
                    if is_number:  # equal values have equal bytes, however they are written
                        content = record.values(plan.key).tobytes()
                        row.append(len(content) // _DTYPES[plan.kind].itemsize)
                        file.write(content)
                    else:
                        content = record.only_value(plan.key)
                    if plan.kind == NAME:
                        row.append(_number_text(record, plan.key, content, number_of))
                    elif not is_number:
                        row.extend((position + message.index(content), len(content)))
                    for key in plan.size_keys:
                        record.check_kind(key, INTEGERS)
                    sizes = [record.only_value(key).tobytes() for key in plan.size_keys]
                    if plan.kind == IMAGE:
                        row.extend(_read_header(sizes, content, plan.key, record.place))
                    for part in (content, *sizes) if plan.is_content else ():
                        digest.update(len(part).to_bytes(8, "little") + part)
                digests += digest.digest()
            ends.append(len(digests) // 8)
    for number, row in enumerate(rows):
        np.array(row, np.int64).tofile(os.path.join(folder, f"rows{number}.bin"))
    np.frombuffer(digests, np.uint8).tofile(os.path.join(folder, "digests.bin"))
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as json_file:
        json.dump([ends, keys, list(map(list, texts))], json_file)


def _number_text(record: Record, key: str, content: bytes, number_of: Dict[str, int]) -> int:
    """The number of a text, which is a new one where it is new."""
    try:
        number = number_of.setdefault(content.decode("utf-8"), len(number_of))
    except UnicodeDecodeError:
        raise record.error(key, "other bytes than UTF-8") from None
    if number >= MAX_CLASSES:
        raise record.error(key, f"more than {MAX_CLASSES:,} texts")
    return number


def _read_header(sizes: Sequence[bytes], content: bytes, key: str, name: str) -> Iterable[int]:
    """Width, height, is_grey and has_alpha of an image, whose bytes are pixels if it has sizes."""
    if not sizes:
        size, is_grey, has_alpha, _ = read_header(content, name)
        return (*size, int(is_grey), int(has_alpha))
    height, width, *rest = (int.from_bytes(size, sys.byteorder, signed=True) for size in sizes)
    channels = rest[0] if rest else len(content) // max(height * width, 1)
    is_valid = min(height, width) > 0 and height * width * channels == len(content)
    if not is_valid or channels not in (1, 3):
        raise DataError(
            f"{name}: expected pixels of an image {width}x{height} with {channels} channels in the "
            f"key '{key}', found {len(content):,} bytes.",
            hint="Write grey or RGB pixels of one byte, or encoded images.",
        )
    return width, height, int(channels == 1), 0
