"""Images that are decoded when they are read, in the form of an array.

Legend: M images, n of them, H height, W width, C channels.
"""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..files.parallel import map_parallel
from .image_file import ImageReader

_BATCH = 16  # images that a thread decodes before it takes the next ones


class EncodedImages:
    """M encoded images as an array-like: uint8 [M, H, W, C]. Several threads may read it.

    Args:
        read: the bytes of a file, from its row in [0, M); it is called in several threads.
        name: the name of the image in a row, for error messages.
        count: M.
        reader: of images, with the form that they get.
        shape: (H, W, C) of each image in that form.
        paths: of the files that are read.
        identity: a hash of all bytes that are read, in their order; "" if it is not known.

    Attributes:
        identity: a hash of the images, by which they are known after they were decoded; "" if it is
            not known.
    """

    is_decoded = False  # each read decodes
    dtype = np.dtype(np.uint8)

    def __init__(
        self,
        read: Callable[[int], bytes],
        name: Callable[[int], str],
        count: int,
        reader: ImageReader,
        shape: Sequence[int],
        paths: Sequence[str] = (),
        identity: str = "",
    ):
        self.shape = (count, *shape)
        self.paths = paths
        self.reader = reader
        self.identity = identity and hash_texts([identity, repr((reader.form, self.shape))])
        self._read = read
        self._name = name

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Decode images: a slice or integers [n] -> uint8 [n, H, W, C].

        Raises:
            DataError: an image is damaged, or has another size; the message names it.
        """
        rows = list_rows(rows, len(self))
        images = np.empty((len(rows), *self.shape[1:]), np.uint8)

        def decode(i: int) -> None:
            images[i] = self._decode(int(rows[i]))

        map_parallel(decode, range(len(rows)), _BATCH)
        return images

    def _decode(self, row: int) -> np.ndarray:
        name = self._name(row)
        image = self.reader.decode(self._read(row), name)
        check_image_shape(image.shape, self.shape[1:], name)
        return image


class ImageFiles(EncodedImages):
    """M image files as an array-like: uint8 [M, H, W, C]. Several threads may read it.

    Args:
        paths: of the files, [M].
        reader: of images, with the form that they get.
        shape: (H, W, C) of each image in that form.
        digests: a hash of the content of each file, [M]; none if they are not known.
    """

    def __init__(
        self,
        paths: Sequence[str],
        reader: ImageReader,
        shape: Sequence[int],
        digests: Sequence[str] = (),
    ):
        identity = hash_texts(digests) if digests else ""
        name = paths.__getitem__
        super().__init__(_no_bytes, name, len(paths), reader, shape, paths, identity)

    def _decode(self, row: int) -> np.ndarray:
        image = self.reader.read(self.paths[row])
        check_image_shape(image.shape, self.shape[1:], self.paths[row])
        return image


def hash_texts(texts: Sequence[str]) -> str:
    """A hash of some texts in their order, 64 hex digits."""
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogateescape")).hexdigest()


def _no_bytes(row: int) -> bytes:
    raise NotImplementedError  # files are read by their paths


def list_rows(rows: Any, count: int) -> Sequence[int]:
    """The numbers that an index of `count` rows selects: a slice, or integers [n]."""
    if isinstance(rows, slice):
        return range(*rows.indices(count))
    rows = np.asarray(rows, np.int64)
    if len(rows) and (rows.min() < -count or rows.max() >= count):
        raise IndexError(f"rows {rows.min()} to {rows.max()} of {count}")
    return np.where(rows < 0, rows + count, rows)


def check_image_shape(shape: Tuple[int, ...], expected: Tuple[int, ...], name: str) -> None:
    """Raise a DataError if an image does not have the size that all images should have."""
    if tuple(shape) != tuple(expected):
        raise DataError(
            f"{name}: expected {expected[1]}x{expected[0]} pixels, found {shape[1]}x{shape[0]}.",
            hint="Scale all images to one size with --image-size.",
        )
