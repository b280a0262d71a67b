"""Many image files: the one form that their images get, and those that cannot be read.

Legend: M images, H height, W width, C channels.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Sequence, Set, Tuple

import numpy as np

from ...errors import DataError
from ..decoded import Decoded, hash_texts
from ..files.file_index import FileIndex
from ..files.parallel import map_parallel
from ..reading_options import ImageOptions, Settings
from .image_file import ImageForm, ImageHeader, format_size, parse_colour, parse_size, read_image

_SUGGESTED_SIDE = 256  # pixels, at most
_MAX_NAMES = 3  # of damaged files, in a note

Shape = Tuple[int, ...]  # (H, W, C)


class ImageFiles:
    """Image files, and the form that their images get. Their headers are read, and no pixels.

    Args:
        place: the file or folder that names them, for error messages.
        paths: of the files, [M].
        index: knows hashes and headers of files.
        options: the form of the images.
        component: the name of the component that the images become.

    Attributes:
        digests: the SHA-256 of each file, hex digits, by its path.
        sizes: (width, height) of each image before it gets its form, int64 [M, 2].
        form: of the images.
        shape: (H, W, C) in that form.
        notes: a sentence on each kind of change that the form makes.

    Raises:
        DataError: a file is damaged, or images have several sizes.
    """

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
        self.sizes = headers.size
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
    """The form of images, their shape (H, W, C) in it, and a sentence on each kind of change.

    Args:
        place: the file or folder that has the images, for error messages.
        name: of the image in a row.
        options: of all of them.
        headers: of the M images.

    Raises:
        DataError: no size is set, and there are several.
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
    changes = [
        (
            headers.has_alpha & (form.channels != 4),
            f"with an alpha channel laid on {colour} (--background).",
        ),
        (
            headers.size[:, 0] * height != headers.size[:, 1] * width,
            f"of another shape {how} to {width}x{height} (--fit).",
        ),
        (headers.has_more_frames, "with several frames or pages: only the first is read."),
    ]
    counts = [(int(np.sum(is_changed)), text) for is_changed, text in changes]
    return [f"{count:,} image{'s' * (count > 1)} {text}" for count, text in counts if count]


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


def corrupt_images(folder: str, paths: Sequence[str]) -> List[Dict[str, str]]:
    """The image files that cannot be read: JSON values with "file" and "reason".

    Args:
        folder: from which "file" starts.
        paths: of the files, in the folder.
    """

    def find_fault(path: str) -> str:
        try:
            read_image(path, ImageForm())
            return ""
        except DataError as error:
            return error.message[len(path) + 2 :].rstrip(".")

    faults = map_parallel(find_fault, paths, f"Checking {len(paths):,} files")
    names = name_files(folder, paths)
    return [{"file": name, "reason": fault} for name, fault in zip(names, faults) if fault]


def find_damaged(settings: Settings, paths: Sequence[str]) -> Tuple[Set[str], List[str]]:
    """The paths of the image files to leave out, and a sentence that counts and names them.

    Where the options say so, all files are decoded once; then the index knows.

    Raises:
        OSError: a file is not there or may not be read, which is no damage.
    """
    folder, index = settings.path, settings.files
    if not settings.images.skip_damaged:
        return set(), []
    name = "damaged " + hash_texts(index.digests(paths))
    names, rows = name_files(folder, paths), index.load(name)
    if rows is None:
        damaged = {each["file"] for each in corrupt_images(folder, paths)}
        rows = np.array([row for row, each in enumerate(names) if each in damaged], np.int64)
        index.save(name, rows)
    if not len(rows):
        return set(), []
    listing = ", ".join([names[row] for row in rows[:_MAX_NAMES]] + ["..."] * (len(rows) > 3))
    images = f"{len(rows):,} damaged image{'s' if len(rows) > 1 else ''}"
    return {paths[row] for row in rows}, [f"{images} left out ({listing}; --skip-damaged)."]
