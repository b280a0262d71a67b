"""Label images: image files whose pixels are class numbers, one for each pixel of a picture.

A pixel is a palette index or a grey value, never a mixture of two: such images are resized to the
nearest pixel. The number 255 is of no class (void), and so is what a label image is padded with.
Where images have 0 and 255 alone, 255 is the class 1. Pixels of 1 bit are the classes 0 and 1.

Legend: M label images, H height, W width, K classes.
"""

from __future__ import annotations

from typing import Any, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..column import VOID, Column
from ..decoded import hash_texts
from ..files.file_index import FileIndex
from ..files.parallel import map_parallel
from .image_file import ImageForm, fit_image, open_image, turn_upright
from .image_files import ImageFiles

_MODES = ("1", "L", "P")


class LabelFiles(ImageFiles):
    """Label images, and the classes in them.

    Images of 0 and 255 alone have two classes. In others, 255 is no class.

    Args:
        paths: of the files, [M].
        index: knows hashes and headers of files, and stores the class numbers in them.
        pictures: that they belong to, of which they get the form.
        picture_paths: of their pictures, [M].
        scale: of the label images that a model was trained on; 0 if it is not known.

    Attributes, beside those of `ImageFiles`:
        num_classes: K.
        known_scale: 255 for images of 0 and 255, else 1; 0 if the images do not show whether 255 is
            the class 1 or no class.

    Raises:
        DataError: a file is damaged or has another size than its picture, or no pixel has a class.
    """

    def __init__(
        self,
        paths: Sequence[str],
        index: FileIndex,
        pictures: ImageFiles,
        picture_paths: Sequence[str],
        scale: int = 0,
    ):
        digests, headers = index.describe_images(paths)
        self.digests = dict(zip(paths, digests))
        differs = (headers.size != pictures.sizes).any(axis=1)
        if differs.any():
            row = int(np.argmax(differs))
            expected, actual = (
                "x".join(map(str, sizes[row])) for sizes in (pictures.sizes, headers.size)
            )
            raise DataError(
                f"{paths[row]}: expected {expected} pixels as in {picture_paths[row]}, found "
                f"{actual}.",
                hint="Give a label image of the size of its picture.",
            )
        values, bits = _find_values(paths, digests, index)
        is_scaled = {VOID} <= values <= {0, VOID} and scale != 1
        self._scale = VOID if is_scaled and (scale or 0 in values or bits) else 1
        values = {0, 1} if self._scale == VOID else values | bits
        if values == {VOID}:
            raise DataError(
                f"{paths[0]}: expected class numbers, found only 255 in all label images, which is "
                "no class.",
                hint="Number the classes from 0; in images of 0 and 255, 255 is the class 1.",
            )
        self.num_classes = 1 + max(values - {VOID})
        has_void = VOID in values
        is_known = self._scale > 1 or has_void or self.num_classes > 2
        self.known_scale = self._scale if is_known else 0
        saved = ", saved as 0 and 255" if self._scale > 1 else ""
        void = f"; {VOID} is no class" if has_void else ""
        self.notes = [f"Each pixel has one of {self.num_classes} classes{saved}{void}."]
        self.form, self.shape = pictures.form, pictures.shape[:2]
        self._facts = repr((self.form, self.shape, self._scale))

    def select(self, paths: Sequence[str]) -> Column:
        """Some of the label images, uint8 [n, H, W], as labels."""
        return Column(super().select(paths), "class", self.num_classes)

    def read(self, path: str) -> np.ndarray:
        """The class numbers in a file, uint8 [H, W]."""
        return read_label_image(path, self.form, self._scale)


def read_label_image(path: str, form: ImageForm, scale: int = 1) -> np.ndarray:
    """The class numbers in a file as uint8 [H, W].

    Args:
        path: of the file.
        form: its size and fit.
        scale: by which pixels of 8 bits are divided: 255 for images of 0 and 255, else 1.

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
    with open_image(path, expected="a label image") as file:
        file.load()
        if file.format in ("JPEG", "MPO"):
            raise DataError(
                f"{path}: expected class numbers, found a JPEG file, which changes them.",
                hint="Save label images as PNG.",
            )
        if file.mode not in _MODES:
            raise DataError(
                f"{path}: expected class numbers from 0 to 255 as a palette or grey image of 8 "
                f"bits, found the mode {file.mode}.",
                hint="Save one number for each pixel: the class, not its colour.",
            )
        return np.array(turn_upright(file, file), np.uint8), file.mode == "1"


def _find_values(paths: Sequence[str], digests: Sequence[str], index: FileIndex) -> Any:
    """The numbers in label images of 8 bits, and in those of 1 bit: two sets."""
    name = "label-numbers-" + hash_texts(digests)[:16]
    stored = index.load(name)
    if stored is None:
        text = f"Reading {len(paths):,} label images"
        stored = np.any(map_parallel(_has_value, paths, text), axis=0)
        index.save(name, stored)
    return (set(np.flatnonzero(row).tolist()) for row in stored)


def _has_value(path: str) -> np.ndarray:
    """Whether each number is in a label image, of 8 bits and of 1 bit: bool [2, 256]."""
    pixels, has_one_bit = _read_pixels(path)
    has_value = np.zeros((2, 256), bool)
    has_value[int(has_one_bit)] = np.bincount(pixels.reshape(-1), minlength=256) > 0
    return has_value
