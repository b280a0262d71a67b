"""Advice to the operating system on which parts of mapped files are read next."""

from __future__ import annotations

import os
import weakref
from typing import Iterable, List, NamedTuple, Optional

import numpy as np

from ..column import Column, Sequences, memory_map
from ..examples import Split
from .order import Range

_MAX_SPREAD = 8  # records that may be read for each that is needed


class _MappedRows(NamedTuple):
    """Rows of a memory map.

    Attributes:
        file: a descriptor.
        offset: of the first row, in bytes.
        row_bytes: of one row.
        starts: where each sequence begins, int64 [M + 1]; None if an example is one row.
    """

    file: int
    offset: int
    row_bytes: int
    starts: Optional[np.ndarray]


class ReadAhead:
    """Has the system read parts of mapped files before they are needed, where it can.

    Args:
        split: the examples.
    """

    def __init__(self, split: Split):
        self._index = split.index
        self._mapped: List[_MappedRows] = []
        if hasattr(os, "posix_fadvise"):
            self._mapped = [rows for rows in map(_open, split.columns.values()) if rows is not None]
        weakref.finalize(self, _close, [rows.file for rows in self._mapped])

    def advise(self, ranges: Iterable[Range]) -> None:
        """Have examples of the split read soon. It does not wait for them."""
        if not self._mapped:
            return
        for part in ranges:
            records = self._records(part)
            if records is not None:
                for rows in self._mapped:
                    _advise(rows, records)

    def _records(self, part: Range) -> Optional[Range]:
        """The records behind examples; None if they are too far apart."""
        if self._index is None:
            return part
        records = self._index[part.start : part.stop]
        first, stop = int(records.min()), int(records.max()) + 1
        return Range(first, stop) if stop - first <= _MAX_SPREAD * len(records) else None


def _open(column: Column) -> Optional[_MappedRows]:
    """The rows of a column in its file; None unless they are one after the other in a file."""
    values, starts = column.values, None
    if isinstance(values, Sequences):
        values, starts = values.values, values.starts
    mapped = memory_map(values)
    if mapped is None or not isinstance(values, np.ndarray) or not values.flags.c_contiguous:
        return None
    first = values.__array_interface__["data"][0] - mapped.__array_interface__["data"][0]
    try:
        file = os.open(str(mapped.filename), os.O_RDONLY)
    except OSError:  # it is gone, but remains mapped
        return None
    return _MappedRows(file, int(mapped.offset) + first, values.strides[0], starts)


def _advise(rows: _MappedRows, records: Range) -> None:
    first, stop = records if rows.starts is None else (int(rows.starts[i]) for i in records)
    size = (stop - first) * rows.row_bytes
    os.posix_fadvise(rows.file, rows.offset + first * rows.row_bytes, size, os.POSIX_FADV_WILLNEED)


def _close(files: List[int]) -> None:
    for file in files:
        os.close(file)
