"""Image files by their paths, in the form that the options and the files themselves set.

Legend: M images, H height, W width, C channels.
"""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Sequence, Tuple

import numpy as np

from ...errors import DataError
from ..decoded import Decoded, hash_texts
from ..files.file_index import FileIndex
from ..reading_options import ImageOptions
from .image_file import (
    ImageForm,
    ImageReader,
    describe_changes,
    describe_frames,
    format_size,
    parse_colour,
    parse_size,
)

_SUGGESTED_SIDE = 256  # pixels, at most


class ImagePaths(NamedTuple):
    """M image files, and the form that their images get.

    Attributes:
        paths: of the files, [M].
        digests: SHA-256 of each file, hex digits [M].
        sizes: (width, height) of each image before it gets its form, int64 [M, 2].
        form: of the images.
        shape: (H, W, C) in that form.
        notes: a sentence on each kind of change that the form makes.
    """

    paths: Sequence[str]
    digests: List[str]
    sizes: np.ndarray
    form: ImageForm
    shape: Tuple[int, int, int]
    notes: List[str]

    def select(self, paths: Sequence[str]) -> Decoded:
        """Some of the images, uint8 [n, H, W, C]."""
        reader = ImageReader(self.form)

        def decode(row: int) -> np.ndarray:
            return check_shape(reader.read(paths[row]), self.shape, paths[row])

        identity = hash_texts([*self.select_digests(paths), repr(self.form)])
        return Decoded(decode, (len(paths), *self.shape), identity=identity, paths=paths)

    def select_digests(self, paths: Sequence[str]) -> List[str]:
        """The SHA-256 of some of the files, in the order of `paths`."""
        digests = dict(zip(self.paths, self.digests))
        return [digests[path] for path in paths]


def open_paths(
    place: str, paths: Sequence[str], index: FileIndex, options: ImageOptions, component: str = ""
) -> ImagePaths:
    """Read the headers of image files, and choose the form of their images.

    Args:
        place: the file or folder that names them, for error messages.
        paths: of the files, [M].
        index: knows hashes and headers of files.
        options: the form of the images.
        component: the name of the component that the images become.

    Raises:
        DataError: a file is damaged, or images have several sizes.
    """
    table = index.describe_images(paths)
    form, shape, notes = choose_form(
        place,
        paths.__getitem__,
        options.of(component),
        table.sizes,
        bool(table.is_grey.all()),
        table.has_alpha,
    )
    notes += describe_frames(table.has_more_frames)
    return ImagePaths(paths, table.digests, table.sizes, form, shape, notes)


def choose_form(
    place: str,
    name: Callable[[int], str],
    options: ImageOptions,
    sizes: np.ndarray,
    is_grey: bool,
    has_alpha: np.ndarray,
) -> Tuple[ImageForm, Tuple[int, int, int], List[str]]:
    """The form of images, their shape (H, W, C) in it, and a sentence on each kind of change.

    Args:
        place: the file or folder that has the images, for error messages.
        name: of the image in a row.
        options: of all of them.
        sizes: (width, height) of each image, int64 [M, 2].
        is_grey: whether all are grey.
        has_alpha: whether each can be transparent, bool [M].

    Raises:
        DataError: no size is set, and there are several.
    """
    size = None if options.image_size is None else parse_size(options.image_size)
    channels = options.channels or (1 if is_grey else 3)
    colour = parse_colour(options.background)
    form = ImageForm(size, channels, options.fit, colour, options.extends_border)
    width, height = size or common_size(place, name, sizes)
    return form, (height, width, channels), describe_changes(form, sizes, has_alpha)


def check_shape(image: np.ndarray, expected: Tuple[int, ...], name: str) -> np.ndarray:
    """The image; raises a DataError if it does not have the size that all images should have."""
    if image.shape != tuple(expected):
        raise DataError(
            f"{name}: expected {expected[1]}x{expected[0]} pixels, found "
            f"{image.shape[1]}x{image.shape[0]}.",
            hint="Scale all images to one size with --image-size.",
        )
    return image


def common_size(place: str, name: Callable[[int], str], sizes: np.ndarray) -> Tuple[int, int]:
    """The (width, height) that all images have.

    Args:
        place: the file or folder that has the images, for error messages.
        name: of the image in a row.
        sizes: of the images, int64 [M, 2].

    Raises:
        DataError: there are several sizes.
    """
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
