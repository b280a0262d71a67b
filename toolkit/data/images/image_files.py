"""Many image files: the one form that their images get, those that cannot be read, and label
images, whose pixels are class numbers.

A pixel of a label image is a class number: a palette index or a grey value, never a mixture of two,
so such images are resized to the nearest pixel. The number 255 is of no class (void), and so is
what a label image is padded with. Where images have 0 and 255 alone, 255 is the class 1. Pixels of
1 bit are the classes 0 and 1.

Legend: M images, H height, W width, C channels, K classes.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Sequence, Set, Tuple

import numpy as np

from ...display.numbers import format_count
from ...errors import DataError, join_names
from ..column import VOID, Column
from ..decoded import Decoded, hash_texts
from ..files.file_index import FileIndex
from ..files.parallel import map_parallel
from ..reading_options import ImageOptions, Settings
from .image_file import (
    ImageForm,
    ImageHeader,
    fit_image,
    format_size,
    open_image,
    parse_colour,
    parse_size,
    read_image,
    turn_upright,
)

_SUGGESTED_SIDE = 256  # pixels, at most
_LABEL_MODES = ("1", "L", "P")

Shape = Tuple[int, ...]  # (H, W, C)


class ImageFiles:
    """Image files, and the form that their images get. Their headers are read, and no pixels.

    `place` names them in messages; the images become the component. `digests` are SHA-256 in hex
    digits. Raises DataError if a file is damaged, or images have several sizes.
    """

    known_scale = 0  # see `LabelFiles`

    def __init__(
        self,
        place: str,
        paths: Sequence[str],
        index: FileIndex,
        options: ImageOptions,
        component: str = "",
    ):
        digests, headers = index.describe_images(paths)
        self.digests = dict(zip(paths, digests))
        self.sizes = headers.size  # (width, height) of each before it gets its form, int64 [M, 2]
        self.form, self.shape, self.notes = choose_form(
            place, paths.__getitem__, options.of(component), headers
        )
        self._facts = repr(self.form)

    def select(self, paths: Sequence[str]) -> Any:
        """Some of the images, uint8 [n, H, W, C]."""
        identity = hash_texts([*self.select_digests(paths), self._facts])
        shape = (len(paths), *self.shape)
        return Decoded(lambda row: self.read(paths[row]), shape, identity=identity, paths=paths)

    def read(self, path: str) -> np.ndarray:
        """The image in a file, uint8 [H, W, C]."""
        return check_shape(read_image(path, self.form), self.shape, path)

    def select_digests(self, paths: Sequence[str]) -> List[str]:
        """The SHA-256 of some of the files, in the order of `paths`."""
        return [self.digests[path] for path in paths]


def choose_form(
    place: str, name: Callable[[int], str], options: ImageOptions, headers: ImageHeader
) -> Tuple[ImageForm, Shape, List[str]]:
    """The form of M images, their shape (H, W, C) in it, and a sentence on each kind of change.

    `place` has the images, and `name` is that of the image in a row, for error messages. Raises a
    DataError if no size is set, and there are several.
    """
    size = None if options.image_size is None else parse_size(options.image_size)
    channels = options.channels or (1 if headers.is_grey.all() else 3)
    colour = parse_colour(options.background)
    form = ImageForm(size, channels, options.fit, colour, options.extends_border)
    width, height = size or _common_size(place, name, headers.size)
    return form, (height, width, channels), describe_changes(form, headers)


def describe_changes(form: ImageForm, headers: ImageHeader) -> List[str]:
    """A sentence for each kind of change that images need to get a form."""
    colour = "#{:02x}{:02x}{:02x}".format(*form.background)
    fill = "the mean of the border" if form.extends_border else colour
    width, height = form.size or (0, 0)
    how = {"pad": f"padded with {fill}", "crop": "cropped", "stretch": "stretched"}[form.fit]
    is_laid = headers.has_alpha & (form.channels != 4)
    is_fitted = headers.size[:, 0] * height != headers.size[:, 1] * width
    counts = {
        f"with an alpha channel laid on {colour} (--background).": np.sum(is_laid),
        f"of another shape {how} to {width}x{height} (--fit).": np.sum(is_fitted),
        "with several frames or pages: only the first is read.": np.sum(headers.has_more_frames),
    }
    return [f"{format_count(n, 'image', mark=',')} {text}" for text, n in counts.items() if n]


def check_shape(image: np.ndarray, expected: Shape, name: str) -> np.ndarray:
    """The image; raises a DataError if it does not have the size that all images should have."""
    if image.shape != tuple(expected):
        raise DataError(
            f"{name}: expected {expected[1]}x{expected[0]} pixels, found "
            f"{image.shape[1]}x{image.shape[0]}.",
            hint="Scale all images to one size with --image-size.",
        )
    return image


def _common_size(place: str, name: Callable[[int], str], sizes: np.ndarray) -> Tuple[int, int]:
    """The (width, height) that all images have; a DataError if there are several."""
    values, counts = np.unique(sizes, axis=0, return_counts=True)
    if len(values) == 1:
        return int(values[0, 0]), int(values[0, 1])
    areas = sizes.prod(axis=1)
    smallest, largest = int(areas.argmin()), int(areas.argmax())
    if smallest == largest:  # all have one area
        largest = int((sizes != sizes[smallest]).any(axis=1).argmax())
    common = values[counts.argmax()]
    first, last = (f"{'x'.join(map(str, sizes[row]))} ({name(row)})" for row in (smallest, largest))
    scale = min(1.0, _SUGGESTED_SIDE / int(common.max()))  # small enough to train on
    width, height = (max(1, round(int(side) * scale)) for side in common)
    raise DataError(
        f"{place}: expected images of one size, found {len(values):,} sizes, from {first} to "
        f"{last}, most often {common[0]}x{common[1]} ({counts.max():,} of {len(sizes):,}).",
        hint="Scale all images to one size with --image-size, for example "
        f"--image-size {format_size(width, height)}.",
    )


def name_files(folder: str, paths: Sequence[str]) -> List[str]:
    """The paths from a folder on, with slashes."""
    return [path[len(folder) :].lstrip(os.sep).replace(os.sep, "/") for path in paths]


# ------------------------------------------------------------------------------------------ damage


def corrupt_images(paths: Sequence[str]) -> Dict[str, str]:
    """The image files that cannot be read, each with the reason."""

    def find_fault(path: str) -> str:
        try:
            read_image(path, ImageForm())
            return ""
        except DataError as error:
            return error.message[len(path) + 2 :].rstrip(".")

    faults = map_parallel(find_fault, paths, f"Checking {len(paths):,} files")
    return {path: fault for path, fault in zip(paths, faults) if fault}


def find_damaged(settings: Settings, paths: Sequence[str]) -> Tuple[Set[str], List[str]]:
    """The paths of the image files to leave out, and a sentence that counts and names them.

    Where the options say so, all files are decoded once; then the index knows. Raises an OSError if
    a file is not there or may not be read, which is no damage.
    """
    if not settings.images.skip_damaged:
        return set(), []

    def find_rows() -> np.ndarray:
        damaged = corrupt_images(paths)
        return np.array([row for row, path in enumerate(paths) if path in damaged], np.int64)

    index = settings.files
    rows = index.remember("damaged " + hash_texts(index.digests(paths)), find_rows)
    if not len(rows):
        return set(), []
    listing = join_names(name_files(settings.path, [paths[row] for row in rows]), 3)
    images = format_count(len(rows), "damaged image", mark=",")
    return {paths[row] for row in rows}, [f"{images} left out ({listing}; --skip-damaged)."]


# ------------------------------------------------------------------------------------ label images


class LabelFiles(ImageFiles):
    """Label images, and the classes in them.

    Images of 0 and 255 alone have two classes. In others, 255 is no class. They get the form of the
    pictures that they belong to. `scale` is that of the label images that a model was trained on, 0
    if it is not known. Raises DataError if a file is damaged or has another size than its picture,
    or no pixel has a class.
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
        for row in np.flatnonzero((headers.size != pictures.sizes).any(axis=1)).tolist():
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
        # 255 for images of 0 and 255, else 1; 0 if the images do not show which.
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
        """The class numbers in a file, uint8 [H, W]; raises a DataError if its pixels are none."""
        from PIL import Image

        labels, has_one_bit = _read_pixels(path)
        if not has_one_bit:
            labels //= np.uint8(self._scale)
        if self.form.size is None or labels.shape == self.form.size[::-1]:
            return labels
        image = Image.fromarray(labels)
        return np.asarray(fit_image(image, self.form, Image.Resampling.NEAREST, VOID))


