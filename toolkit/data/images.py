"""`images:DIR`: image files of any format that Pillow reads.

DIR has a folder of images for each class, or images without classes. It may also have folders
`train`, `validation` and `test`, each with such content.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import DataError, UsageError
from .examples import Dataset, Split, describe, hold_out

SPLIT_FOLDERS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
    "testing": "test",
}
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # channels -> Pillow's name
_GREY = ("1", "L", "I", "I;16", "I;16B", "I;16L", "I;16N", "F")
_LAYOUT = "Give a folder with a folder of images for each class, or with images."


class Listing(NamedTuple):
    """The image files of one split, sorted by class and name."""

    paths: List[str]
    labels: Optional[List[int]]  # None without classes
    class_names: Tuple[str, ...]


def open_images(
    folder: str,
    image_size: Optional[int] = None,
    channels: Optional[int] = None,
    validation_share: float = 0.1,
) -> Dataset:
    """Open a folder of images as a data set of uint8 [N, H, W, C].

    Args:
        folder: the folder.
        image_size: the side in pixels to which each image is scaled, after cropping it to its
            central square; None requires that all images have one size.
        channels: 1, 3 or 4; None for 1 if all images are grey, else 3.
        validation_share: of the training examples, held out for validation, in [0, 0.5].

    Raises:
        UsageError: another number of channels.
        DataError: no images, a damaged one, or images of several sizes.
    """
    if channels not in (None, 1, 3, 4):
        raise UsageError(
            f"The number of channels is {channels}, expected 1, 3 or 4.",
            hint="1 is grey, 3 is RGB, 4 is RGBA.",
        )
    listings = list_images(folder)
    paths = [path for listing in listings.values() for path in listing.paths]
    channels = channels or (1 if all(_is_grey(path) for path in paths) else 3)
    size = (image_size, image_size) if image_size else None
    splits = {}
    first = paths[0]
    for name, listing in listings.items():
        pixels = _read_images(listing.paths, size, channels, first)
        splits[name] = Split(pixels, listing.labels)
    spec = describe(splits["train"], listings["train"].class_names)
    files = {os.path.relpath(path, folder).replace(os.sep, "/"): path for path in paths}
    return Dataset("images:" + folder, spec, hold_out(splits, validation_share), files)


def corrupt_images(folder: str) -> List[Dict[str, str]]:
    """The image files in `folder` that cannot be read: JSON values with "file" and "reason"."""
    faults = []
    for listing in list_images(folder).values():
        for path in listing.paths:
            try:
                decode_image(path, None, 3)
            except DataError as error:
                name = os.path.relpath(path, folder).replace(os.sep, "/")
                reason = error.message[len(path) + 2 :].rstrip(".")
                faults.append({"file": name, "reason": reason})
    return faults


def list_images(folder: str) -> Dict[str, Listing]:
    """Split name -> its image files; always with "train"."""
    if not os.path.isdir(folder):
        raise DataError(f"{folder}: expected a folder, found none.", hint=_LAYOUT)
    roots: Dict[str, str] = {}
    for entry in _folders(folder):
        if entry.lower() in SPLIT_FOLDERS:
            roots[SPLIT_FOLDERS[entry.lower()]] = os.path.join(folder, entry)
    if "train" not in roots:
        roots = {"train": folder}
    listings = {name: _list_split(root) for name, root in roots.items()}
    names = listings["train"].class_names
    for name, listing in listings.items():
        if listing.class_names != names:
            raise DataError(
                f"{roots[name]}: expected the classes of 'train' "
                f"({', '.join(names) or 'none'}), found "
                f"{', '.join(listing.class_names) or 'none'}.",
                hint="Give each split a folder for each class.",
            )
    return listings


def _list_split(root: str) -> Listing:
    classes = tuple(_folders(root))
    if not classes:
        return Listing(_image_files(root), None, ())
    paths: List[str] = []
    labels: List[int] = []
    for label, name in enumerate(classes):
        files = _image_files(os.path.join(root, name))
        paths += files
        labels += [label] * len(files)
    return Listing(paths, labels, classes)


def _folders(root: str) -> List[str]:
    return sorted(
        name
        for name in os.listdir(root)
        if os.path.isdir(os.path.join(root, name)) and not name.startswith(".")
    )


def _image_files(root: str) -> List[str]:
    """The files below `root` with the ending of an image format, sorted; at least one."""
    from PIL import Image

    endings = tuple(Image.registered_extensions())
    paths = [
        os.path.join(base, name)
        for base, _, names in os.walk(root)
        for name in names
        if name.lower().endswith(endings) and not name.startswith(".")
    ]
    if not paths:
        raise DataError(f"{root}: expected images, found none.", hint=_LAYOUT)
    return sorted(paths)


def _read_images(
    paths: List[str], size: Optional[Tuple[int, int]], channels: int, first: str
) -> np.ndarray:
    """The images as uint8 [N, H, W, C]; all must have the size of the image `first`."""
    shape = decode_image(first, size, channels).shape
    pixels = np.empty((len(paths),) + shape, np.uint8)
    for row, path in enumerate(paths):
        image = decode_image(path, size, channels)
        if image.shape != shape:
            raise DataError(
                f"{path}: expected {shape[1]}x{shape[0]} pixels as in {first}, found "
                f"{image.shape[1]}x{image.shape[0]}.",
                hint="Scale all images to one size with --image-size, for example --image-size 64.",
            )
        pixels[row] = image
    return pixels


def decode_image(path: str, size: Optional[Tuple[int, int]], channels: int) -> np.ndarray:
    """Read one image file.

    Args:
        path: the file.
        size: (width, height) to crop and scale to, or None for the image's own.
        channels: 1, 3 or 4.

    Returns:
        uint8 [H, W, C].

    Raises:
        DataError: the file cannot be read; the message names it.
    """
    from PIL import Image, ImageOps

    try:
        with _open_image(path) as image:
            upright = _to_8_bits(ImageOps.exif_transpose(image)).convert(MODES[channels])
    except Exception as error:  # damaged bytes can make Pillow's decoders raise anything
        raise DataError(
            f"{path}: expected an image, found {_reason(path, error)}.",
            hint="Replace or remove that file; 'toolkit data check' lists all such files.",
        ) from error
    if size is not None and upright.size != size:
        upright = ImageOps.fit(upright, size, Image.Resampling.LANCZOS)
    return np.asarray(upright, np.uint8).reshape(upright.size[1], upright.size[0], channels)


def _is_grey(path: str) -> bool:
    """Whether the file's header is that of a grey image.

    It is True for a file that cannot be read: reading the image raises an error that names it.
    """
    try:
        with _open_image(path) as image:
            return image.mode in _GREY
    except Exception:
        return True


@contextlib.contextmanager
def _open_image(path: str) -> Iterator[Any]:
    """Open an image file, without Pillow's warnings."""
    from PIL import Image

    # Reading from a pipe would block.
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("no regular file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(path) as image:
            yield image


def _to_8_bits(image: Any) -> Any:
    """The image, with 16-bit grey scaled to 8 bits (Pillow's own conversion would clip it)."""
    if not image.mode.startswith("I"):
        return image
    from PIL import Image

    return Image.fromarray((np.asarray(image, np.int64) // 257).clip(0, 255).astype(np.uint8))


def _reason(path: str, error: Exception) -> str:
    """Why an image could not be read, in few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if os.path.isfile(path) and not os.path.getsize(path):
        return "an empty file"
    if type(error).__name__ == "UnidentifiedImageError":
        return "bytes of no known image format"
    return f"{error}"[:200].rstrip(".") or type(error).__name__
