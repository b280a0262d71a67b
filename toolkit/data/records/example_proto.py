"""The wire format of `tf.train.Example`: where the values of each key are in a record.

An Example is a map from keys to lists: of bytes, of floats, or of integers. Only positions are
returned, so that the bytes of an image are later read from the middle of a file.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

import numpy as np

BYTES, FLOATS, INTEGERS, EMPTY = "bytes", "floats", "integers", "empty"
_LIST_KINDS = {0x0A: BYTES, 0x12: FLOATS, 0x1A: INTEGERS}  # tag of the list -> kind
_FIRST, _SECOND = 0x0A, 0x12  # tags of the fields 1 and 2, with bytes
_VARINT, _FIXED32 = 0x08, 0x0D  # tags of one integer, and of one float, that are not packed
_NO_EXAMPLE = "bytes that are no tf.train.Example"
_MAX_VARINT = 10  # bytes
_FEW = 16  # bytes
_UINT64 = 2**64 - 1


class Feature(NamedTuple):
    """The list of values of a key: `record[start:end]` is the message of the list."""

    kind: str  # BYTES, FLOATS, INTEGERS, or EMPTY
    start: int
    end: int


class WireError(ValueError):
    """A record is no Example; the message ends a sentence that begins with "found"."""


def locate_features(record: bytes) -> Dict[bytes, Feature]:
    """The list of each key of a serialized Example.

    Raises:
        WireError: the record is another message, or damaged.
    """
    features: Dict[bytes, Feature] = {}
    for tag, start, end in _split(record, 0, len(record)):
        if tag == _SECOND:
            raise WireError("a tf.train.SequenceExample")
        _check(tag == _FIRST)
        for tag, entry_start, entry_end in _split(record, start, end):
            _check(tag == _FIRST)
            _locate_entry(record, entry_start, entry_end, features)
    return features


def _locate_entry(record: bytes, start: int, end: int, features: Dict[bytes, Feature]) -> None:
    """Add one entry of the map to `features`."""
    key, feature = b"", Feature(EMPTY, end, end)
    for tag, part_start, part_end in _split(record, start, end):
        if tag == _FIRST:
            key = record[part_start:part_end]
            continue
        _check(tag == _SECOND)
        parts = _split(record, part_start, part_end)
        _check(len(parts) < 2)
        for kind, list_start, list_end in parts:
            _check(kind in _LIST_KINDS)
            feature = Feature(_LIST_KINDS[kind], list_start, list_end)
    features[key] = feature


def list_bytes(record: bytes, feature: Feature) -> List[Tuple[int, int]]:
    """The start and the end of each value of a list of bytes."""
    parts = _split(record, feature.start, feature.end)
    _check(all(tag == _FIRST for tag, _, _ in parts))
    return [(start, end) for _, start, end in parts]


def read_floats(record: bytes, feature: Feature) -> np.ndarray:
    """The values of a list of floats, float32 [length]."""
    chunks, position = [], feature.start
    while position < feature.end:
        if record[position] == _FIXED32:
            start, end = position + 1, position + 5
        else:
            start, end = _packed_chunk(record, position, feature.end)
        _check(end <= feature.end and (end - start) % 4 == 0)
        chunks.append(np.frombuffer(record, "<f4", (end - start) // 4, start))
        position = end
    return _join(chunks, np.float32)


def read_integers(record: bytes, feature: Feature) -> np.ndarray:
    """The values of a list of integers, int64 [length]."""
    chunks, position = [], feature.start
    while position < feature.end:
        if record[position] == _VARINT:
            start, end = position + 1, _end_of_varint(record, position + 1, feature.end)
        else:
            start, end = _packed_chunk(record, position, feature.end)
        chunks.append(decode_varints(np.frombuffer(record, np.uint8, end - start, start)))
        position = end
    return _join(chunks, np.int64)


def decode_varints(content: np.ndarray) -> np.ndarray:
    """Integers of 7 bits per byte, the lowest first; the highest bit of a byte is set if the
    integer continues.

    Args:
        content: uint8 [bytes].

    Returns:
        int64 [integers].
    """
    if len(content) <= _FEW:  # as of a label
        return _decode_few(content.tobytes())
    ends = np.flatnonzero(content < 128)
    _check(len(ends) > 0 and ends[-1] == len(content) - 1)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    _check(lengths.max() <= _MAX_VARINT)
    places = np.arange(len(content)) - np.repeat(starts, lengths)
    parts = (content & 127).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.add.reduceat(parts, starts).astype(np.int64)


def _decode_few(content: bytes) -> np.ndarray:
    """As `decode_varints`, faster for few bytes."""
    values, position = [], 0
    while position < len(content):
        value, position = _read_varint(content, position)
        values.append(value & _UINT64)
    return np.array(values, np.uint64).astype(np.int64)


def _packed_chunk(record: bytes, position: int, limit: int) -> Tuple[int, int]:
    """The start and the end of the packed values in the field at `position`."""
    _check(record[position] == _FIRST)
    size, start = _read_varint(record, position + 1)
    _check(start + size <= limit)
    return start, start + size


def _end_of_varint(record: bytes, position: int, limit: int) -> int:
    while position < limit and record[position] > 127:
        position += 1
    _check(position < limit)
    return position + 1


def _join(chunks: List[np.ndarray], dtype: type) -> np.ndarray:
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate(chunks) if chunks else np.zeros(0, dtype)


def _split(record: bytes, start: int, end: int) -> List[Tuple[int, int, int]]:
    """The fields of a message, all of which have bytes: the tag, start and end of each.

    Raises:
        WireError: a field is longer than the message, or has no bytes.
    """
    fields = []
    end_of_sizes = end - 1
    while start < end_of_sizes:
        tag, size = record[start], record[start + 1]
        start += 2
        if size > 127:
            size, start = _read_varint(record, start - 1)
        stop = start + size
        if stop > end or tag & 7 != 2:
            raise WireError(_NO_EXAMPLE)
        fields.append((tag, start, stop))
        start = stop
    _check(start == end)
    return fields


def _read_varint(record: bytes, position: int) -> Tuple[int, int]:
    """An unsigned integer and the position behind it."""
    value = shift = 0
    for byte in record[position : position + _MAX_VARINT]:
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise WireError(_NO_EXAMPLE)


def _check(is_valid: bool) -> None:
    if not is_valid:
        raise WireError(_NO_EXAMPLE)