def _read_pixels(path: str) -> Tuple[np.ndarray, bool]:
    """The pixels of a label image, upright, uint8 [H, W], and whether they have 1 bit."""
    with open_image(path, expected="a label image") as file:
        file.load()
        if file.format in ("JPEG", "MPO"):
            raise DataError(
                f"{path}: expected class numbers, found a JPEG file, which changes them.",
                hint="Save label images as PNG.",
            )
        if file.mode not in _LABEL_MODES:
            raise DataError(
                f"{path}: expected class numbers from 0 to 255 as a palette or grey image of 8 "
                f"bits, found the mode {file.mode}.",
                hint="Save one number for each pixel: the class, not its colour.",
            )
        return np.array(turn_upright(file, file), np.uint8), file.mode == "1"


def _find_values(paths: Sequence[str], digests: Sequence[str], index: FileIndex) -> Any:
    """The numbers in label images of 8 bits, and in those of 1 bit: two sets."""

    def find(path: str) -> np.ndarray:  # bool [2, 256]
        pixels, has_one_bit = _read_pixels(path)
        has_value = np.zeros((2, 256), bool)
        has_value[int(has_one_bit)] = np.bincount(pixels.reshape(-1), minlength=256) > 0
        return has_value

    def find_all() -> np.ndarray:
        return np.any(map_parallel(find, paths, f"Reading {len(paths):,} label images"), axis=0)

    stored = index.remember("label-numbers-" + hash_texts(digests)[:16], find_all)
    return (set(np.flatnonzero(row).tolist()) for row in stored)
