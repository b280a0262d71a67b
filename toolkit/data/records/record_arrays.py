"""Values of TFRecords as arrays that read a file when they are read.

Legend: M records, n of them, H height, W width, C channels.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..images.image_array import EncodedImages, hash_texts, list_rows
from ..images.image_file import ImageForm, ImageReader
from .record_files import read_span
from .record_index import RecordIndex


class RecordTexts:
    """The bytes of a key as an array-like: objects [M]. Several threads may read it.

    Args:
        index: of the records.
        key: the key.
    """

    is_decoded = False  # each read opens a file
    dtype = np.dtype(object)

    def __init__(self, index: RecordIndex, key: str):
        self.shape = (len(index),)
        self.paths = [shard.records for shard in index.shards]
        self._index = index
        self._spans = index.spans(key)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        numbers = list_rows(rows, len(self))
        texts = np.empty(len(numbers), object)
        for i, row in enumerate(numbers):
            texts[i] = self.read(int(row))
        return texts

    def read(self, row: int) -> bytes:
        """The bytes of one record."""
        start, size = self._spans[row].tolist()
        return read_span(self._index.locate(row)[0], start, size)


class RecordImages(EncodedImages):
    """The images of a key, whose bytes are those of image files: uint8 [M, H, W, C].

    Args:
        index: of the records.
        key: the key.
        form: of the images.
        shape: (H, W, C) in that form.
    """

    def __init__(self, index: RecordIndex, key: str, form: ImageForm, shape: Sequence[int]):
        texts = RecordTexts(index, key)
        identity = hash_texts([key, *(shard.digest for shard in index.shards)])
        reader = ImageReader(form)
        super().__init__(
            texts.read, index.name_of, len(index), reader, shape, texts.paths, identity
        )


class RawImages(RecordImages):
    """The images of a key whose bytes are pixels: uint8 [M, H, W, C].

    Args:
        index: of the records.
        key: the key.
        form: of the images.
        shape: (H, W, C) in that form.
        sizes: height, width and channels of each image, int64 [M, 3].
    """

    def __init__(
        self,
        index: RecordIndex,
        key: str,
        form: ImageForm,
        shape: Sequence[int],
        sizes: np.ndarray,
    ):
        super().__init__(index, key, form, shape)
        self._sizes = sizes

    def _decode(self, row: int) -> np.ndarray:
        size = tuple(self._sizes[row].tolist())
        if size == self.shape[1:]:
            return np.frombuffer(self._read(row), np.uint8).reshape(size)
        height, width, channels = size
        header = b"P%d %d %d 255\n" % (5 if channels == 1 else 6, width, height)
        return self.reader.decode(header + self._read(row), self._name(row))
