"""`images:DIR`: a folder of image files.

DIR has a folder of images for each class, or images without classes. It may also have folders
`train`, `validation` and `test`, each with such content. A folder that can be understood in two
ways is refused: no image is left out without a word.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from ...display.numbers import format_count
from ...errors import DataError, join_names
from ..examples import Dataset, Split, describe
from ..held_out import hold_out
from ..reading_options import Settings
from .image_file import file_endings
from .image_files import ImageFiles, find_damaged, name_files

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


def open_images(settings: Settings) -> Dataset:
    """Open a folder of images as a data set of uint8 [N, H, W, C]. Raises a DataError for none, a
    damaged one, images of several sizes, or an ambiguous folder.
    """
    folder = settings.path
    listings = list_images(folder)
    damaged, notes = find_damaged(settings, [p for each in listings.values() for p in each.paths])
    for name, (paths, labels, classes) in listings.items() if damaged else ():
        rows = [row for row, path in enumerate(paths) if path not in damaged]
        paths = check_rest(f"{folder} ({name})", [paths[row] for row in rows])
        listings[name] = Listing(paths, labels and [labels[row] for row in rows], classes)
    paths = [path for listing in listings.values() for path in listing.paths]
    images = ImageFiles(folder, paths, settings.files, settings.images)
    splits = {
        name: Split(images.select(listing.paths), listing.labels)
        for name, listing in listings.items()
    }
    spec = describe(splits["train"], listings["train"].class_names)
    # Files, not pixels, decide what is held out: the same ones whatever the size of the images.
    splits = hold_out(splits, settings.shares, images.select_digests(listings["train"].paths))
    names = name_files(folder, paths)
    notes += images.notes + describe_other_files(folder)
    hashes = dict(zip(names, images.select_digests(paths)))
    return Dataset("images:" + folder, spec, splits, dict(zip(names, paths)), notes, hashes)


def check_rest(root: str, paths: List[str]) -> List[str]:
    """The paths that are left of the images in a folder; raises a DataError if there are none."""
    if not paths:
        raise DataError(
            f"{root}: none of its images can be read.", hint="'toolkit data check DATA' says why."
        )
    return paths


# ------------------------------------------------------------------------------------ the folder


def list_images(folder: str) -> Dict[str, Listing]:
    """Split name -> its image files; always with "train".

    Raises a DataError if there are no images, or the folder can be understood in two ways.
    """
    if not os.path.isdir(folder):
        raise DataError(f"{folder}: expected a folder, found none.", hint=_LAYOUT)
    roots = split_folders(folder) or {"train": folder}
    listings = {name: _list_split(root) for name, root in roots.items()}
    names = listings["train"].class_names
    for name, listing in listings.items():
        if listing.class_names != names:
            raise DataError(
                f"{roots[name]}: expected the classes of 'train' "
                f"({', '.join(names) or 'none'}), found "
                f"{', '.join(listing.class_names) or 'none'}.",
                hint=f"Give each split a folder for each class, or images:{roots['train']} alone: "
                "'toolkit predict' takes images without classes.",
            )
    return listings


def split_folders(folder: str, has_classes: bool = True) -> Dict[str, str]:
    """Split name -> its folder, with "train"; {} if the folders inside `folder` are classes, or
    without `has_classes` others.
    """
    roots: Dict[str, str] = {}
    classes = []
    for entry in list_folders(folder):
        split = split_of(entry)
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
    if classes and not any(map(list_folders, roots.values())):
        return {}  # a folder such as 'train' has images beside folders that do: it is a class
    if roots and (classes or "train" not in roots):
        names = ", ".join(os.path.basename(root) for root in roots.values())
        beside = f"beside {', '.join(classes)}" if classes else "without 'train'"
        question = ": splits or classes?" if has_classes else "."
        more = ", or a folder for each class alone." if has_classes else "."
        raise DataError(
            f"{folder}: found {names} {beside}{question}",
            hint=f"Give 'train', 'validation' and 'test' alone{more}",
        )
    if roots:
        _refuse_images_beside(folder, "the folders of splits")
    return roots


def split_of(folder: str) -> Optional[str]:
    """The split that the name of a folder says, perhaps with a year, as COCO's train2017."""
    return SPLIT_FOLDERS.get(re.sub(r"20\d\d$", "", folder.lower()))


def _list_split(root: str) -> Listing:
    classes = tuple(list_folders(root))
    if not classes:
        return Listing(list_image_files(root), None, ())
    _refuse_images_beside(root, f"the class folders {join_names(classes, 3)}")
    files = [list_image_files(os.path.join(root, name)) for name in classes]
    labels = [label for label, paths in enumerate(files) for _ in paths]
    return Listing([path for paths in files for path in paths], labels, classes)


def _refuse_images_beside(root: str, subject: str) -> None:
    """Raise a DataError if there are images in `root` itself, which are of no class or split."""
    with os.scandir(root) as entries:
        names = sorted(e.name for e in entries if is_image_name(e.name) and not _is_folder(e))
    if names:
        raise DataError(
            f"{root}: found {format_count(len(names), 'image')} ({names[0]}, ...) beside "
            f"{subject}.",
            hint="Put each image into the folder of its class, or all into one folder.",
        )


def list_folders(root: str) -> List[str]:
    """The names of the folders in a folder, sorted, without hidden ones."""
    with os.scandir(root) as entries:
        return sorted(e.name for e in entries if _is_folder(e) and _is_visible(e.name))


def _is_folder(entry: os.DirEntry) -> bool:
    """Whether an entry is a folder or a link to one; a link to itself is none."""
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()


def list_image_files(root: str) -> List[str]:
    """The image files below `root`, sorted; at least one."""
    paths: List[str] = []
    for base, _, names in _walk(root):
        start = os.path.join(base, "")
        paths += [start + name for name in names if is_image_name(name)]
    if not paths:
        raise DataError(f"{root}: expected images, found none.", hint=_LAYOUT)
    return sorted(paths)


def _walk(root: str) -> Iterator[Tuple[str, List[str], List[str]]]:
    """As `os.walk`, without hidden folders; an unreadable folder raises an OSError."""
    for base, folders, names in os.walk(root, onerror=raise_error):
        folders[:] = filter(_is_visible, folders)
        yield base, folders, names


def raise_error(error: OSError) -> None:
    """The `onerror` of `os.walk` for a folder of which nothing may be left out."""
    raise error


def _is_visible(folder: str) -> bool:
    return not folder.startswith(".") and folder not in _IGNORED_FOLDERS


def describe_other_files(folder: str) -> List[str]:
    """A sentence on files and linked folders that are not read, if there are any."""
    others, links = [], []
    for base, folders, names in _walk(folder):
        others += [name for name in names if not (name.startswith(".") or is_image_name(name))]
        if base != folder:
            links += [name for name in folders if os.path.islink(os.path.join(base, name))]
    notes = []
    if others:
        count = format_count(len(others), "file", mark=",")
        notes.append(f"Not read: {count} beside the images ({join_names(sorted(others), 3)}).")
    if links:
        notes.append(f"Links to folders are not followed ({join_names(sorted(links), 3)}).")
    return notes


def is_image_name(name: str) -> bool:
    """Whether the name of a file has the ending of an image format and is not hidden."""
    return name[name.rfind(".") :].lower() in file_endings() and not name.startswith(".")
