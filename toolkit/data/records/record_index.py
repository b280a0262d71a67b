"""The index of TFRecord files in the cache: the values of numeric keys, and where all others are.

The records are read once from beginning to end, and their checksums are verified. The index is
named by the SHA-256 of the files, so a second start reads no record.

Legend: M records of all files, S files (shards), T values of all records together.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import os
from typing import Any, Counter, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..column import MAX_CLASSES
from ..files.cache import cache_folder, writing_to_cache
from ..images.image_file import decode_header
from .example_proto import (
    BYTES,
    FLOATS,
    INTEGERS,
    Feature,
    WireError,
    list_bytes,
    locate_features,
    read_floats,
    read_integers,
)
from .record_files import GROUP, Shard, iterate_records, new_cache_folder

IMAGE, SPAN, NAME = "image", "span", "name"  # further kinds of keys, beside FLOATS and INTEGERS
_VERSION = 3  # of the files in the cache
_BUFFER = 1 << 22  # bytes of values in memory before they are written
_MAX_NAMES = 12  # keys in a message


class KeyPlan(NamedTuple):
    """What the index has of one key.

    Attributes:
        key: the name in the records.
        kind: FLOATS or INTEGERS for the values, SPAN for the positions of bytes, IMAGE for those
            of an image and its header, NAME for the number of a text among all, sorted.
        is_content: whether the key tells examples apart, as features do.
    """

    key: str
    kind: str
    is_content: bool = False


class RecordIndex:
    """The index of shards, opened from a folder of the cache.

    Args:
        folder: the folder.
        shards: the files.

    Raises:
        OSError, ValueError, KeyError, TypeError: it is missing or damaged.

    Attributes:
        counts: records of each shard, int64 [S].
        keys: name -> number of records that have the key.
        digests: a hash of the content of each example, uint64 [M].
    """

    def __init__(self, folder: str, shards: Sequence[Shard]):
        with open(os.path.join(folder, "index.json")) as file:
            values = json.load(file)
        self._folder = folder
        self.shards = list(shards)
        self.counts = np.array(values["counts"], np.int64)
        self.ends = np.cumsum(self.counts)
        self.keys: Dict[str, int] = values["keys"]
        self._columns: Dict[str, Dict[str, Any]] = values["columns"]
        if _file_sizes(folder) != values["sizes"]:
            raise ValueError("a file of the index was cut")
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
    shards: Sequence[Shard], plan: Sequence[KeyPlan], cache_dir: Optional[str] = None
) -> RecordIndex:
    """The index of shards, from the cache or built now.

    Args:
        shards: the files.
        plan: what the index has of each key.
        cache_dir: the cache folder; None for the default.

    Raises:
        DataError: a record is damaged, or lacks a key.
    """
    values = json.dumps([_VERSION, [shard.digest for shard in shards], plan])
    name = "index-" + hashlib.sha256(values.encode()).hexdigest()[:32]
    folder = os.path.join(cache_folder(cache_dir), GROUP, name)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # missing, or damaged
        return RecordIndex(folder, shards)
    with new_cache_folder(folder) as temporary:
        _IndexWriter(temporary, plan).write(shards)
    return RecordIndex(folder, shards)


def _file_sizes(folder: str) -> Dict[str, int]:
    """The size in bytes of each file of arrays in a folder."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(".bin"))
    return {name: os.path.getsize(os.path.join(folder, name)) for name in names}


# ----------------------------------------------------------------------------------------- writing


