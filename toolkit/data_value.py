"""What `--data PATH` means: the source for a file or a folder, by what it holds."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from typing import List

from .errors import UsageError

NAMES = ("mnist5k", "mnist", "fashion-mnist")  # sources without a path
PREFIXES = ("idx:", "npz:", "images:", "table:", "pairs:", "tfrecord:")

_FILES = {
    "table": re.compile(r"\.(csv|tsv|jsonl|ndjson)(\.gz)?$", re.I),
    "npz": re.compile(r"\.npz$", re.I),
    # Not the files of checkpoints, which are numbered like those of records.
    "tfrecord": re.compile(r"\.tfrec(ords?)?(\.gz)?$|(?<!\.data)-\d+-of-\d+(\.gz)?$", re.I),
}
_IDX = re.compile(r"idx[1-4]-ubyte(\.gz)?$")
_IMAGE = re.compile(r"\.(jpe?g|png|gif|bmp|webp|tiff?)$", re.I)


def complete(value: str) -> str:
    """A `--data` value with its source; the value itself if it has one, or is no path. Raises
    UsageError for a folder that may be read in several ways.
    """
    path = os.path.expanduser(value)
    if value in NAMES or value.startswith(PREFIXES) or not os.path.exists(path):
        return value
    values = _read_folder(value, path) if os.path.isdir(path) else _read_file(value)
    if not values and _IDX.search(path):
        values = [f"idx:{os.path.dirname(value) or os.curdir}"]
    if len(values) > 1:
        more = f" or {len(values) - 4} more" if len(values) > 4 else ""
        names = " or ".join(values[:4])
        raise UsageError(f"The data '{value}' may be {names}{more}.", hint="Name one.")
    return values[0] if values else value


def _read_file(value: str) -> List[str]:
    return [f"{source}:{value}" for source, name in _FILES.items() if name.search(value)]


def _read_folder(value: str, path: str) -> List[str]:
    """The values of all that a folder holds; of one that holds nothing known, that of images."""
    folder, names = value.rstrip(os.sep) or value, []
    with contextlib.suppress(OSError):  # the source will say that it cannot be read
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    folders = {name.lower() for name in names if os.path.isdir(os.path.join(path, name))}
    sources = {
        "idx": any(map(_IDX.search, names)),
        "images": folders or any(map(_IMAGE.search, names)),
        "pairs": folders == {"a", "b"} or (len(folders) == 2 and "images" in folders),
    }
    values = [f"{source}:{folder}" for source, holds in sources.items() if holds]
    paths = [os.path.join(folder, name) for name in names if name.lower() not in folders]
    files = [each for path in paths for each in _read_file(path)]
    values += [each for each in files if not each.startswith("tfrecord:")]
    records = [each for each in files if each.startswith("tfrecord:")]
    kinds = [re.findall(r"(?i)\.tfrec(?:ord)?|$", os.path.basename(each))[0] for each in records]
    for kind in dict.fromkeys(kinds):  # as it is written, or "" for numbered files alone
        values.append(f"tfrecord:{glob.escape(folder)}/*{kind or '-of-'}*")
    return values or [f"images:{folder}"]
