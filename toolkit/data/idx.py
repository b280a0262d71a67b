"""IDX files: the format of MNIST, checked before it is believed, mapped rather than loaded.

A header (two zero bytes, an element type, the number of dimensions, each dimension as a 32-bit
integer, high byte first), then the elements. A name that ends in .gz holds the same, compressed.
"""

from __future__ import annotations

import gzip
import os
import re
import struct
import zlib
from typing import Dict, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import DataError
from ..files import atomic_write
from .examples import Dataset, RecordFiles, Split, check_label_range, describe, hold_out

ELEMENTS = {8: "uint8", 9: "int8", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
FEATURE_TYPES = ("uint8", ">f4")
LABEL_TYPES = ("uint8", ">i4")
_NAME = re.compile(r"^(?P<split>train|t10k|test)[-.](?P<kind>images|labels)[-.]idx\d-ubyte(\.gz)?$")
_RECOPY = "Copy or download the file again."
_DEFLATE = 1032  # bytes that one compressed byte may unpack to, at most


class Header(NamedTuple):
    dtype: str
    shape: Tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes before the first element."""
        return 4 + 4 * len(self.shape)

    @property
    def payload(self) -> int:
        """Bytes of all the elements."""
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count * np.dtype(self.dtype).itemsize


def read_idx(path: str, kind: str = "images") -> np.ndarray:
    """The checked array of an IDX file: a memory map of a plain file, in memory from a .gz.

    kind: "images" (uint8 or float32, rank 3 or more; rank 2 for float32) or "labels" (uint8 or
    int32, rank 1). Raises DataError naming the file, what was expected and what was found.
    """
    check = _check_images if kind == "images" else _check_labels
    if not os.path.isfile(path):
        raise DataError(f"{path}: expected an IDX file, found none.", hint=_RECOPY)
    return _read_gzip(path, check) if path.endswith(".gz") else _map_plain(path, check)


def write_idx(path: str, array: np.ndarray) -> None:
    """Write uint8, int32 or float32 [N, ...] as an IDX file that appears whole or not at all."""
    dtype = "uint8" if array.dtype == np.uint8 else ">i4" if array.dtype.kind in "iu" else ">f4"
    code = {name: code for code, name in ELEMENTS.items()}[dtype]
    with atomic_write(path) as file:
        file.write(struct.pack(">HBB", 0, code, array.ndim))
        file.write(struct.pack(f">{array.ndim}I", *array.shape))
        for start in range(0, len(array), 4096):
            file.write(np.ascontiguousarray(array[start : start + 4096], dtype).tobytes())


def open_idx(
    folder: str,
    name: str = "",
    num_classes: int = 0,
    validation_share: float = 0.1,
    class_names: Tuple[str, ...] = (),
) -> Dataset:
    """The data set in a folder of IDX files by their usual names; test files may be missing."""
    found = _find(folder)
    files = {os.path.basename(path): path for pair in found.values() for path in pair}
    splits = {split: read_pair(*pair) for split, pair in found.items()}
    shapes = {split: part.shape for split, part in splits.items()}
    if "test" in shapes and shapes["test"] != shapes["train"]:
        raise DataError(
            f"{found['test'][0]}: expected images of {list(shapes['train'])} as in "
            f"{found['train'][0]}, found {list(shapes['test'])}.",
            hint="Use training and test files of one data set.",
        )
    count = len(class_names) or num_classes
    count = count or 1 + max(int(part.labels.max()) for part in splits.values())
    for split, part in splits.items():
        check_label_range(part.labels, count, found[split][1])
    spec = describe(splits["train"], class_names, count)
    return Dataset(name or "idx:" + folder, spec, hold_out(splits, validation_share), files)


def read_pair(images: str, labels: Optional[str]) -> Split:
    """The split of an image file and its label file (or None), with where their records lie."""
    features = read_idx(images, "images")
    targets = read_idx(labels, "labels") if labels else None
    if targets is not None and len(features) != len(targets):
        raise DataError(
            f"{labels}: expected {len(features)} labels, one for each image of {images}, "
            f"found {len(targets)}.",
            hint="Use image and label files that belong together.",
        )
    files = record_files(images, labels, features, targets)
    try:
        return Split(features, targets, files=files)
    except DataError as error:
        raise DataError(f"{labels or images}: {error.message}", hint=error.hint) from None


def record_files(images: str, labels: Optional[str], features, targets) -> RecordFiles:
    """How to stream two IDX files; `features` and `targets` as `read_idx` gave them."""
    return RecordFiles(
        features=images,
        labels=labels,
        feature_header=4 + 4 * features.ndim,
        label_header=8,
        feature_dtype="uint8" if features.dtype == np.uint8 else ">f4",
        label_dtype="uint8" if targets is None or targets.dtype == np.uint8 else ">i4",
        feature_compression="GZIP" if images.endswith(".gz") else "",
        label_compression="GZIP" if (labels or "").endswith(".gz") else "",
    )


def _find(folder: str) -> Dict[str, Tuple[str, str]]:
    """Split name -> (image file, label file). A plain file is preferred to the .gz beside it."""
    if not os.path.isdir(folder):
        raise DataError(
            f"{folder}: expected a folder of IDX files, found none.",
            hint="Give the folder that holds train-images-idx3-ubyte and its companions.",
        )
    found: Dict[Tuple[str, str], str] = {}
    for entry in sorted(os.listdir(folder), reverse=True):  # so that the plain file comes last
        match = _NAME.match(entry)
        if match:
            split = "train" if match.group("split") == "train" else "test"
            found[split, match.group("kind")] = os.path.join(folder, entry)
    wanted = ["train"] + (["test"] if any(split == "test" for split, _ in found) else [])
    for split in wanted:
        for kind in ("images", "labels"):
            if (split, kind) not in found:
                raise _missing(folder, split, kind)
    return {split: (found[split, "images"], found[split, "labels"]) for split in wanted}


def _missing(folder: str, split: str, kind: str) -> DataError:
    name = (
        f"{'train' if split == 'train' else 't10k'}-{kind}-idx{3 if kind == 'images' else 1}-ubyte"
    )
    present = ", ".join(sorted(os.listdir(folder))[:6]) or "nothing"
    return DataError(
        f"{folder}: expected {name} or {name}.gz, found {present}.",
        hint="Place the missing file there under that name.",
    )


def _parse_header(path: str, head: bytes) -> Header:
    """The header in the first bytes of a file (at least 4 + 4 * dimensions of them)."""
    if len(head) < 4:
        raise _wrong(path, "an IDX header of 4 bytes or more", f"{len(head)} bytes")
    if head[:2] != b"\0\0":
        shown = " ".join(f"{byte:02x}" for byte in bytearray(head[:4]))
        raise _wrong(path, "an IDX magic number that starts 00 00", shown)
    code, rank = bytearray(head[2:4])
    if code not in ELEMENTS:
        raise _wrong(path, "an IDX element type", f"0x{code:02x}")
    if not 1 <= rank <= 8:
        raise _wrong(path, "1 to 8 dimensions", str(rank))
    if len(head) < 4 + 4 * rank:
        raise _wrong(path, f"an IDX header of {4 + 4 * rank} bytes", f"{len(head)} bytes")
    return Header(ELEMENTS[code], struct.unpack(f">{rank}I", head[4 : 4 + 4 * rank]))


def _check_images(path: str, header: Header) -> None:
    if header.dtype not in FEATURE_TYPES:
        raise _wrong(path, "element type uint8 (0x08)", _type_name(header.dtype))
    if len(header.shape) < (3 if header.dtype == "uint8" else 2):
        raise _wrong(path, "images of 3 dimensions", f"{len(header.shape)} dimension(s)")
    _check_not_empty(path, header)


def _check_labels(path: str, header: Header) -> None:
    if header.dtype not in LABEL_TYPES:
        raise _wrong(path, "element type uint8 (0x08)", _type_name(header.dtype))
    if len(header.shape) != 1:
        raise _wrong(path, "labels of 1 dimension", f"{len(header.shape)} dimensions")
    _check_not_empty(path, header)


def _check_not_empty(path: str, header: Header) -> None:
    if 0 in header.shape:
        raise _wrong(path, "one example or more", f"dimensions {list(header.shape)}")


def _type_name(dtype: str) -> str:
    code = {name: code for code, name in ELEMENTS.items()}[dtype]
    return f"{np.dtype(dtype).newbyteorder('=').name} (0x{code:02x})"


def _map_plain(path: str, check) -> np.ndarray:
    with open(path, "rb") as file:
        head = file.read(4 + 4 * 8)
    if head[:2] == b"\x1f\x8b":
        raise _wrong(path, "a plain IDX file", "gzip data", "Add '.gz' to its name, or unpack it.")
    header = _parse_header(path, head)
    check(path, header)
    size = os.path.getsize(path)
    _check_size(path, header, size)
    return np.memmap(path, header.dtype, "r", offset=header.size, shape=header.shape)


def _read_gzip(path: str, check) -> np.ndarray:
    with open(path, "rb") as file:
        start = file.read(4)
    if start[:2] != b"\x1f\x8b":
        shown = " ".join(f"{byte:02x}" for byte in bytearray(start)) or "an empty file"
        raise _wrong(
            path, "gzip data", shown, "If it is a plain IDX file, drop '.gz' from its name."
        )
    try:
        with gzip.open(path, "rb") as file:
            head = file.read(4)
            head += file.read(4 * min(8, head[3])) if len(head) == 4 else b""
            header = _parse_header(path, head)
            check(path, header)
            _check_possible(path, header)
            # One byte more than promised: tells a file that is longer, and makes gzip reach its
            # own checksum in one that is not.
            payload = file.read(header.payload + 1)
    except EOFError as error:
        raise _wrong(path, "whole gzip data", "an end in the middle of it") from error
    except (OSError, zlib.error) as error:
        raise _wrong(path, "sound gzip data", str(error).rstrip(".")) from error
    more = len(payload) > header.payload
    _check_size(path, header, header.size + len(payload), at_least=more)
    return np.frombuffer(payload, header.dtype).reshape(header.shape)


def _check_possible(path: str, header: Header) -> None:
    """Refuse a promise that the compressed bytes cannot keep, before memory is asked for it."""
    most = _DEFLATE * os.path.getsize(path)
    if header.payload > most:
        wanted = f"{header.payload:,} bytes for dimensions {list(header.shape)}"
        raise _wrong(path, wanted, f"at most {most:,}")


def _check_size(path: str, header: Header, found: int, at_least: bool = False) -> None:
    expected = header.size + header.payload
    if found != expected:
        wanted = f"{expected:,} bytes for dimensions {list(header.shape)}"
        raise _wrong(path, wanted, f"{found:,}{' or more' if at_least else ''}")


def _wrong(path: str, expected: str, found: str, hint: str = _RECOPY) -> DataError:
    return DataError(f"{path}: expected {expected}, found {found}.", hint=hint)
