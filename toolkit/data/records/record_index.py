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
from typing import (
    Any,
    Callable,
    Counter,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ...compat import tf
from ...errors import DataError
from ..column import MAX_CLASSES
from ..files.cache import open_entry
from ..images.image_file import read_header
from ..tables.columns import join_names
from .record_files import GROUP, Shard, iterate_records, read_span

BYTES, FLOATS, INTEGERS, EMPTY = "bytes", "floats", "integers", "empty"  # kinds of features
IMAGE, SPAN, NAME = "image", "span", "name"  # further kinds of keys, beside FLOATS and INTEGERS
_KINDS = {"bytes_list": BYTES, "float_list": FLOATS, "int64_list": INTEGERS, None: EMPTY}
_DTYPES: Dict[str, Any] = {FLOATS: np.dtype(np.float32), INTEGERS: np.dtype(np.int64)}
_VERSION = 7  # of the files in the cache

Features = Dict[str, Any]  # the `tf.train.Feature` of each key of a record


class KeyPlan(NamedTuple):
    """What the index has of one key.

    Attributes:
        key: the name in the records.
        kind: FLOATS or INTEGERS for the values and how many each record has, SPAN for start and
            size of bytes in their shard, IMAGE also for width, height, is_grey and has_alpha of an
            image, NAME for the number of a text.
        is_content: whether the key tells examples apart, as features do.
        size_keys: the keys of height, width and maybe channels of an image whose bytes are pixels.
    """

    key: str
    kind: str
    is_content: bool = False
    size_keys: Tuple[str, ...] = ()


class RecordIndex:
    """The index of shards, from the cache or built now.

    Args:
        shards: the files.
        plans: what the index has of each key.

    Attributes:
        ends: records of each shard and of those before it, int64 [S].
        keys: name -> number of records that have the key.
        digests: a hash of the content of each example, uint64 [M].

    Raises:
        DataError: a record is damaged, or lacks a key.
    """

    def __init__(self, shards: Sequence[Shard], plans: Sequence[KeyPlan]):
        facts = json.dumps([_VERSION, [shard.digest for shard in shards], plans])
        name = "index-" + hashlib.sha256(facts.encode()).hexdigest()[:32]
        self._folder = open_entry(GROUP, name, lambda folder: _write_index(shards, plans, folder))
        with open(os.path.join(self._folder, "index.json"), encoding="utf-8") as file:
            ends, self.keys, texts = json.load(file)
        self.ends = np.array(ends, np.int64)
        self._shards = shards
        self._plans = {plan.key: (number, plan.kind) for number, plan in enumerate(plans)}
        self._texts = dict(zip(self._plans, texts))
        self.digests = self._map("digests", "<u8")

    def __len__(self) -> int:
        return int(self.ends[-1])

    def _locate(self, row: int) -> Tuple[Shard, int]:
        """The shard of a record, and the number of the record in it."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return self._shards[number], row - (int(self.ends[number - 1]) if number else 0)

    def name_of(self, row: int) -> str:
        """A record in a message."""
        shard, number = self._locate(row)
        return f"{shard.path}: record {number}"

    def rows(self, key: str) -> np.ndarray:
        """What `KeyPlan.kind` says of each record, int64 [M, columns]."""
        return self._map(f"rows{self._plans[key][0]}", np.int64).reshape(len(self), -1)

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

    def numbers(self, key: str) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """The values of a key, and where those of each record begin.

        Returns:
            values: float32 or int64: [M] or [M, length] if all records have one length, else [T].
            starts: int64 [M + 1], or None if all records have one length.
        """
        number, kind = self._plans[key]
        values, lengths = self._map(f"values{number}", _DTYPES[kind]), self.rows(key)[:, 0]
        if (lengths != lengths[0]).any():
            return values, np.concatenate([[0], np.cumsum(lengths)])
        return values if lengths[0] == 1 else values.reshape(len(self), lengths[0]), None

    def _map(self, name: str, dtype: Any) -> np.ndarray:
        path = os.path.join(self._folder, name + ".bin")
        return np.memmap(path, dtype, "r") if os.path.getsize(path) else np.zeros(0, dtype)


# ----------------------------------------------------------------------------------------- records


@contextlib.contextmanager
def quiet_parsing() -> Iterator[None]:
    """Hide warnings of protobuf about damaged records, which `parse_record` refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def parse_record(name: str, record: bytes, is_first: bool = False) -> Features:
    """The features of a record. Raises a DataError that names it if it is no Example."""
    example, finding = tf.train.Example(), "bytes that are no tf.train.Example"
    with contextlib.suppress(DecodeError):
        if example.MergeFromString(record) == len(record):
            if not is_first or not tf.train.SequenceExample.FromString(record).HasField(
                "feature_lists"
            ):
                return dict(example.features.feature)
            finding = "a tf.train.SequenceExample"
    raise DataError(
        f"{name}: expected a tf.train.Example, found {finding}.",
        hint="Write each record as tf.train.Example(...).SerializeToString().",
    )


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


def only_value(features: Features, key: str, name: str) -> Any:
    """The one value of a key in a record. Raises a DataError if it has none or several."""
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
    return join_names(sorted(keys), 12) or "none"


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
        files.enter_context(quiet_parsing())
        for shard in shards:
            for number, (position, record) in enumerate(iterate_records(shard)):
                name = f"{shard.path}: record {number}"
                features = parse_record(name, record, is_first=not number)
                keys.update(list(features))
                digest = hashlib.blake2b(digest_size=8)
                for plan, row, number_of, file in zip(plans, rows, texts, values):
                    kind = plan.kind if plan.kind in _DTYPES else BYTES
                    _check_kind(features, plan.key, kind, name)
                    if kind == BYTES:
                        content = only_value(features, plan.key, name)
                    else:  # equal values have equal bytes, however they are written
                        content = values_of(features, plan.key).tobytes()
                    if plan.kind in _DTYPES:
                        row.append(len(content) // _DTYPES[plan.kind].itemsize)
                        file.write(content)
                    elif plan.kind == NAME:
                        try:
                            text = content.decode("utf-8")
                        except UnicodeDecodeError:
                            raise _value_error(name, plan.key, "other bytes than UTF-8") from None
                        row.append(number_of.setdefault(text, len(number_of)))
                        if len(number_of) > MAX_CLASSES:
                            raise _value_error(name, plan.key, f"more than {MAX_CLASSES:,} texts")
                    else:
                        row.extend((position + record.index(content), len(content)))
                    sizes = []
                    for key in plan.size_keys:
                        _check_kind(features, key, INTEGERS, name)
                        sizes.append(only_value(features, key, name).tobytes())
                    if plan.kind == IMAGE:
                        row.extend(_read_header(sizes, content, plan.key, name))
                    for part in (content, *sizes) if plan.is_content else ():
                        digest.update(len(part).to_bytes(8, "little") + part)
                digests += digest.digest()
            ends.append(len(digests) // 8)
    for number, row in enumerate(rows):
        np.array(row, np.int64).tofile(os.path.join(folder, f"rows{number}.bin"))
    np.frombuffer(digests, np.uint8).tofile(os.path.join(folder, "digests.bin"))
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as json_file:
        json.dump([ends, keys, list(map(list, texts))], json_file)


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
