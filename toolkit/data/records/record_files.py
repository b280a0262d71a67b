"""TFRecord files: records one after the other, each with its length and two checksums."""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import zlib
from typing import IO, Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ...compat import tf
from ...errors import DataError
from ...files import open_regular_file, plain_path
from ..files.cache import open_entry, translate_read_errors

GROUP = "records"  # the folder of the cache
HINT = "Write records with tf.io.TFRecordWriter, plain or compressed."
RECOPY = "The file is damaged; copy it again."
_HEADER, _FOOTER = 12, 4  # bytes before and behind a record: its length, and two checksums
_CHUNK = 1 << 20  # bytes
_AUTOMATIC = 32 + zlib.MAX_WBITS  # zlib finds out whether it reads GZIP or ZLIB


class Shard(NamedTuple):
    """A file of records.

    Attributes:
        path: of the file.
        digest: its SHA-256, hex digits.
        records: the file with the plain records: the same one, or the unpacked one in the cache.
        size: of `records`, in bytes.
    """

    path: str
    digest: str
    records: str
    size: int


def list_shards(paths: Sequence[str], digests: Sequence[str]) -> List[Shard]:
    """The shards of files; compressed ones are first unpacked into the cache.

    Args:
        paths: of the files.
        digests: their SHA-256.

    Raises:
        DataError: a file has no TFRecords.
    """
    shards = []
    for path, digest in zip(paths, digests):
        records = path
        if _is_compressed(path):
            build = functools.partial(_unpack, path)
            folder = open_entry(GROUP, "unpacked-" + digest[:32], build)
            records = os.path.join(folder, "records")
        shards.append(Shard(path, digest, records, os.path.getsize(records)))
    return shards


def is_record_file(path: str) -> bool:
    """Whether the content of a file begins as that of TFRecords, plain or compressed."""
    return os.path.isfile(path) and any(_has_record(path, c) for c in ("", "GZIP", "ZLIB"))


def _is_compressed(path: str) -> bool:
    """Whether a file begins a stream of GZIP or ZLIB, and not by chance."""
    with open_regular_file(path) as file:
        head = file.read(2)
    is_zlib = head[:1] == b"\x78" and len(head) == 2 and int.from_bytes(head, "big") % 31 == 0
    return (head == b"\x1f\x8b" or is_zlib) and not _has_record(path, "")


def _has_record(path: str, compression: str) -> bool:
    """Whether TensorFlow can read the first record of a file."""
    with open_regular_file(path) as file:
        length = _record_length(file, 0)
    if not compression and (length is None or length > os.path.getsize(path)):
        return False  # TensorFlow would allocate any length that has the right checksum
    with plain_path(path) as plain, contextlib.suppress(tf.errors.OpError, StopIteration):
        next(tf.io.tf_record_iterator(plain, tf.io.TFRecordOptions(compression)))
        return True
    return False


def iterate_records(shard: Shard) -> Iterator[Tuple[int, bytes]]:
    """The records of a shard, each with its position in the file; checksums are verified.

    Raises:
        DataError: a record is damaged; the message names it.
    """
    position = number = 0
    with translate_read_errors(), open_regular_file(shard.records) as file, plain_path(
        shard.records
    ) as path:
        records = tf.io.tf_record_iterator(path)
        while position < shard.size:
            length = _record_length(file, position)
            is_cut = length is None or length > shard.size - position - _HEADER - _FOOTER
            record: Optional[bytes] = None
            with contextlib.suppress(tf.errors.OpError, StopIteration):
                record = None if is_cut else next(records)
            if record is None:
                finding = "the file's end" if is_cut else "a wrong checksum"
                raise DataError(
                    f"{shard.path}: record {number}: expected a whole record, found {finding}.",
                    hint=RECOPY if number else f"{RECOPY} {HINT}",
                )
            yield position + _HEADER, record
            position += _HEADER + len(record) + _FOOTER
            number += 1


def _record_length(file: IO[bytes], position: int) -> Optional[int]:
    content = os.pread(file.fileno(), 8, position)
    return int(struct.unpack("<Q", content)[0]) if len(content) == 8 else None


def read_span(shard: Shard, start: int, size: int) -> bytes:
    """Some bytes of a shard's plain records.

    Raises:
        DataError: the file is shorter or longer than before.
    """
    with open(shard.records, "rb", buffering=0) as file:
        descriptor = file.fileno()
        if os.fstat(descriptor).st_size == shard.size:
            content = os.pread(descriptor, size, start)
            if len(content) == size:
                return content
    raise DataError(
        f"{shard.records}: expected {shard.size:,} bytes: the file changed while it was used.",
        hint="Put the same file back.",
    )


def _unpack(path: str, folder: str) -> None:
    """Write the content of a compressed file, which may have several streams."""
    target = os.path.join(folder, "records")
    stream: Any = zlib.decompressobj(_AUTOMATIC)
    with open(target, "wb") as file, translate_read_errors(), open_regular_file(path) as source:
        content = source.read(_CHUNK)
        try:
            while content or not stream.eof:
                if stream.eof:
                    stream = zlib.decompressobj(_AUTOMATIC)
                if not content:
                    raise zlib.error("it ends early")
                file.write(stream.decompress(content, _CHUNK))
                content = stream.unused_data if stream.eof else stream.unconsumed_tail
                content = content or source.read(_CHUNK)
        except zlib.error as error:
            raise DataError(
                f"{path}: expected a compressed file, found a damaged one ({error}).", hint=RECOPY
            ) from None
    if not _has_record(target, ""):
        raise DataError(f"{path}: expected TFRecords, found another compressed file.", hint=HINT)
