"""Image files by their paths, in the form that the options and the files themselves set.

Legend: M images, H height, W width, C channels.
"""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ...errors import DataError, UsageError
from ..files.file_index import FileIndex
from .image_array import ImageFiles
from .image_file import (
    FITS,
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
    """M image files.

    Attributes:
        files: uint8 [M, H, W, C], decoded when they are read.
        digests: SHA-256 of each file, hex digits [M].
        sizes: (width, height) of each image before it gets its form, int64 [M, 2].
        notes: a sentence on each kind of change that the form makes.
    """

    files: ImageFiles
    digests: List[str]
    sizes: np.ndarray
    notes: List[str]

    def select(self, paths: Sequence[str]) -> ImageFiles:
        """Some of the images, in the same form."""
        digests = self.select_digests(paths)
        return ImageFiles(paths, self.files.reader, self.files.shape[1:], digests)

    def select_digests(self, paths: Sequence[str]) -> List[str]:
        """The SHA-256 of some of the files, in the order of `paths`."""
        digests = dict(zip(self.files.paths, self.digests))
        return [digests[path] for path in paths]


def open_paths(
    place: str,
    paths: Sequence[str],
    index: FileIndex,
    image_size: Union[None, int, str] = None,
    channels: Optional[int] = None,
    fit: str = "pad",
    background: str = "white",
    extends_border: bool = False,
) -> ImagePaths:
    """Read the headers of image files, and choose the form of their images.

    Args:
        place: the file or folder that names them, for error messages.
        paths: of the files, [M].
        index: knows hashes and headers of files.
        image_size: the size in pixels that each image gets, 64 or "WIDTHxHEIGHT"; None requires
            that all images have one size.
        channels: 1, 3 or 4; None for 1 if all images are grey, else 3.
        fit: "pad", "crop" or "stretch"; see `ImageForm`.
        background: the name of a colour, or #rrggbb; see `ImageForm`.
        extends_border: see `ImageForm`.

    Raises:
        UsageError: another number of channels, another fit, or no colour.
        DataError: a file is damaged, or images have several sizes.
    """
    check_image_options(channels, fit)
    size = None if image_size is None else parse_size(image_size)
    colour = parse_colour(background)
    table = index.describe_images(paths)
    channels = channels or (1 if table.is_grey.all() else 3)
    form = ImageForm(size, channels, fit, colour, extends_border)
    width, height = size or common_size(place, paths.__getitem__, table.sizes)
    files = ImageFiles(paths, ImageReader(form), (height, width, channels), table.digests)
    notes = describe_changes(form, table.sizes, table.has_alpha)
    notes += describe_frames(table.has_more_frames)
    return ImagePaths(files, table.digests, table.sizes, notes)


def check_image_options(channels: Optional[int], fit: str) -> None:
    """Raise a UsageError for a number of channels or a fit that does not exist."""
    if channels not in (None, 1, 3, 4):
        raise UsageError(
            f"The number of channels is {channels}, expected 1, 3 or 4.",
            hint="1 is grey, 3 is RGB, 4 is RGBA.",
        )
    if fit not in FITS:
        raise UsageError(f"The fit is '{fit}', expected one of {', '.join(FITS)}.")


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
    raise DataError(
        f"{place}: expected images of one size, found {len(values):,} sizes, from "
        f"{_format_image(name(smallest), sizes[smallest])} to "
        f"{_format_image(name(largest), sizes[largest])}, most often {common[0]}x{common[1]} "
        f"({counts.max():,} of {len(sizes):,}).",
        hint="Scale all images to one size with --image-size, for example "
        f"--image-size {_suggest_size(common)}.",
    )


def _format_image(name: str, size: np.ndarray) -> str:
    return f"{size[0]}x{size[1]} ({name})"


def _suggest_size(common: np.ndarray) -> str:
    """The commonest size, or one of its shape that is small enough to train on."""
    scale = min(1.0, _SUGGESTED_SIDE / int(common.max()))
    width, height = (max(1, round(int(side) * scale)) for side in common)
    return format_size(width, height)
