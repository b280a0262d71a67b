"""`pairs:DIR`: two folders of images that belong together.

    images and masks         a picture and its label image: features and labels
    a and b, input and target, any two other names
                             the two images of a pair: features by the names of the folders
    trainA, trainB, testA, testB
                             as a and b, with splits

Two images with equal names but for their endings are a pair. Two folders without a name in common
are two domains, of which the smaller one repeats. The folders may be in folders `train`,
`validation` and `test`, or have such folders themselves.

Legend: N pairs.
"""

from __future__ import annotations

import collections
import os
import re
from typing import Dict, List, NamedTuple, NoReturn, Optional, Pattern, Sequence, Set, Tuple

import numpy as np

from ...display.numbers import format_count
from ...errors import DataError, join_names
from ..examples import Dataset, Split, describe
from ..held_out import Shares, hold_out
from ..reading_options import Settings
from ..spec import component_names
from .folder import (
    SPLIT_FOLDERS,
    check_rest,
    describe_other_files,
    is_image_name,
    list_folders,
    list_image_files,
    split_folders,
    split_of,
)
from .image_files import ImageFiles, LabelFiles, find_damaged, name_files

MASK_FOLDERS = (
    *("mask", "masks", "label", "labels", "annotation", "annotations"),
    *("segmentation", "segmentations", "gt", "groundtruth", "ground_truth"),
)
_DOMAIN = re.compile(r"(train|training|validation|valid|val|test|testing)[_-]?([AB])$", re.I)
_MASK_SUFFIX = re.compile(r"[ _.-](mask|masks|label|labels|segmentation|seg|gt)$", re.I)
_LAYOUT = "Give two folders, for example images and masks, or a and b."

Pair = List[Tuple[str, str]]  # the names of two folders, and their paths
Splits = Dict[str, Split]


class Listing(NamedTuple):
    """The image files of one split."""

    names: Tuple[str, str]  # of the two folders
    paths: Tuple[List[str], List[str]]  # of the files in each; two domains have other lengths
    is_aligned: bool  # whether the i-th files are a pair


def open_pairs(settings: Settings) -> Dataset:
    """Open two folders of images as a data set. Raises a DataError if images have no partner, or
    label images other sizes than their pictures.
    """
    folder, options, index = settings.path, settings.images, settings.files
    listings = list_pairs(folder)
    all_paths = [path for each in listings.values() for side in each.paths for path in side]
    damaged, notes = find_damaged(settings, all_paths)
    if damaged:
        for split, each in listings.items():
            listings[split] = _leave_out(folder, split, each, damaged)
    first, second = listings["train"].names
    sides = [[p for each in listings.values() for p in each.paths[side]] for side in (0, 1)]
    names = component_names((first, second))
    left = ImageFiles(folder, sides[0], index, options, names[first])
    if second.lower() in MASK_FOLDERS:
        scale = settings.model.label_scale if settings.model else 0
        right: ImageFiles = LabelFiles(sides[1], index, left, sides[0], scale)
    else:
        right = ImageFiles(folder, sides[1], index, options, names[second])
    divide = _pair if listings["train"].is_aligned else _pair_domains
    splits, about = divide(listings, (left, right), settings.shares)
    files = name_files(folder, sides[0] + sides[1])
    hashes = left.select_digests(sides[0]) + right.select_digests(sides[1])
    notes += left.notes + right.notes + about + describe_other_files(folder)
    spec = describe(splits["train"])._replace(label_scale=right.known_scale)
    paths = dict(zip(files, sides[0] + sides[1]))
    return Dataset("pairs:" + folder, spec, splits, paths, notes, dict(zip(files, hashes)))


def list_pairs(folder: str) -> Dict[str, Listing]:
    """Split name -> its image files; always with "train". Else it raises a DataError."""
    if not os.path.isdir(folder):
        raise DataError(f"{folder}: expected a folder, found none.", hint=_LAYOUT)
    listings = {split: _match(folder, pair) for split, pair in _find(folder).items()}
    if len({listing.is_aligned for listing in listings.values()}) > 1:
        raise DataError(
            f"{folder}: expected pairs in all splits or in none, found equal names in some.",
            hint="Name the two images of a pair alike.",
        )
    return listings


