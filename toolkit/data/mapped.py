"""Data that was decoded once: plain rows in a file of the cache, which is mapped into memory.

An entry is a folder in the folder `decoded` of the cache, named by a hash of what was decoded and
of the form. It has the rows, `rows.npy`, and `entry.json`, which is written last.

Legend: M rows, ... the shape of one row.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import os
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional

import numpy as np

from ..errors import DataError
from ..files import TEMPORARY_PREFIX, atomic_write, sha256_of
from .cache import cache_folder, one_process_at_a_time, writing_to_cache
from .column import Column
from .examples import Split
from .file_index import FileIndex
from .image_array import hash_texts
from .structure import pack

GROUP = "decoded"  # the folder in the cache
_FORMAT = 1
_CHUNK_BYTES = 16 << 20  # that are decoded before they are written
_SAMPLES = 64  # rows that tell apart what is read from the same files

Progress = Callable[[str, int, int], None]  # (what, bytes done, total bytes)


class _Entry(NamedTuple):
    """The contents of `entry.json`.

    Attributes:
        format: of the entry.
        sha256: of `rows.npy`.
        state: size, time of modification in ns and inode of `rows.npy`.
    """

    format: int
    sha256: str
    state: Any


def map_split(
    split: Split, cache_dir: Optional[str] = None, progress: Optional[Progress] = None
) -> Split:
    """The split with all that is read from memory maps of the cache, where reading it decodes.

    What is not in the cache is decoded, in several threads, and written there. A second process
    that needs the same waits for it.

    Args:
        split: the examples.
        cache_dir: the cache folder; None for the default.
        progress: called with (what, bytes done, total bytes) while rows are decoded.

    Raises:
        DataError: an example is damaged.
        RetryError: the cache cannot be written; nothing half-written stays.
    """
    columns: Dict[str, Any] = {}
    for key, column in split.columns.items():
        if not is_mappable(column):
            columns[key] = column
            continue
        columns[key] = copy.copy(column)
        columns[key].values = map_rows(column.values, cache_dir, progress)
    features, labels = pack(columns)
    return Split(features, labels, split.index)


def is_mappable(column: Column) -> bool:
    """Whether reading a column decodes rows of one size."""
    return not column.is_decoded and np.dtype(column.values.dtype).kind in "biuf"


def map_rows(
    values: Any, cache_dir: Optional[str] = None, progress: Optional[Progress] = None
) -> np.ndarray:
    """The rows of an array-like, decoded once into a file of the cache: a memory map [M, ...].

    Args:
        values: has `shape`, `dtype` and `paths`, and perhaps an `identity`; see `Column`.
        cache_dir, progress: as for `map_split`.
    """
    folder = os.path.join(cache_folder(cache_dir), GROUP, _identify(values, cache_dir)[:32])
    rows = _load(folder, values)
    if rows is not None:
        return rows
    with one_process_at_a_time(folder):
        rows = _load(folder, values)  # another process may have written it until now
        if rows is None:
            _write(folder, values, progress)
            rows = _load(folder, values)
    assert rows is not None
    return rows


def _identify(values: Any, cache_dir: Optional[str]) -> str:
    """A hash of what the rows are decoded from, and of their form."""
    identity = getattr(values, "identity", "")
    if identity:
        return str(identity)
    paths = list(dict.fromkeys(values.paths))
    place = os.path.commonpath([os.path.abspath(path) for path in paths]) if paths else ""
    digests = FileIndex(place, cache_dir).digests(paths)
    samples = np.unique(np.linspace(0, len(values) - 1, min(_SAMPLES, len(values))).astype(int))
    content = hashlib.sha256(np.ascontiguousarray(values[samples])).hexdigest()
    return hash_texts([*digests, content, repr((type(values).__name__, tuple(values.shape)))])


def _load(folder: str, values: Any) -> Optional[np.ndarray]:
    """The rows of an entry; None if it is missing or damaged."""
    path = os.path.join(folder, "rows.npy")
    entry = _read_entry(folder)
    if entry is None or not _is_intact(folder, path, entry):
        return None
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return None
    expected = (tuple(values.shape), np.dtype(values.dtype))
    return rows if (rows.shape, rows.dtype) == expected else None


def _read_entry(folder: str) -> Optional[_Entry]:
    try:
        with open(os.path.join(folder, "entry.json"), encoding="utf-8") as file:
            entry = _Entry(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None
    return entry if entry.format == _FORMAT else None


def _is_intact(folder: str, path: str, entry: _Entry) -> bool:
    """Whether a file has its hash; it is not read while size, time and inode are those of then."""
    try:
        state = _state(path)
        if state == entry.state:
            return True
        if state[0] != entry.state[0] or sha256_of(path) != entry.sha256:
            return False
    except (OSError, TypeError, IndexError):
        return False
    with contextlib.suppress(OSError):  # it was copied here: its state is another
        _write_entry(folder, entry._replace(state=state))
    return True


def _state(path: str) -> Any:
    state = os.stat(path)
    return [state.st_size, state.st_mtime_ns, state.st_ino]


def _write_entry(folder: str, entry: _Entry) -> None:
    with atomic_write(os.path.join(folder, "entry.json"), durable=True) as file:
        file.write(json.dumps(entry._asdict()).encode("utf-8"))


def _write(folder: str, values: Any, progress: Optional[Progress]) -> None:
    """Decode all rows into the file of an entry."""
    path = os.path.join(folder, "rows.npy")
    with writing_to_cache():
        for name in os.listdir(folder):  # what a process left that was killed
            if name.startswith(TEMPORARY_PREFIX):
                os.remove(os.path.join(folder, name))
        with atomic_write(path, durable=True) as file:
            digest = _write_rows(file, values, progress)
        _write_entry(folder, _Entry(_FORMAT, digest, _state(path)))


def _write_rows(file: Any, values: Any, progress: Optional[Progress]) -> str:
    """Write rows in the format of `numpy.save`; return the SHA-256 of the file."""
    dtype, shape = np.dtype(values.dtype), tuple(values.shape)
    row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
    num_rows = max(1, _CHUNK_BYTES // max(1, row_bytes))
    digest = hashlib.sha256()
    for part in _parts(values, num_rows, dtype):
        digest.update(part)
        file.write(part)
        if progress:
            progress("rows.npy", file.tell(), shape[0] * row_bytes)
    return digest.hexdigest()


def _parts(values: Any, num_rows: int, dtype: np.dtype) -> Iterator[Any]:
    """The header of a file of `numpy.save`, and then the bytes of some rows at a time."""
    header = io.BytesIO()
    description = np.lib.format.dtype_to_descr(dtype)
    fields = {"descr": description, "fortran_order": False, "shape": tuple(values.shape)}
    np.lib.format.write_array_header_1_0(header, fields)
    yield header.getvalue()
    for start in range(0, len(values), num_rows):
        with translate_read_errors():
            rows = np.ascontiguousarray(values[start : start + num_rows], dtype)
        yield rows.data


@contextlib.contextmanager
def translate_read_errors() -> Iterator[None]:
    """Raise a DataError when the system fails to read data, not the cache."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or 'The data'}: {error.strerror or error}.",
            hint="Check that it is there and may be read.",
        ) from error
