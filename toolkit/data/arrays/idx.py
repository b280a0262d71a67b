"""`idx:DIR`: IDX files, the format of MNIST; checked when opened, and memory-mapped.

A file has a header (two zero bytes, an element type, the number of dimensions, each dimension as a
big-endian 32-bit integer), then the elements. It may be compressed by gzip.
"""

from __future__ import annotations

import functools
import gzip
import operator
import os
import re
import struct
import zlib
from typing import Any, Dict, Tuple

import numpy as np

from ...errors import DataError
from ..column import Column
from ..examples import Dataset, Split, check_alike, describe
from ..held_out import hold_out
from ..reading_options import Settings

ELEMENTS = {8: "uint8", 9: "int8", 11: "int16", 12: "int32", 13: "float32", 14: "float64"}
# Of each kind of file: its element types, and how many dimensions it has.
_TYPES = {"images": ("uint8", "float32"), "labels": ("uint8", "int32")}
_RANKS = {"images": range(2, 9), "labels": range(1, 2)}
_NAME = re.compile(r"^(?P<split>train|t10k|test)[-.](?P<kind>images|labels)[-.]idx\d-ubyte(\.gz)?$")
_RECOPY = "Copy or download the file again."
_GZIP = b"\x1f\x8b"
_MAX_HEADER = 4 + 4 * 8  # bytes


def read_idx(path: str, kind: str = "images") -> np.ndarray:
    """The array of an IDX file: a memory map; one of gzip is read into memory, whatever its name.
    "images" are uint8 or float32 of rank 2 or more, "labels" uint8 or int32 of rank 1. Raises
    DataError if the file is missing, damaged or of another kind.
    """
    if not os.path.isfile(path):
        raise DataError(f"{path}: expected an IDX file, found none.", hint=_RECOPY)
    with open(path, "rb") as file:
        head = file.read(_MAX_HEADER)
    if head[:2] == _GZIP:
        try:
            with gzip.open(path, "rb") as packed:
                content = packed.read()
        except (OSError, EOFError, zlib.error) as error:
            raise _wrong(path, "intact gzip data", str(error).rstrip(".")) from error
        dtype, shape = _parse_header(path, content[:_MAX_HEADER], kind, len(content))
        return np.frombuffer(content, dtype, offset=4 + 4 * len(shape)).reshape(shape)
    dtype, shape = _parse_header(path, head, kind, os.path.getsize(path))
    return np.memmap(path, dtype, "r", offset=4 + 4 * len(shape), shape=shape)


def starts_as_idx(path: str) -> bool:
    """Whether a file begins like an IDX file, perhaps a compressed one."""
    try:
        with open(path, "rb") as file:
            start = file.read(4)
        if start[:2] == _GZIP:
            with gzip.open(path, "rb") as file:
                start = file.read(4)
    except (OSError, EOFError, zlib.error):
        return False
    return start[:2] == b"\0\0" and len(start) == 4 and start[2] in ELEMENTS and 1 <= start[3] <= 8


def open_idx(settings: Settings, class_names: Tuple[str, ...] = ()) -> Dataset:
    """Open a folder of IDX files with the names of MNIST's; test files may be missing.

    Without names of classes, as many numbers as the labels need are theirs. Raises a DataError if a
    file is missing or damaged, or files do not fit together.
    """
    folder, index = settings.path, settings.files
    paths = _find_files(folder)
    files = {os.path.basename(path): path for pair in paths.values() for path in pair}
    splits = {}
    for split, (images, labels) in paths.items():
        features, targets = read_idx(images), read_idx(labels, "labels")
        try:
            splits[split] = Split(features, Column(targets, class_names=class_names))
        except DataError as error:
            raise DataError(f"{images}, {labels}: {error.message}", hint=error.hint) from None
    check_alike(splits, f"idx:{folder}")
    count = 1 + max(int(part.labels.max()) for part in splits.values())
    spec = describe(splits["train"], class_names, count)
    hashes = dict(zip(files, index.digests(list(files.values()))))
    splits = hold_out(splits, settings.shares, index=index, files=list(hashes.values()))
    return Dataset("idx:" + folder, spec, splits, files, sha256=hashes)


def _find_files(folder: str) -> Dict[str, Tuple[str, str]]:
    """Split name -> (image file, label file). A plain file takes precedence over a .gz file."""
    if not os.path.isdir(folder):
        raise DataError(
            f"{folder}: expected a folder of IDX files, found none.",
            hint="Give the folder that holds train-images-idx3-ubyte and its companions.",
        )
    names = sorted(os.listdir(folder), reverse=True)  # so that the plain file comes last
    paths: Dict[str, Dict[str, str]] = {"train": {}}
    for match in filter(None, map(_NAME.match, names)):
        split = "train" if match.group("split") == "train" else "test"
        paths.setdefault(split, {})[match.group("kind")] = os.path.join(folder, match.group())
    for split, kinds in paths.items():
        for kind in sorted({"images", "labels"} - set(kinds)):
            start = "train" if split == "train" else "t10k"
            name = f"{start}-{kind}-idx{3 if kind == 'images' else 1}-ubyte"
            raise DataError(
                f"{folder}: expected {name} or {name}.gz, found "
                f"{', '.join(names[::-1][:6]) or 'nothing'}.",
                hint="Place the missing file there under that name.",
            )
    return {split: (kinds["images"], kinds["labels"]) for split, kinds in paths.items()}


def _parse_header(path: str, head: bytes, kind: str, size: int) -> Tuple[Any, Tuple[int, ...]]:
    """The type and the shape of the array in a file of `size` bytes, by its first ones."""
    code, rank = head[2:4] if len(head) >= 4 else (0, 0)
    start, types, ranks = 4 + 4 * rank, _TYPES[kind], _RANKS[kind]
    name = ELEMENTS.get(code, "none")
    faults = (
        (len(head) < 4, "an IDX header of 4 bytes or more", f"{len(head)} bytes"),
        (head[:2] != b"\0\0", "an IDX magic number that starts 0000", head[:4].hex()),
        (name not in types, f"element type {' or '.join(types)}", f"{name} (0x{code:02x})"),
        (rank not in ranks, f"{kind} of {1 if kind == 'labels' else 3} dimension(s)", str(rank)),
        (len(head) < start, f"an IDX header of {start} bytes", f"{len(head)} bytes"),
    )
    for is_fault, wanted, found in faults:
        if is_fault:
            raise _wrong(path, wanted, found)
    dtype, shape = np.dtype(name).newbyteorder(">"), struct.unpack(f">{rank}I", head[4:start])
    if 0 in shape:
        raise _wrong(path, "one example or more", f"dimensions {list(shape)}")
    expected = start + functools.reduce(operator.mul, shape) * dtype.itemsize
    if size != expected:
        raise _wrong(path, f"{expected:,} bytes for dimensions {list(shape)}", f"{size:,}")
    return dtype, shape


def _wrong(path: str, expected: str, actual: str) -> DataError:
    return DataError(f"{path}: expected {expected}, found {actual}.", hint=_RECOPY)