def _leave_out(folder: str, split: str, listing: Listing, damaged: Set[str]) -> Listing:
    """A listing without damaged files, and without those that are pairs with them."""
    paths = listing.paths
    if listing.is_aligned:
        pairs = [pair for pair in zip(*paths) if not damaged & set(pair)]
        paths = [left for left, _ in pairs], [right for _, right in pairs]
    else:
        paths = tuple([p for p in side if p not in damaged] for side in paths)  # type: ignore
    for name, side in zip(listing.names, paths):
        check_rest(f"{folder} ({split}, {name})", side)
    return listing._replace(paths=paths)


# ----------------------------------------------------------------------------------------- folders


def _find(folder: str) -> Dict[str, Pair]:
    """Split name -> its two folders."""
    names = list_folders(folder)
    domains = list(filter(None, map(_DOMAIN.match, names)))
    if domains and len(domains) == len(names):
        places = [
            (SPLIT_FOLDERS[m.group(1).lower()], m.group(2).lower(), os.path.join(folder, m.group()))
            for m in domains
        ]
    else:
        splits = split_folders(folder, has_classes=False)
        places = [
            (split, side, os.path.join(root, side))
            for split, root in splits.items()
            for side in _two(root)
        ]
        for side in () if splits else _two(folder):
            root = os.path.join(folder, side)
            inner = split_folders(root, has_classes=False) or {"train": root}
            below = list_folders(root)
            if root in inner.values() and any(map(split_of, below)):
                _refuse_layout(folder, f"{join_names(below, 5)} in '{side}'")
            places += [(split, side, path) for split, path in inner.items()]
    pairs: Dict[str, Pair] = {}
    for split, side, path in places:
        pairs.setdefault(split, []).append((side, path))
    sides = [side for side, _ in pairs.get("train", [])]
    for split, pair in pairs.items():
        names = [side for side, _ in pair]
        if names != sides or len(names) != 2:
            found, expected = (" and ".join(each) or "none" for each in (names, sides))
            _refuse_layout(folder, f"{found} in '{split}', and {expected} in 'train'")
    return pairs


def _two(folder: str) -> List[str]:
    """The names of the two folders in a folder; that of label images comes second."""
    names = list_folders(folder)
    if len(names) != 2:
        _refuse_layout(folder, join_names(names, 5) or "none")
    images = [name for name in os.listdir(folder) if is_image_name(name)]
    if images:
        _refuse_layout(folder, f"images beside them ({images[0]}, ...)")
    if all(name.lower() in MASK_FOLDERS for name in names):
        _refuse_layout(folder, f"label images in both, {names[0]} and {names[1]}")
    return sorted(names, key=lambda name: name.lower() in MASK_FOLDERS)


def _refuse_layout(folder: str, content: str) -> NoReturn:
    raise DataError(f"{folder}: expected two folders of images, found {content}.", hint=_LAYOUT)


# ------------------------------------------------------------------------------------------- pairs


def _match(folder: str, pair: Pair) -> Listing:
    """The images of two folders by pairs, or as two domains if no name is in both."""
    (first, first_root), (second, second_root) = pair
    is_masked = second.lower() in MASK_FOLDERS
    left, right = _by_name(first_root), _by_name(second_root)
    if is_masked and not set(left) & set(right):
        right = _by_name(second_root, _MASK_SUFFIX)  # cat_mask.png beside cat.jpg
    common = sorted(set(left) & set(right))
    if not common and not is_masked:
        return Listing((first, second), (sorted(left.values()), sorted(right.values())), False)
    lonely = [left[name] for name in sorted(set(left) - set(right))]
    lonely += [right[name] for name in sorted(set(right) - set(left))]
    if lonely:
        count = format_count(len(lonely), "image", mark=",")
        raise DataError(
            f"{folder}: expected two images of each name, in '{first}' and in '{second}', found "
            f"{count} without a partner ({join_names(lonely, 3)}).",
            hint="Add the missing images or remove these; names differ in their endings alone.",
        )
    paths = [left[name] for name in common], [right[name] for name in common]
    return Listing((first, second), paths, True)


