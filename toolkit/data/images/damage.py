"""Image files that cannot be read: find them all, and leave them out where the options say so."""

from __future__ import annotations

import os
from typing import Dict, List, Sequence, Set, Tuple

import numpy as np

from ...errors import DataError
from ..decoded import hash_texts
from ..files.file_index import FileIndex
from ..files.parallel import map_parallel
from .image_file import ImageForm, ImageReader

_BATCH = 16  # files that a thread reads before it takes the next ones
_MAX_NAMES = 3  # of files, in a note


def corrupt_images(folder: str, paths: Sequence[str]) -> List[Dict[str, str]]:
    """The image files that cannot be read: JSON values with "file" and "reason".

    Args:
        folder: from which "file" starts.
        paths: of the files, in the folder.
    """
    reader = ImageReader(ImageForm())

    def find_fault(path: str) -> str:
        try:
            reader.read(path)
            return ""
        except DataError as error:
            return error.message[len(path) + 2 :].rstrip(".")

    faults = map_parallel(find_fault, paths, _BATCH, f"Checking {len(paths):,} files")
    return [
        {"file": os.path.relpath(path, folder).replace(os.sep, "/"), "reason": fault}
        for path, fault in zip(paths, faults)
        if fault
    ]


def find_damaged(folder: str, paths: Sequence[str], index: FileIndex) -> Tuple[Set[str], List[str]]:
    """The paths of the image files to leave out, and a sentence that counts and names them.

    All files are decoded once; then the index knows.

    Args:
        folder: that has the files.
        paths: of the files, [M].
        index: of the files.

    Raises:
        OSError: a file is not there or may not be read, which is no damage.
    """
    name = "damaged " + hash_texts(index.digests(paths))
    rows = index.load(name)
    if rows is None:
        files = {each["file"] for each in corrupt_images(folder, paths)}
        names = [os.path.relpath(path, folder).replace(os.sep, "/") for path in paths]
        rows = np.array([row for row, each in enumerate(names) if each in files], np.int64)
        index.save(name, rows)
    damaged = [paths[row] for row in rows]
    if not damaged:
        return set(), []
    names = [os.path.relpath(path, folder) for path in damaged[:_MAX_NAMES]]
    names += ["..."] * (len(damaged) > _MAX_NAMES)
    images = f"{len(damaged):,} damaged image{'s' if len(damaged) > 1 else ''}"
    return set(damaged), [f"{images} left out ({', '.join(names)}; --skip-damaged)."]
