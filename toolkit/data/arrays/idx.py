"""`idx:DIR`: IDX files, the format of MNIST; checked when opened, and memory-mapped.

A file has a header (two zero bytes, an element type, the number of dimensions, each dimension as a
big-endian 32-bit integer), then the elements. A file whose name ends in .gz is compressed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import struct
import zlib
from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from ...errors import DataError
from ..examples import Dataset, Split, check_label_range, describe
from ..files.cache import open_entry
from ..held_out import hold_out
from ..reading_options import Settings

ELEMENTS = {8: "uint8", 9: "int8", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
FEATURE_TYPES = ("uint8", ">f4")
LABEL_TYPES = ("uint8", ">i4")
_NAME = re.compile(r"^(?P<split>train|t10k|test)[-.](?P<kind>images|labels)[-.]idx\d-ubyte(\.gz)?$")
_RECOPY = "Copy or download the file again."
_MAX_EXPANSION = 1032  # uncompressed bytes for one byte of gzip data, at most
_CHUNK = 1 << 20  # bytes to unpack at a time
UNPACK_LIMIT = 1 << 30  # larger arrays are unpacked into the cache, and mapped


class Header(NamedTuple):
    """The header of an IDX file."""

    dtype: str  # a value of ELEMENTS
    shape: Tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes before the first element."""
        return 4 + 4 * len(self.shape)

    @property
    def payload(self) -> int:
        """Bytes of all elements."""
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count * np.dtype(self.dtype).itemsize


def read_idx(path: str, kind: str = "images") -> np.ndarray:
    """The array of an IDX file.

    It is a memory map of a plain file, and of a large .gz file, which is unpacked into the cache
    once. A small .gz file is read into memory.

    Args:
        path: the file.
        kind: "images" (uint8 of rank 3 or more, or float32 of rank 2 or more) or "labels" (uint8 or
            int32, rank 1).

    Raises:
        DataError: the file is missing, damaged or of another kind.
    """
    if not os.path.isfile(path):
        raise DataError(f"{path}: expected an IDX file, found none.", hint=_RECOPY)
    return _read_gzip(path, kind) if path.endswith(".gz") else _map_plain(path, kind)


def starts_as_idx(path: str) -> bool:
    """Whether a file begins like an IDX file, perhaps a compressed one."""
    try:
        with open(path, "rb") as file:
            start = file.read(4)
        if start[:2] == b"\x1f\x8b":
            with gzip.open(path, "rb") as file:
                start = file.read(4)
    except (OSError, EOFError, zlib.error):
        return False
    return start[:2] == b"\0\0" and len(start) == 4 and start[2] in ELEMENTS and 1 <= start[3] <= 8


def open_idx(settings: Settings, class_names: Tuple[str, ...] = ()) -> Dataset:
    """Open a folder of IDX files with the names of MNIST's; test files may be missing.

    Args:
        settings: with the folder.
        class_names: in the order of the labels; () for as many numbers as the labels need.

    Raises:
        DataError: a file is missing or damaged, or files do not fit together.
    """
    folder, index = settings.path, settings.files
    paths = _find_files(folder)
    files = {os.path.basename(path): path for pair in paths.values() for path in pair}
    splits = {split: read_pair(*pair) for split, pair in paths.items()}
    _check_shapes(splits, paths)
    count = len(class_names) or 1 + max(
        int(part.labels.max()) for part in splits.values() if part.labels is not None
    )
    for split, part in splits.items():
        check_label_range(part.labels, count, paths[split][1])
    spec = describe(splits["train"], class_names, count)
    hashes = dict(zip(files, index.digests(list(files.values()))))
    splits = hold_out(splits, settings.shares, index=index, files=list(hashes.values()))
    return Dataset("idx:" + folder, spec, splits, files, sha256=hashes)


def _check_shapes(splits: Dict[str, Split], paths: Dict[str, Any]) -> None:
    """Raise a DataError unless training and test images have one shape.

    Args:
        splits: by name.
        paths: of the images and labels of each split.
    """
    shapes = {split: part.shape for split, part in splits.items()}
    if "test" in shapes and shapes["test"] != shapes["train"]:
        raise DataError(
            f"{paths['test'][0]}: expected images of {list(shapes['train'])} as in "
            f"{paths['train'][0]}, found {list(shapes['test'])}.",
            hint="Use training and test files of one data set.",
        )