class _Output:
    """A file of the index to which arrays of numbers are appended."""

    def __init__(self, folder: str, name: str, dtype: str):
        self._path = os.path.join(folder, name + ".bin")
        self._dtype = np.dtype(dtype)
        self._values: List[int] = []
        self._chunks: List[np.ndarray] = []
        self._size = 0  # values in memory
        self.flush()  # so that the file exists

    def append(self, *values: int) -> None:
        """Append single numbers."""
        self._values.extend(values)
        self._size += len(values)
        self._flush_if_large()

    def append_array(self, array: np.ndarray) -> None:
        self._chunks.append(array)
        self._size += len(array)
        self._flush_if_large()

    def flush(self) -> None:
        chunks = self._chunks + [np.array(self._values, self._dtype)]
        with writing_to_cache(), open(self._path, "ab") as file:
            file.write(np.concatenate(chunks).astype(self._dtype).tobytes())
        self._values, self._chunks, self._size = [], [], 0

    def load(self) -> np.ndarray:
        """All numbers, in memory."""
        self.flush()
        return np.fromfile(self._path, self._dtype)

    def replace(self, array: np.ndarray) -> None:
        """Write other numbers in the place of all."""
        with writing_to_cache():
            array.astype(self._dtype).tofile(self._path)

    def _flush_if_large(self) -> None:
        if self._size * self._dtype.itemsize > _BUFFER:
            self.flush()


# Each writer's `add` returns the values of a record as bytes, which do not depend on how the
# message of the list is written: equal values have equal bytes.


class _Spans:
    """Positions of bytes, and the headers of images."""

    kind = BYTES

    def __init__(self, folder: str, name: str, plan: KeyPlan):
        self._file = name
        self._spans = _Output(folder, name, "<i8")
        self._headers = _Output(folder, name + "-headers", "<i4") if plan.kind == IMAGE else None

    def add(self, record: bytes, feature: Feature, position: int, source: str) -> bytes:
        start, end = _single_span(record, feature)
        self._spans.append(position + start, end - start)
        content = record[start:end]
        if self._headers is not None:
            self._headers.append(*map(int, decode_header(content, source)[:4]))
        return content

    def finish(self) -> Dict[str, Any]:
        self._spans.flush()
        if self._headers is not None:
            self._headers.flush()
        return {"file": self._file}


class _Names:
    """Texts as numbers."""

    kind = BYTES

    def __init__(self, folder: str, name: str, plan: KeyPlan):
        self._file = name
        self._output = _Output(folder, name, "<i4")
        self._numbers: Dict[bytes, int] = {}

    def add(self, record: bytes, feature: Feature, position: int, source: str) -> bytes:
        start, end = _single_span(record, feature)
        text = record[start:end]
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = _check_name(text, len(self._numbers))
        self._output.append(number)
        return text

    def finish(self) -> Dict[str, Any]:
        texts = sorted(self._numbers)
        ranks = np.zeros(len(texts), np.int32)
        ranks[[self._numbers[text] for text in texts]] = np.arange(len(texts))
        self._output.replace(ranks[self._output.load()])
        return {"file": self._file, "names": [text.decode("utf-8") for text in texts]}


def _check_name(text: bytes, number: int) -> int:
    """The number of a new text. Raises a WireError if it cannot be the name of a class."""
    if number >= MAX_CLASSES:
        raise WireError(f"more than {MAX_CLASSES:,} different texts")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        raise WireError("other bytes") from None
    return number


class _Numbers:
    """Values of a list of numbers."""

    def __init__(self, folder: str, name: str, plan: KeyPlan):
        self.kind = plan.kind
        self._file = name
        self._dtype = "<f4" if plan.kind == FLOATS else "<i8"
        self._values = _Output(folder, name, self._dtype)
        self._starts = _Output(folder, name + "-starts", "<i8")
        self._read = read_floats if plan.kind == FLOATS else read_integers
        self._end = 0
        self._lengths: Counter[int] = collections.Counter()
        self._starts.append(0)

    def add(self, record: bytes, feature: Feature, position: int, source: str) -> bytes:
        values = self._read(record, feature)
        self._values.append_array(values)
        self._end += len(values)
        self._starts.append(self._end)
        self._lengths[len(values)] += 1
        return values.tobytes()

    def finish(self) -> Dict[str, Any]:
        self._values.flush()
        self._starts.flush()
        length = next(iter(self._lengths), 1) if len(self._lengths) < 2 else None
        return {"file": self._file, "dtype": self._dtype, "length": length}


_WRITERS = {IMAGE: _Spans, SPAN: _Spans, NAME: _Names, FLOATS: _Numbers, INTEGERS: _Numbers}


