"""The files that `tfrecord:PATH` names, and what their names say: splits, and shards of a set."""

from __future__ import annotations

import collections
import glob
import itertools
import os
import re
from typing import Dict, List, Optional, Sequence, Tuple

from ...errors import DataError
from ..images.folder import SPLIT_FOLDERS, raise_error

_SHARD = re.compile(r"(?P<start>.*?)-(?P<number>\d{3,})-of-(?P<total>\d{3,})(?P<end>.*)", re.DOTALL)
_RECORDS = re.compile(r"tfrec|-\d{3,}-of-\d{3,}|\.records?(\.|$)", re.IGNORECASE)
_MAX_NAMES = 5  # names in a message


def find_shards(place: str) -> Tuple[Dict[str, List[str]], List[str]]:
    """The files of records at a place: a file, a folder, or a pattern such as `data/train-*`.

    Returns:
        splits: split name -> its files, sorted; always with "train", which comes first.
        notes: sentences on files that are missing or have no records.

    Raises:
        DataError: there is no such file, or only some names contain the name of a split.
    """
    paths, notes = _list_files(place)
    if not paths:
        raise DataError(
            f"{place}: expected TFRecord files, found none.",
            hint="Give a file, a folder of .tfrecord files, or a pattern such as 'data/train-*'.",
        )
    return _divide(paths), notes + _find_gaps(paths)


def _list_files(place: str) -> Tuple[List[str], List[str]]:
    """The files at a place, sorted, each once, and notes on others."""
    notes = []
    if os.path.isdir(place):
        found = _walk(place)
        paths = [path for path in found if _RECORDS.search(os.path.basename(path))] or found
        others = [os.path.basename(path) for path in found if path not in set(paths)]
        if others:
            notes.append(f"Files without records are not read: {_list_names(others)}.")
    elif os.path.exists(place):
        paths = [place]
    else:
        paths = [p for p in sorted(glob.glob(place, recursive=True)) if not os.path.isdir(p)]
    first_of: Dict[str, str] = {}  # the first path of each file, to which others are links
    for path in paths:
        first_of.setdefault(os.path.realpath(path), path)
    return list(first_of.values()), notes


def _walk(root: str) -> List[str]:
    """The files in a folder and in those below it, sorted, each folder once and no hidden one."""
    paths, places = [], {os.path.realpath(root)}
    for base, folders, names in os.walk(root, onerror=raise_error, followlinks=True):
        paths += [os.path.join(base, name) for name in names if not name.startswith(".")]
        for name in sorted(folders):
            place = os.path.realpath(os.path.join(base, name))
            if name.startswith(".") or place in places:
                folders.remove(name)
            places.add(place)
    return sorted(paths)


def _divide(paths: Sequence[str]) -> Dict[str, List[str]]:
    """Split name -> its files. Files of one split, or without names of splits, are all "train"."""
    root = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    splits: Dict[Optional[str], List[str]] = collections.defaultdict(list)
    for path in paths:
        splits[_split_of(path, root)].append(path)
    if len(splits) == 1:
        return {"train": list(paths)}
    if None in splits:
        raise DataError(
            f"{splits[None][0]}: expected the name of a split, train, validation or test, as in "
            f"{next(files[0] for name, files in splits.items() if name)}.",
            hint="Name the files of each split, or give a pattern that matches those of one.",
        )
    if "train" not in splits:
        raise DataError(
            f"{paths[0]}: expected files of the split 'train', too, found "
            f"{' and '.join(sorted(filter(None, splits)))} alone.",
            hint="Give a pattern that also matches the training files, or those of one split.",
        )
    return {name: splits[name] for name in ("train", "validation", "test") if name in splits}


def _split_of(path: str, root: str) -> Optional[str]:
    """The split that a file's name says, or else that of its nearest folder below `root`; None if
    none does.
    """
    folder, name = os.path.split(path)
    words = re.split(r"[^A-Za-z]+", name.lower())
    below = os.path.relpath(folder or os.curdir, root).lower().split(os.sep)
    for word in [*words, *reversed(below)]:
        if word in SPLIT_FOLDERS:
            return SPLIT_FOLDERS[word]
    return None


def _find_gaps(paths: Sequence[str]) -> List[str]:
    """A sentence for each set of files `-00003-of-00010` that is not complete."""
    numbers = collections.defaultdict(set)
    for match in filter(None, map(_SHARD.fullmatch, paths)):
        numbers[match.group("start", "total", "end")].add(int(match.group("number")))
    notes = []
    for (start, width, end), present in sorted(numbers.items()):
        total = int(width)
        count = total - sum(number < total for number in present)
        missing = (number for number in range(total) if number not in present)
        names = [  # a name may promise any number of files
            f"{os.path.basename(start)}-{number:0{len(width)}}-of-{width}{end}"
            for number in itertools.islice(missing, _MAX_NAMES)
        ]
        if count:
            notes.append(f"{count:,} of {total:,} files are missing: {_list_names(names, count)}.")
    return notes


def _list_names(names: Sequence[str], count: int = 0) -> str:
    more = (count or len(names)) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")
