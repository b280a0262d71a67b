"""TFRecord files: records one after the other, each with its length and two checksums."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
import zlib
from typing import IO, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ...compat import iterate_tfrecords, tf
from ...errors import DataError
from ...files import open_regular_file, plain_path
from ..files.cache import cache_folder, writing_to_cache
from ..files.memory import format_bytes

GROUP = "records"  # the folder of the cache
HINT = "Write records with tf.io.TFRecordWriter, plain or compressed."
RECOPY = "The file is damaged; copy it again."
_HEADER, _FOOTER = 12, 4  # bytes before and behind a record: its length, and two checksums
_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 20  # bytes
_MAX_RATIO = 200  # of bytes after and before unpacking: no real data repeats itself so often
_SMALL = 1 << 28  # bytes that every file may unpack to
_RESERVE = 1 << 28  # bytes of the cache's disk that stay free
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


def list_shards(
    paths: Sequence[str], digests: Sequence[str], cache_dir: Optional[str] = None
) -> List[Shard]:
    """The shards of files; compressed ones are first unpacked into the cache.

    Args:
        paths: of the files.
        digests: their SHA-256.
        cache_dir: the cache folder; None for the default.

    Raises:
        DataError: a file has no TFRecords.
    """
    shards = []
    for path, digest in zip(paths, digests):
        with open_regular_file(path) as file:
            head = file.read(_HEADER)
        is_plain = not head or _begins_record(head)
        records = path if is_plain else _unpack(path, digest, head, cache_dir)
        shards.append(Shard(path, digest, records, os.path.getsize(records)))
    return shards


def is_record_file(path: str) -> bool:
    """Whether the content of a file begins as that of TFRecords, plain or compressed."""
    if not os.path.isfile(path):
        return False
    with open_regular_file(path) as file:
        head = file.read(_HEADER)
        if _begins_stream(head):
            file.seek(0)
            with contextlib.suppress(DataError):
                head = next(_unpacked_chunks(file, path), b"")
    return _begins_record(head)


def iterate_records(shard: Shard) -> Iterator[Tuple[int, bytes]]:
    """The records of a shard, each with its position in the file; checksums are verified.

    Raises:
        DataError: a record is damaged; the message names it.
    """
    position = number = 0
    with plain_path(shard.records) as path, open_regular_file(shard.records) as file:
        records = iterate_tfrecords(path)
        while position < shard.size:
            length = _record_length(file, position)
            # TensorFlow would allocate any length that has the right checksum.
            if length is None or length > shard.size - position - _HEADER - _FOOTER:
                raise damaged_record(shard, number, "the file's end")
            try:
                record = next(records)
            except (tf.errors.OpError, StopIteration):
                raise damaged_record(shard, number, "a wrong checksum") from None
            yield position + _HEADER, record
            position += _HEADER + length + _FOOTER
            number += 1


def damaged_record(shard: Shard, number: int, finding: str) -> DataError:
    return DataError(
        f"{shard.path}: record {number}: expected a whole record, found {finding}.", hint=RECOPY
    )


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


def _record_length(file: IO[bytes], position: int) -> Optional[int]:
    content = os.pread(file.fileno(), _LENGTH.size, position)
    return int(_LENGTH.unpack(content)[0]) if len(content) == _LENGTH.size else None


def _begins_record(head: bytes) -> bool:
    """Whether bytes begin with the length of a record and its right checksum."""
    if len(head) < _HEADER:
        return False
    return masked_crc32c(head[:8]) == struct.unpack_from("<I", head, 8)[0]


def masked_crc32c(content: bytes) -> int:
    """The checksum of TFRecord files; slow, for few bytes."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# --------------------------------------------------------------------------------------- the cache


@contextlib.contextmanager
def new_cache_folder(folder: str) -> Iterator[str]:
    """Yield a temporary folder, which takes the place of `folder` if the block succeeds."""
    parent = os.path.dirname(folder)
    with writing_to_cache():
        os.makedirs(parent, exist_ok=True)
        temporary = tempfile.mkdtemp(prefix=".writing-", dir=parent)
    try:
        yield temporary
        shutil.rmtree(folder, ignore_errors=True)  # damaged, or of a process that was as fast
        with writing_to_cache(), contextlib.suppress(FileExistsError):
            os.rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unpack(path: str, digest: str, head: bytes, cache_dir: Optional[str]) -> str:
    """Unpack a file of GZIP or ZLIB into the cache; returns the path of the plain records.

    Raises:
        DataError: the file is not compressed, damaged, or too large when unpacked.
    """
    folder = os.path.join(cache_folder(cache_dir), GROUP, "unpacked-" + digest[:32])
    target = os.path.join(folder, "records")
    if os.path.exists(target):
        return target
    if not _begins_stream(head):
        raise DataError(
            f"{path}: expected TFRecords, found bytes {head[:4].hex()}.",
            hint=HINT,
        )
    with new_cache_folder(folder) as temporary:
        _unpack_file(path, os.path.join(temporary, "records"))
    return target


def _unpack_file(path: str, target: str) -> None:
    """Write the unpacked content of a compressed file of records."""
    with open_regular_file(path) as source, writing_to_cache(), open(target, "wb") as file:
        limit = _unpacked_limit(path, os.path.dirname(target))
        for chunk in _unpacked_chunks(source, path):
            if not file.tell() and not _begins_record(chunk):
                raise DataError(
                    f"{path}: expected TFRecords, found another compressed file.", hint=HINT
                )
            if file.tell() + len(chunk) > limit:
                raise DataError(
                    f"{path}: expected at most {format_bytes(limit)} of records, found more when "
                    "it was unpacked.",
                    hint="Free some space in the cache, or write plain records.",
                )
            file.write(chunk)


def _unpacked_limit(path: str, folder: str) -> int:
    """The most bytes that a file may unpack to."""
    plausible = max(_SMALL, _MAX_RATIO * os.path.getsize(path))
    return max(0, min(plausible, shutil.disk_usage(folder).free - _RESERVE))


def _begins_stream(head: bytes) -> bool:
    """Whether bytes begin a stream of GZIP or ZLIB."""
    is_zlib = len(head) > 1 and head[0] == 0x78 and (head[0] * 256 + head[1]) % 31 == 0
    return head[:2] == b"\x1f\x8b" or is_zlib


def _unpacked_chunks(source: IO[bytes], path: str) -> Iterator[bytes]:
    """The content of a compressed file, which may have several streams, in pieces.

    Raises:
        DataError: the file is damaged.
    """
    stream, content = zlib.decompressobj(_AUTOMATIC), source.read(_CHUNK)
    try:
        while content or not stream.eof:
            if stream.eof:
                stream = zlib.decompressobj(_AUTOMATIC)
            if not content:
                raise zlib.error("it ends early")
            chunk = stream.decompress(content, _CHUNK)
            if chunk:
                yield chunk
            content = stream.unused_data if stream.eof else stream.unconsumed_tail
            content = content or source.read(_CHUNK)
    except zlib.error as error:
        raise DataError(
            f"{path}: expected a compressed file, found a damaged one ({error}).", hint=RECOPY
        ) from None
