"""Label images: image files whose pixels are class numbers, one for each pixel of a picture.

A pixel is a palette index or a grey value, never a mixture of two: such images are resized to the
nearest pixel. The number 255 is of no class (void), and so is what a label image is padded with.
Where images have 0 and 255 alone, 255 is the class 1. Pixels of 1 bit are the classes 0 and 1.

Legend: M label images, H height, W width, K classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..column import VOID
from ..decoded import Decoded, hash_texts
from ..files.file_index import FileIndex
from ..files.parallel import map_parallel
from .image_file import (
    ImageForm,
    fit_image,
    open_file,
    open_image,
    translated_errors,
    turn_upright,
)

_MODES = ("1", "L", "P")
_AS_STORED = ImageForm()
_BATCH = 16  # files that a thread reads before it takes the next ones


def open_label_images(
    paths: Sequence[str], digests: Sequence[str], form: ImageForm, size: Tuple[int, int], scale: int
) -> Decoded:
    """M label images, uint8 [M, H, W].

    Args:
        paths: of the files, [M].
        digests: a hash of each file, [M].
        form: of the pictures that they belong to.
        size: (height, width) in that form.
        scale: by which pixels of 8 bits are divided: 255 for images of 0 and 255, else 1.
    """

    def decode(row: int) -> np.ndarray:
        return read_label_image(paths[row], form, scale)

    identity = hash_texts([*digests, repr((form, size, scale))])
    return Decoded(decode, (len(paths), *size), identity=identity, paths=paths)


def read_label_image(path: str, form: ImageForm = _AS_STORED, scale: int = 1) -> np.ndarray:
    """The class numbers in a file as uint8 [H, W].

    Args:
        path: of the file.
        form: its size and fit.
        scale: as in `open_label_images`.

    Raises:
        DataError: the file is damaged, or its pixels are no class numbers.
    """
    from PIL import Image

    labels, has_one_bit = _read_pixels(path)
    if not has_one_bit:
        labels //= np.uint8(scale)
    if form.size is None or labels.shape == form.size[::-1]:
        return labels
    image = Image.fromarray(labels)
    return np.asarray(fit_image(image, form, Image.Resampling.NEAREST, VOID))


def _read_pixels(path: str) -> Tuple[np.ndarray, bool]:
    """The pixels of a label image, upright, uint8 [H, W], and whether they have 1 bit."""
    with translated_errors(path, "expected a label image"), open_image(open_file(path)) as file:
        file.load()
        _check_mode(path, file)
        return np.array(turn_upright(file, file), np.uint8), file.mode == "1"


def _check_mode(path: str, file: Any) -> None:
    if file.format in ("JPEG", "MPO"):
        raise DataError(
            f"{path}: expected class numbers, found a JPEG file, which changes them.",
            hint="Save label images as PNG.",
        )
    if file.mode not in _MODES:
        raise DataError(
            f"{path}: expected class numbers from 0 to 255 as a palette or grey image of 8 bits, "
            f"found the mode {file.mode}.",
            hint="Save one number for each pixel: the class, not its colour.",
        )


class LabelValues(NamedTuple):
    """What numbers label images have.

    Attributes:
        num_classes: K.
        has_void: whether pixels are of no class.
        scale: as in `open_label_images`.
    """

    num_classes: int
    has_void: bool
    scale: int

    @property
    def known_scale(self) -> int:
        """The scale; 0 if the images do not show whether 255 is the class 1 or no class."""
        is_known = self.scale > 1 or self.has_void or self.num_classes > 2
        return self.scale if is_known else 0

    def describe(self) -> str:
        """A sentence on the classes."""
        scale = ", saved as 0 and 255" if self.scale > 1 else ""
        void = f"; {VOID} is no class" if self.has_void else ""
        return f"Each pixel has one of {self.num_classes} classes{scale}{void}."


def find_values(
    paths: Sequence[str], digests: Sequence[str], index: FileIndex, scale: int = 0
) -> LabelValues:
    """Find the class numbers in label images, and store them in the index.

    Images of 0 and 255 alone have two classes. In others, 255 is no class.

    Args:
        paths: of the files, [M].
        digests: a hash of each file, [M].
        index: of the files.
        scale: of the label images that a model was trained on; 0 if it is not known.

    Raises:
        DataError: no pixel has a class, or a file is damaged.
    """
    name = "label-numbers-" + hash_texts(digests)[:16]
    stored = index.load(name)
    if stored is None or stored.shape != (2, 256) or stored.dtype != bool:
        text = f"Reading {len(paths):,} label images"
        stored = np.any(map_parallel(_has_value, paths, _BATCH, text), axis=0)
        index.save(name, stored)
    values, bits = (set(np.flatnonzero(row).tolist()) for row in stored)
    is_scaled = {VOID} <= values <= {0, VOID} and scale != 1
    if is_scaled and (scale or 0 in values or bits):
        return LabelValues(2, False, VOID)
    values |= bits
    if values == {VOID}:
        raise DataError(
            f"{paths[0]}: expected class numbers, found only 255 in all label images, which is no "
            "class.",
            hint="Number the classes from 0; in images of 0 and 255, 255 is the class 1.",
        )
    return LabelValues(1 + max(values - {VOID}), VOID in values, 1)


def _has_value(path: str) -> np.ndarray:
    """Whether each number is in a label image, of 8 bits and of 1 bit: bool [2, 256]."""
    pixels, has_one_bit = _read_pixels(path)
    has_value = np.zeros((2, 256), bool)
    has_value[int(has_one_bit)] = np.bincount(pixels.reshape(-1), minlength=256) > 0
    return has_value


def check_sizes(
    paths: Sequence[str], sizes: np.ndarray, picture_paths: Sequence[str], pictures: np.ndarray
) -> None:
    """Raise a DataError that names the first label image of another size than its picture.

    Args:
        paths: of the label images, [M].
        sizes: (width, height) of each, int64 [M, 2].
        picture_paths: of their pictures.
        pictures: (width, height) of each picture.
    """
    differs = (sizes != pictures).any(axis=1)
    if differs.any():
        row = int(np.argmax(differs))
        expected, actual = ("x".join(map(str, each[row])) for each in (pictures, sizes))
        raise DataError(
            f"{paths[row]}: expected {expected} pixels as in {picture_paths[row]}, found {actual}.",
            hint="Give a label image of the size of its picture.",
        )