def _by_name(root: str, suffix: Optional[Pattern[str]] = None) -> Dict[str, str]:
    """The image files below a folder by their paths in it, without endings and a suffix."""
    paths: Dict[str, str] = {}
    for path in list_image_files(root):
        name = os.path.splitext(os.path.relpath(path, root))[0]
        name = suffix.sub("", name) if suffix else name
        if name in paths:
            raise DataError(
                f"{root}: expected one image of each name, found {paths[name]} and {path}.",
                hint="Remove one of them.",
            )
        paths[name] = path
    return paths


def _pair(
    listings: Dict[str, Listing], sides: Tuple[ImageFiles, ImageFiles], shares: Shares
) -> Tuple[Splits, List[str]]:
    """Splits of pairs, and a note: features by the names of the folders, or features and labels."""
    names = component_names(listings["train"].names).values()
    is_masked = isinstance(sides[1], LabelFiles)
    splits = {}
    for split, listing in listings.items():
        images = [files.select(paths) for files, paths in zip(sides, listing.paths)]
        splits[split] = Split(*images) if is_masked else Split(dict(zip(names, images)))
    groups, others = (f.select_digests(p) for f, p in zip(sides, listings["train"].paths))
    if is_masked:
        return hold_out(splits, shares, groups), []
    groups = _group_pairs(groups, others)
    count = sum(size for size in collections.Counter(groups).values() if size > 1)
    note = f"{count:,} pairs share images with others, and are in one split with them."
    return hold_out(splits, shares, groups), [note] if count else []


def _group_pairs(left: Sequence[str], right: Sequence[str]) -> List[str]:
    """A text for each pair, equal for pairs that share a left or a right image, or do so by others.

    An image that is left in one pair and right in another joins no pairs: of the frames of a video,
    each with the next one, it would join all.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ends = [np.unique(side, return_inverse=True)[1].reshape(-1) for side in (left, right)]
    ends[1] += len(left)  # at most as many images are left
    edges = coo_matrix((np.ones(len(left)), ends), shape=[2 * len(left)] * 2)
    groups = connected_components(edges, directed=False)[1][ends[0]].tolist()
    texts: Dict[int, str] = {}
    for group, text in zip(groups, map(" ".join, zip(left, right))):
        texts[group] = min(text, texts.get(group, text))
    return [texts[group] for group in groups]


def _pair_domains(
    listings: Dict[str, Listing], domains: Tuple[ImageFiles, ImageFiles], shares: Shares
) -> Tuple[Splits, List[str]]:
    """Splits of two domains; in each split the smaller domain repeats."""
    names = list(component_names(listings["train"].names).values())
    notes: List[str] = []
    sides = [_hold_out_paths(listings, side, domains[side], shares) for side in (0, 1)]
    lonely = set(sides[0]) ^ set(sides[1])
    if lonely:  # one domain is too small: nothing is held out of the other one either
        few = shares._replace(**dict.fromkeys(lonely, 0))
        few = few._replace(folds=0, fold=0) if "test" in lonely else few
        sides = [_hold_out_paths(listings, side, domains[side], few) for side in (0, 1)]
        count, name = min((len(side["train"]), name) for side, name in zip(sides, names))
        notes.append(
            f"No {' and '.join(sorted(lonely))} split is held out: the domain {name} ({count:,}) "
            "has too few images."
        )
    splits = {}
    for split in sides[0]:
        count, features = max(len(side[split]) for side in sides), {}
        for name, images, side in zip(names, domains, sides):
            features[name] = images.select(
                [side[split][i % len(side[split])] for i in range(count)]
            )
        splits[split] = Split(features)
    counts = [len(side["train"]) for side in sides]
    sizes = " and ".join(f"{name} ({count:,})" for name, count in zip(names, counts))
    repeats = "" if counts[0] == counts[1] else "; the smaller one repeats"
    note = f"No name is in both folders: two domains, {sizes} images to train on{repeats}."
    return splits, [note, *notes]


def _hold_out_paths(
    listings: Dict[str, Listing], side: int, images: ImageFiles, shares: Shares
) -> Dict[str, List[str]]:
    """The files of one domain in each split."""
    paths = {split: listing.paths[side] for split, listing in listings.items()}
    splits = {split: Split(images.select(paths[split])) for split in paths}
    parts = hold_out(splits, shares, images.select_digests(paths["train"]))
    return {
        name: paths[name] if part.index is None else [paths["train"][i] for i in part.index]
        for name, part in parts.items()
    }
