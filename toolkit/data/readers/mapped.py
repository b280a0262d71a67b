"""Data that was decoded once: plain rows in a file of the cache, which is mapped into memory."""

from __future__ import annotations

import copy
import functools
import os
from typing import Dict, Optional

import numpy as np

from ...display.waits import waiting
from ..decoded import Decoded
from ..examples import Split
from ..files.cache import find_entry, free_bytes, open_entry, translate_read_errors

GROUP = "decoded"  # the folder in the cache
_CHUNK_BYTES = 16 << 20  # that are decoded before they are written
# Up to here, decoding takes less than about half a second.
_QUICK_ROWS = 4000
_QUICK_BYTES = 32 << 20


def decode_splits(
    splits: Dict[str, Split],
    reader: str = "auto",
    resident_limit: int = 1 << 30,
    is_repeated: bool = True,
) -> Dict[str, Split]:
    """The splits with all that is decoded whenever it is read decoded once.

    Little data is decoded into memory, other data into the cache, from which it is mapped. What has
    no identity, of which another process knows nothing, is decoded into memory up to the limit,
    which is in bytes. The reader "stream" leaves the splits alone; "auto" does so if they are
    larger than the limit and the disk of the cache lacks room for twice their size. If examples are
    read only once, the cache is used as it is. Raises DataError if an example is damaged,
    RetryError if the cache cannot be written; nothing half-written stays.
    """
    columns = [column for split in splits.values() for column in split.columns.values()]
    decoded = [c.values for c in columns if not c.is_decoded and c.values.dtype != object]
    values = {id(each): each for each in decoded}  # rows of one size
    if not values or reader == "stream":
        return splits
    is_quick = is_repeated and _is_quick(values)
    if is_repeated and not is_quick and reader == "auto":
        num_bytes = sum(each.nbytes for each in values.values())
        if num_bytes > max(resident_limit, free_bytes() // 2):
            return splits
    rows: Dict[int, Optional[np.ndarray]] = dict.fromkeys(values)
    for key, each in values.items():
        if not is_repeated:  # what is in the cache
            name = each.identity[:32]
            folder = find_entry(GROUP, name) if name else None
            rows[key] = None if folder is None else _load(folder)
        elif is_quick or not each.identity and each.nbytes <= resident_limit:
            with translate_read_errors():
                rows[key] = each[:]
        elif each.identity:
            build = functools.partial(_write_rows, each)
            rows[key] = _load(open_entry(GROUP, each.identity[:32], build))
    parts = {}
    for name, split in splits.items():
        part = parts[name] = copy.copy(split)
        part.columns = {
            key: column.with_values(rows[id(column.values)]).bind(key)
            if rows.get(id(column.values)) is not None
            else column
            for key, column in split.columns.items()
        }
    return parts


def _is_quick(values: Dict[int, Decoded]) -> bool:
    """Whether all is decoded in no time."""
    num_rows = sum(map(len, values.values()))
    if num_rows > _QUICK_ROWS or sum(each.nbytes for each in values.values()) > _QUICK_BYTES:
        return False
    paths = {path for each in values.values() for path in each.paths}
    return sum(os.path.getsize(path) for path in paths if os.path.exists(path)) <= _QUICK_BYTES


def _load(folder: str) -> np.ndarray:
    return np.load(os.path.join(folder, "rows.npy"), mmap_mode="r", allow_pickle=False)


def _write_rows(values: Decoded, folder: str) -> None:
    """Write the rows in the format of `numpy.save`, a part of them at a time."""
    count = len(values)
    num_rows = max(1, _CHUNK_BYTES * count // max(1, values.nbytes))
    text = f"Decoding {count:,} images (once, then cached)"
    with open(os.path.join(folder, "rows.npy"), "wb") as file, waiting(text, values.nbytes) as wait:
        header = {"descr": values.dtype.str, "fortran_order": False, "shape": values.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, count, num_rows):
            with translate_read_errors():
                rows = values[start : start + num_rows]
            file.write(rows.data)
            wait.show(file.tell())