def read_pair(images: str, labels: Optional[str]) -> Split:
    """The split of an image file and its label file (or None)."""
    features = read_idx(images, "images")
    targets = read_idx(labels, "labels") if labels else None
    if targets is not None and len(features) != len(targets):
        raise DataError(
            f"{labels}: expected {len(features)} labels, one for each image of {images}, "
            f"found {len(targets)}.",
            hint="Use image and label files that belong together.",
        )
    try:
        return Split(features, targets)
    except DataError as error:
        raise DataError(f"{labels or images}: {error.message}", hint=error.hint) from None


def _find_files(folder: str) -> Dict[str, Tuple[str, str]]:
    """Split name -> (image file, label file). A plain file takes precedence over a .gz file."""
    if not os.path.isdir(folder):
        raise DataError(
            f"{folder}: expected a folder of IDX files, found none.",
            hint="Give the folder that holds train-images-idx3-ubyte and its companions.",
        )
    paths: Dict[Tuple[str, str], str] = {}
    for entry in sorted(os.listdir(folder), reverse=True):  # so that the plain file comes last
        match = _NAME.match(entry)
        if match:
            split = "train" if match.group("split") == "train" else "test"
            paths[split, match.group("kind")] = os.path.join(folder, entry)
    splits = ["train"] + (["test"] if any(split == "test" for split, _ in paths) else [])
    for split in splits:
        for kind in ("images", "labels"):
            if (split, kind) not in paths:
                rank = 3 if kind == "images" else 1
                name = f"{'train' if split == 'train' else 't10k'}-{kind}-idx{rank}-ubyte"
                present = ", ".join(sorted(os.listdir(folder))[:6]) or "nothing"
                raise DataError(
                    f"{folder}: expected {name} or {name}.gz, found {present}.",
                    hint="Place the missing file there under that name.",
                )
    return {split: (paths[split, "images"], paths[split, "labels"]) for split in splits}


def _parse_header(path: str, head: bytes) -> Header:
    """The header in the first bytes of a file."""
    if len(head) < 4:
        raise _wrong(path, "an IDX header of 4 bytes or more", f"{len(head)} bytes")
    if head[:2] != b"\0\0":
        start = " ".join(f"{byte:02x}" for byte in bytearray(head[:4]))
        raise _wrong(path, "an IDX magic number that starts 00 00", start)
    code, rank = bytearray(head[2:4])
    if code not in ELEMENTS:
        raise _wrong(path, "an IDX element type", f"0x{code:02x}")
    if not 1 <= rank <= 8:
        raise _wrong(path, "1 to 8 dimensions", str(rank))
    if len(head) < 4 + 4 * rank:
        raise _wrong(path, f"an IDX header of {4 + 4 * rank} bytes", f"{len(head)} bytes")
    return Header(ELEMENTS[code], struct.unpack(f">{rank}I", head[4 : 4 + 4 * rank]))


def _check_kind(path: str, header: Header, kind: str) -> None:
    """Raise a DataError unless an array can be "images" or "labels"."""
    rank = len(header.shape)
    if header.dtype not in (FEATURE_TYPES if kind == "images" else LABEL_TYPES):
        raise _wrong(path, "element type uint8 (0x08)", _type_name(header.dtype))
    if kind == "images" and rank < 2:
        raise _wrong(path, "images of 3 dimensions", f"{rank} dimension(s)")
    if kind == "labels" and rank != 1:
        raise _wrong(path, "labels of 1 dimension", f"{rank} dimensions")
    if 0 in header.shape:
        raise _wrong(path, "one example or more", f"dimensions {list(header.shape)}")


def _type_name(dtype: str) -> str:
    code = {name: code for code, name in ELEMENTS.items()}[dtype]
    return f"{np.dtype(dtype).newbyteorder('=').name} (0x{code:02x})"


