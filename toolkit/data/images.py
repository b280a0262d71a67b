"""`images:DIR`: a folder of image files.

DIR has a folder of images for each class, or images without classes. It may also have folders
`train`, `validation` and `test`, each with such content. A folder that can be understood in two
ways is refused: no image is left out without a word.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from ..errors import DataError, UsageError
from ..files import sha256_of
from .examples import Dataset, Split, describe
from .held_out import DEFAULT_SHARES, Shares, hold_out
from .image_file import (
    FITS,
    ImageForm,
    ImageReader,
    file_endings,
    parse_colour,
    parse_size,
    read_header,
)
from .memory import check_memory

SPLIT_FOLDERS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
    "testing": "test",
}
_IGNORED_FOLDERS = ("__MACOSX", "@eaDir")  # which archives and network disks add
_LAYOUT = "Give a folder with a folder of images for each class, or with images."


class Listing(NamedTuple):
    """The image files of one split, sorted by class and name."""

    paths: List[str]
    labels: Optional[List[int]]  # None without classes
    class_names: Tuple[str, ...]


def open_images(
    folder: str,
    image_size: Union[None, int, str] = None,
    channels: Optional[int] = None,
    fit: str = "pad",
    background: str = "white",
    extends_border: bool = False,
    shares: Shares = DEFAULT_SHARES,
) -> Dataset:
    """Open a folder of images as a data set of uint8 [N, H, W, C].

    Args:
        folder: the folder.
        image_size: the size in pixels that each image gets, 64 or "WIDTHxHEIGHT"; None requires
            that all images have one size.
        channels: 1, 3 or 4; None for 1 if all images are grey, else 3.
        fit: "pad", "crop" or "stretch"; see `ImageForm`.
        background: the name of a colour, or #rrggbb; see `ImageForm`.
        extends_border: see `ImageForm`.
        shares: of the examples, held out for test and validation.

    Raises:
        UsageError: another number of channels, another fit, or no colour.
        DataError: no images, a damaged one, images of several sizes, or an ambiguous folder.
    """
    if channels not in (None, 1, 3, 4):
        raise UsageError(
            f"The number of channels is {channels}, expected 1, 3 or 4.",
            hint="1 is grey, 3 is RGB, 4 is RGBA.",
        )
    if fit not in FITS:
        raise UsageError(f"The fit is '{fit}', expected one of {', '.join(FITS)}.")
    listings = list_images(folder)
    paths = [path for listing in listings.values() for path in listing.paths]
    channels = channels or (1 if all(read_header(path).is_grey for path in paths) else 3)
    size = None if image_size is None else parse_size(image_size)
    form = ImageForm(size, channels, fit, parse_colour(background), extends_border)
    reader = ImageReader(form)
    splits = {}
    first = paths[0]
    shape = ImageReader(form).read(first).shape
    check_memory(folder, len(paths) * int(np.prod(shape)))
    for name, listing in listings.items():
        splits[name] = Split(_read_images(listing.paths, reader, first, shape), listing.labels)
    spec = describe(splits["train"], listings["train"].class_names)
    files = {os.path.relpath(path, folder).replace(os.sep, "/"): path for path in paths}
    digests = {path: sha256_of(path) for path in paths}
    notes = reader.notes() + _find_constant_splits(splits) + _describe_others(folder)
    # Files, not pixels, decide what is held out: the same ones whatever the size of the images.
    splits = hold_out(splits, shares, [digests[path] for path in listings["train"].paths])
    hashes = {name: digests[path] for name, path in files.items()}
    return Dataset("images:" + folder, spec, splits, files, notes, hashes)


def _find_constant_splits(splits: Dict[str, Split]) -> List[str]:
    """A sentence for each split all of whose images are equal."""
    return [
        f"All {len(split)} images of '{name}' are equal."
        for name, split in splits.items()
        if len(split) > 1 and all((image == split.features[0]).all() for image in split.features)
    ]


def corrupt_images(folder: str) -> List[Dict[str, str]]:
    """The image files in `folder` that cannot be read: JSON values with "file" and "reason"."""
    reader = ImageReader(ImageForm())
    faults = []
    for listing in list_images(folder).values():
        for path in listing.paths:
            try:
                reader.read(path)
            except DataError as error:
                name = os.path.relpath(path, folder).replace(os.sep, "/")
                reason = error.message[len(path) + 2 :].rstrip(".")
                faults.append({"file": name, "reason": reason})
    return faults


# ------------------------------------------------------------------------------------ the folder


def list_images(folder: str) -> Dict[str, Listing]:
    """Split name -> its image files; always with "train".

    Raises:
        DataError: there are no images, or the folder can be understood in two ways.
    """
    if not os.path.isdir(folder):
        raise DataError(f"{folder}: expected a folder, found none.", hint=_LAYOUT)
    roots = _split_folders(folder)
    if not roots:
        return {"train": _list_split(folder)}
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


def _split_folders(folder: str) -> Dict[str, str]:
    """Split name -> its folder, with "train"; {} if the folders inside `folder` are classes."""
    roots: Dict[str, str] = {}
    classes = []
    for entry in _folders(folder):
        split = SPLIT_FOLDERS.get(entry.lower())
        if split is None:
            classes.append(entry)
        elif split in roots:
            raise DataError(
                f"{folder}: '{os.path.basename(roots[split])}' and '{entry}' are both folders of "
                f"the split '{split}'.",
                hint="Put their images into one of them.",
            )
        else:
            roots[split] = os.path.join(folder, entry)
    if classes and not any(map(_folders, roots.values())):
        return {}  # a folder such as 'train' has images beside folders that do: it is a class
    if roots and (classes or "train" not in roots):
        names = ", ".join(os.path.basename(root) for root in roots.values())
        beside = f"beside {', '.join(classes)}" if classes else "without 'train'"
        raise DataError(
            f"{folder}: found {names} {beside}: splits or classes?",
            hint="Give 'train', 'validation' and 'test' alone, or a folder for each class alone.",
        )
    if roots:
        _refuse_images_beside(folder, "the folders of splits")
    return roots


def _list_split(root: str) -> Listing:
    classes = tuple(_folders(root))
    if not classes:
        return Listing(_image_files(root), None, ())
    _refuse_images_beside(root, f"the class folders {', '.join(classes[:3])}")
    paths: List[str] = []
    labels: List[int] = []
    for label, name in enumerate(classes):
        files = _image_files(os.path.join(root, name))
        paths += files
        labels += [label] * len(files)
    return Listing(paths, labels, classes)


def _refuse_images_beside(root: str, subject: str) -> None:
    """Raise a DataError if there are images in `root` itself, which are of no class or split."""
    names = [name for name in sorted(os.listdir(root)) if _is_image(os.path.join(root, name))]
    if names:
        raise DataError(
            f"{root}: found {len(names)} image{'s' if len(names) > 1 else ''} ({names[0]}, ...) "
            f"beside {subject}.",
            hint="Put each image into the folder of its class, or all into one folder.",
        )


def _folders(root: str) -> List[str]:
    return sorted(
        name
        for name in os.listdir(root)
        if os.path.isdir(os.path.join(root, name)) and _is_visible(name)
    )


def _image_files(root: str) -> List[str]:
    """The image files below `root`, sorted; at least one."""
    paths = [path for path in _walk(root) if _is_image(path)]
    if not paths:
        raise DataError(f"{root}: expected images, found none.", hint=_LAYOUT)
    return sorted(paths)


def _walk(root: str) -> Iterator[str]:
    """The paths below `root` that are no folders, without those in hidden folders."""
    for base, folders, names in os.walk(root):
        folders[:] = [name for name in folders if _is_visible(name)]
        yield from (os.path.join(base, name) for name in names)


def _is_visible(folder: str) -> bool:
    return not folder.startswith(".") and folder not in _IGNORED_FOLDERS


def _describe_others(folder: str) -> List[str]:
    """A sentence on files and linked folders that are not read, if there are any."""
    names = [os.path.basename(path) for path in _walk(folder) if not _is_image(path)]
    others = [name for name in names if not name.startswith(".")]
    links = [
        name
        for base, folders, _ in os.walk(folder)
        for name in folders
        if os.path.islink(os.path.join(base, name)) and base != folder
    ]
    notes = []
    if others:
        count = len(others)
        notes.append(
            f"{count:,} file{'s' if count > 1 else ''} beside the images are not read "
            f"({', '.join(sorted(others)[:3])})."
        )
    if links:
        notes.append(f"Links to folders are not followed ({', '.join(sorted(links)[:3])}).")
    return notes


def _is_image(path: str) -> bool:
    """Whether a path has the ending of an image format, and is no folder and not hidden."""
    name = os.path.basename(path)
    is_named = name.lower().endswith(file_endings()) and not name.startswith(".")
    return is_named and not os.path.isdir(path)


def _read_images(
    paths: List[str], reader: ImageReader, first: str, shape: Tuple[int, ...]
) -> np.ndarray:
    """The images as uint8 [N, H, W, C]; all must have the shape of the image `first`."""
    pixels = np.empty((len(paths),) + shape, np.uint8)
    for row, path in enumerate(paths):
        image = reader.read(path)
        if image.shape != shape:
            raise DataError(
                f"{path}: expected {shape[1]}x{shape[0]} pixels as in {first}, found "
                f"{image.shape[1]}x{image.shape[0]}.",
                hint="Scale all images to one size with --image-size, for example --image-size 64.",
            )
        pixels[row] = image
    return pixels
