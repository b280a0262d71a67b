"""The files that `tfrecord:PATH` names: which there are, the splits that their names say, and their
records, which lie one after the other, each with its length and two checksums.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import glob
import os
import re
import struct
import zlib
from typing import IO, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ...compat import tf
from ...errors import DataError, join_names
from ...files import open_regular_file, plain_path
from ..files.cache import open_entry, translate_read_errors
from ..images.folder import SPLIT_FOLDERS, raise_error

GROUP = "records"  # the folder of the cache
HINT = "Write records with tf.io.TFRecordWriter, plain or compressed."
RECOPY = "The file is damaged; copy it again."
_HEADER, _FOOTER = 12, 4  # bytes before and behind a record: its length, and two checksums
_CHUNK = 1 << 16  # bytes, which are at most a thousand times as many once they are unpacked
_AUTOMATIC = 32 + zlib.MAX_WBITS  # zlib finds out whether it reads GZIP or ZLIB
_SHARD = re.compile(r"(?P<start>.*?)-(?P<number>\d{3,})-of-(?P<total>\d{3,})(?P<end>.*)", re.DOTALL)
_RECORDS = re.compile(r"tfrec|-\d{3,}-of-\d{3,}|\.records?(\.|$)", re.IGNORECASE)


def find_shards(place: str) -> Tuple[Dict[str, List[str]], List[str]]:
    """Split name -> its files of records at a place (a file, a folder, or a pattern such as
    `data/train-*`), "train" first; and sentences on files that are missing or have no records.

    Raises a DataError if there is no such file, or only some names contain the name of a split.
    """
    notes = []
    if os.path.isdir(place):
        found = _walk(place)
        paths = [path for path in found if _RECORDS.search(os.path.basename(path))] or found
        others = [os.path.basename(path) for path in found if path not in set(paths)]
        if others:
            notes.append(f"Files without records are not read: {join_names(others, 10)}.")
    elif os.path.exists(place):
        paths = [place]
    else:
        paths = [p for p in sorted(glob.glob(place, recursive=True)) if not os.path.isdir(p)]
    first_of = {os.path.realpath(path): path for path in reversed(paths)}  # others are links to it
    paths = [path for path in paths if first_of[os.path.realpath(path)] == path]
    if not paths:
        raise DataError(
            f"{place}: expected TFRecord files, found none.",
            hint="Give a file, a folder of .tfrecord files, or a pattern such as 'data/train-*', "
            "in which [[] stands for a bracket [.",
        )
    return _divide(paths), notes + _find_gaps(paths)


def _walk(root: str) -> List[str]:
    """The files in a folder and in those below it, sorted, each folder once and no hidden one."""
    paths, places = [], {os.path.realpath(root)}
    for base, folders, names in os.walk(root, onerror=raise_error, followlinks=True):
        paths += [os.path.join(base, name) for name in names if not name.startswith(".")]
        for name in sorted(folders):
            place = os.path.realpath(os.path.join(base, name))
            if name.startswith(".") or place in places:
                folders.remove(name)
            places.add(place)
    return sorted(paths)


def _divide(paths: Sequence[str]) -> Dict[str, List[str]]:
    """Split name -> its files. Files of one split, or without names of splits, are all "train"."""
    root = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    outer = os.path.basename(root).lower()
    splits: Dict[Optional[str], List[str]] = collections.defaultdict(list)
    for path in paths:  # the split that the name of a file says, or else that of its nearest folder
        folder, name = os.path.split(path)
        below = os.path.relpath(folder or os.curdir, root).lower().split(os.sep)
        words = [*re.split(r"[^A-Za-z]+", name.lower()), *reversed([outer, *below])]
        splits[next((SPLIT_FOLDERS[w] for w in words if w in SPLIT_FOLDERS), None)].append(path)
    if len(splits) == 1:
        return {"train": list(paths)}
    if None in splits:
        raise DataError(
            f"{splits[None][0]}: expected the name of a split, train, validation or test, as in "
            f"{next(files[0] for name, files in splits.items() if name)}.",
            hint="Name the files of each split, or give a pattern that matches those of one.",
        )
    if "train" not in splits:
        raise DataError(
            f"{paths[0]}: expected files of the split 'train', too, found "
            f"{' and '.join(sorted(filter(None, splits)))} alone.",
            hint="Give a pattern that also matches the training files, or those of one split.",
        )
    return {name: splits[name] for name in ("train", "validation", "test") if name in splits}


def _find_gaps(paths: Sequence[str]) -> List[str]:
    """A sentence for each set of files `-00003-of-00010` that is not complete."""
    numbers = collections.defaultdict(set)
    for match in filter(None, map(_SHARD.fullmatch, paths)):
        numbers[match.group("start", "total", "end")].add(int(match.group("number")))
    notes = []
    for (start, width, end), present in sorted(numbers.items()):
        total = int(width)
        count = total - sum(number < total for number in present)
        if count:
            first = next(number for number in range(total) if number not in present)
            name = f"{os.path.basename(start)}-{first:0{len(width)}}-of-{width}{end}"
            more = " and others" if count > 1 else ""
            notes.append(f"{count:,} of {total:,} files are missing: {name}{more}.")
    return notes


# ----------------------------------------------------------------------------------------- records


class Shard(NamedTuple):
    """A file of records."""

    path: str
    digest: str  # its SHA-256, hex digits
    records: str  # the file with the plain records: the same one, or the unpacked one in the cache
    size: int  # of `records`, in bytes


def open_shard(path: str, digest: str) -> Shard:
    """The shard in a file with this SHA-256; a compressed one is first unpacked into the cache.

    Raises a DataError if the compressed file is damaged, or has no TFRecords.
    """
    records = path
    with open_regular_file(path) as file:
        head = file.read(2)
    is_zlib = head[:1] == b"\x78" and len(head) == 2 and int.from_bytes(head, "big") % 31 == 0
    if (head == b"\x1f\x8b" or is_zlib) and not _has_record(path, ""):  # not by chance
        build = functools.partial(_unpack, path)
        folder = open_entry(GROUP, "unpacked-" + digest[:32], build)
        records = os.path.join(folder, "records")
    return Shard(path, digest, records, os.path.getsize(records))


def is_record_file(path: str) -> bool:
    """Whether the content of a file begins as that of TFRecords, plain or compressed."""
    with contextlib.suppress(OSError):  # of a file that may not be read
        return os.path.isfile(path) and any(_has_record(path, c) for c in ("", "GZIP", "ZLIB"))
    return False


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
    """The records of a shard, each with its position in the file. Raises a DataError that names
    the first one that is cut or has a wrong checksum.
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
    """Some bytes of a shard's plain records. Raises a DataError if its size has changed."""
    with open(shard.records, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size == shard.size:
            return os.pread(file.fileno(), size, start)
    raise DataError(
        f"{shard.records}: expected {shard.size:,} bytes: the file changed while it was used.",
        hint="Put the same file back.",
    )


def _unpack(path: str, folder: str) -> None:
    """Write the content of a compressed file, which may have several streams."""
    target = os.path.join(folder, "records")
    stream: Any = zlib.decompressobj(_AUTOMATIC)
    with open(target, "wb") as file, open_regular_file(path) as source:

        def read() -> bytes:
            with translate_read_errors(path):  # not those of what is written
                return source.read(_CHUNK)

        try:
            for content in iter(read, b""):
                while content:
                    stream = zlib.decompressobj(_AUTOMATIC) if stream.eof else stream
                    file.write(stream.decompress(content))
                    content = stream.unused_data
            if not stream.eof:
                raise zlib.error("it ends early")
        except zlib.error as error:
            raise DataError(
                f"{path}: expected a compressed file, found a damaged one ({error}).", hint=RECOPY
            ) from None
    if not _has_record(target, ""):
        raise DataError(f"{path}: expected TFRecords, found another compressed file.", hint=HINT)