class _IndexWriter:
    """Reads all records of shards and writes their index into a folder."""

    def __init__(self, folder: str, plan: Sequence[KeyPlan]):
        self._folder = folder
        self._plan = plan
        self._writers: List[Any] = [
            _WRITERS[each.kind](folder, f"key{i}", each) for i, each in enumerate(plan)
        ]
        self._digests = _Output(folder, "digests", "<u8")
        self._keys: Counter[bytes] = collections.Counter()

    def write(self, shards: Sequence[Shard]) -> None:
        counts = []
        for shard in shards:
            number = -1
            for number, (position, record) in enumerate(iterate_records(shard)):
                self._add(shard, number, position, record)
            counts.append(number + 1)
        self._digests.flush()
        columns = {plan.key: writer.finish() for plan, writer in zip(self._plan, self._writers)}
        values = {
            "counts": counts,
            "keys": {_text_of(key): count for key, count in self._keys.items()},
            "columns": columns,
            "sizes": _file_sizes(self._folder),
        }
        with writing_to_cache(), open(os.path.join(self._folder, "index.json"), "w") as file:
            json.dump(values, file)

    def _add(self, shard: Shard, number: int, position: int, record: bytes) -> None:
        features = locate_record(shard, number, record)
        self._keys.update(list(features))
        digest = hashlib.blake2b(digest_size=8)
        for plan, writer in zip(self._plan, self._writers):
            feature = features.get(plan.key.encode())
            if feature is None or feature.kind != writer.kind:
                raise _missing_key_error(shard, number, plan, writer.kind, features)
            try:
                content = writer.add(record, feature, position, f"{shard.path}: record {number}")
            except WireError as error:
                raise DataError(
                    f"{shard.path}: record {number}: expected {_describe(plan)}, found {error}.",
                    hint="Write one value for each record, or name another key.",
                ) from None
            if plan.is_content:
                digest.update(len(content).to_bytes(8, "little") + content)
        self._digests.append(int.from_bytes(digest.digest(), "little"))


def locate_record(shard: Shard, number: int, record: bytes) -> Dict[bytes, Feature]:
    """The features of a record. Raises a DataError that names it if it is no Example."""
    try:
        return locate_features(record)
    except WireError as error:
        raise DataError(
            f"{shard.path}: record {number}: expected a tf.train.Example, found {error}.",
            hint="Write each record as tf.train.Example(...).SerializeToString().",
        ) from None


def _single_span(record: bytes, feature: Feature) -> Tuple[int, int]:
    spans = list_bytes(record, feature)
    if len(spans) != 1:
        raise WireError(f"{len(spans)} values")
    return spans[0]


def _missing_key_error(
    shard: Shard, number: int, plan: KeyPlan, kind: str, features: Dict[bytes, Feature]
) -> DataError:
    place = f"{shard.path}: record {number}"
    feature = features.get(plan.key.encode())
    if feature is not None:
        return DataError(
            f"{place}: expected {kind} in the key '{plan.key}' as in the first record, found "
            f"{feature.kind}.",
            hint="Write each key with one type.",
        )
    return DataError(
        f"{place}: expected the key '{plan.key}' as in the first record, found the keys "
        f"{describe_keys(features)}.",
        hint="Write the key in all records or in none, or name another one.",
    )


def describe_keys(keys: Any) -> str:
    """The keys of a record in a message, sorted."""
    names = sorted(_text_of(key) if isinstance(key, bytes) else key for key in keys)
    rest = [f"and {len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    return ", ".join(names[:_MAX_NAMES] + rest) or "none"


def _describe(plan: KeyPlan) -> str:
    """What the values of a key should be, in a message."""
    values = {
        IMAGE: "an image",
        SPAN: "one text",
        NAME: "one name in UTF-8",
        FLOATS: "floats",
        INTEGERS: "integers",
    }
    return f"{values[plan.kind]} in the key '{plan.key}'"


def _text_of(key: bytes) -> str:
    return key.decode("utf-8", "replace")