def _map_plain(path: str, kind: str) -> np.ndarray:
    """A memory map of a plain file."""
    with open(path, "rb") as file:
        head = file.read(4 + 4 * 8)
    if head[:2] == b"\x1f\x8b":
        hint = "Add '.gz' to its name, or decompress it."
        raise _wrong(path, "a plain IDX file", "gzip data", hint)
    header = _parse_header(path, head)
    _check_kind(path, header, kind)
    _check_size(path, header, os.path.getsize(path))
    return np.memmap(path, header.dtype, "r", offset=header.size, shape=header.shape)


def _read_gzip(path: str, kind: str) -> np.ndarray:
    """The array of a compressed file."""
    with open(path, "rb") as file:
        start = file.read(4)
    if start[:2] != b"\x1f\x8b":
        content = " ".join(f"{byte:02x}" for byte in bytearray(start)) or "an empty file"
        hint = "If it is a plain IDX file, remove '.gz' from its name."
        raise _wrong(path, "gzip data", content, hint)
    try:
        with gzip.open(path, "rb") as file:
            head = file.read(4)
            head += file.read(4 * min(8, head[3])) if len(head) == 4 else b""
            header = _parse_header(path, head)
            _check_kind(path, header, kind)
            _check_expansion(path, header)
            if header.payload > UNPACK_LIMIT:
                return _map_unpacked(path, header, kind)
            array = np.empty(header.shape, header.dtype)
            payload = _fill(array, file)
            # One byte more than the header says: it shows that a file is longer, and otherwise
            # makes gzip check its own checksum.
            is_longer = bool(file.read(1))
    except EOFError as error:
        raise _wrong(path, "complete gzip data", "an end in the middle") from error
    except (OSError, zlib.error) as error:
        raise _wrong(path, "intact gzip data", str(error).rstrip(".")) from error
    _check_size(path, header, header.size + payload + is_longer, at_least=is_longer)
    array.flags.writeable = False
    return array


def _map_unpacked(path: str, header: Header, kind: str) -> np.ndarray:
    """A memory map of a compressed file that is unpacked in the cache."""
    name = os.path.basename(path)[: -len(".gz")]

    def unpack(folder: str) -> None:
        expected, size = header.size + header.payload, 0
        with gzip.open(path, "rb") as file, open(os.path.join(folder, name), "wb") as output:
            while size <= expected:
                chunk = file.read(_CHUNK)
                if not chunk:
                    break
                size += len(chunk)
                output.write(chunk)
        _check_size(path, header, size, at_least=size > expected)

    state = os.stat(path)
    identity = (os.path.abspath(path), state.st_size, state.st_mtime_ns, state.st_ino)
    digest = hashlib.sha256(repr(identity).encode("utf-8", "surrogateescape")).hexdigest()
    return _map_plain(os.path.join(open_entry("streams", digest[:32], unpack), name), kind)


def _fill(array: np.ndarray, file: gzip.GzipFile) -> int:
    """Read the bytes of an array from a file, in chunks, and return how many there were."""
    target = array.reshape(-1).view(np.uint8)
    position = 0
    while position < len(target):
        chunk = file.read(min(_CHUNK, len(target) - position))
        if not chunk:
            break
        target[position : position + len(chunk)] = np.frombuffer(chunk, np.uint8)
        position += len(chunk)
    return position


def _check_expansion(path: str, header: Header) -> None:
    """Refuse a header that the compressed bytes cannot fulfil, before memory is allocated."""
    limit = _MAX_EXPANSION * os.path.getsize(path)
    if header.payload > limit:
        expected = f"{header.payload:,} bytes for dimensions {list(header.shape)}"
        raise _wrong(path, expected, f"at most {limit:,}")


def _check_size(path: str, header: Header, size: int, at_least: bool = False) -> None:
    """Compare the size of a file in bytes with its header. at_least: the file may be larger."""
    expected_size = header.size + header.payload
    if size != expected_size:
        expected = f"{expected_size:,} bytes for dimensions {list(header.shape)}"
        raise _wrong(path, expected, f"{size:,}{' or more' if at_least else ''}")


def _wrong(path: str, expected: str, actual: str, hint: str = _RECOPY) -> DataError:
    return DataError(f"{path}: expected {expected}, found {actual}.", hint=hint)
