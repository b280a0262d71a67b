"""Data that was decoded once: plain rows in a file of the cache, which is mapped into memory.

An entry is a folder in the folder `decoded` of the cache, named by a hash of what was decoded and
of the form. It has the rows, `rows.npy`, and `entry.json`, which is written last.

Legend: M rows, ... the shape of one row.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import io
import json
import os
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from ...display.waits import waiting
from ...errors import DataError, RetryError
from ...files import TEMPORARY_PREFIX, atomic_write, sha256_of
from ..column import Column
from ..examples import Split
from ..files.cache import cache_folder, free_bytes, one_process_at_a_time, writing_to_cache
from ..files.file_index import FileIndex
from ..images.image_array import hash_texts

GROUP = "decoded"  # the folder in the cache
_FORMAT = 1
_CHUNK_BYTES = 16 << 20  # that are decoded before they are written
# Up to here, decoding takes less than about half a second.
_QUICK_ROWS = 4000
_QUICK_BYTES = 32 << 20
_SAMPLES = 64  # rows that tell apart what is read from the same files


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


def decode_splits(
    splits: Dict[str, Split],
    reader: str = "auto",
    resident_limit: int = 1 << 30,
    cache_dir: Optional[str] = None,
    is_repeated: bool = True,
) -> Dict[str, Split]:
    """The splits with all that is decoded whenever it is read decoded once.

    Little data is decoded into memory, other data into the cache, from which it is mapped; a second
    process that needs the same waits for it. An array-like without `paths` and `identity`, of which
    another process knows nothing, is decoded into memory up to the limit.

    Args:
        splits: by name.
        reader: "stream" leaves the splits alone; "auto" does so if they are larger than the limit
            and the disk of the cache lacks room for twice their size.
        resident_limit: bytes of decoded data.
        cache_dir: the cache folder; None for the default.
        is_repeated: whether examples are read more than once; else only what is in the cache is
            used.

    Raises:
        DataError: an example is damaged.
        RetryError: the cache cannot be written; nothing half-written stays.
    """
    columns = [column for split in splits.values() for column in split.columns.values()]
    arrays = {id(column.values): column.values for column in columns if is_mappable(column)}
    num_bytes = sum(map(_count_bytes, arrays.values()))
    if not arrays or reader == "stream":
        return splits
    decode: Callable[[Any], Any] = functools.partial(
        _decode, limit=resident_limit, cache_dir=cache_dir
    )
    if not is_repeated:
        decode = functools.partial(_find_rows, cache_dir=cache_dir)
    elif is_quick(list(arrays.values())):
        decode = _read_all
    elif reader == "auto" and num_bytes > max(resident_limit, free_bytes(cache_dir) // 2):
        return splits
    rows = {key: decode(values) for key, values in arrays.items()}
    return {name: _replace_values(split, rows) for name, split in splits.items()}


def is_mappable(column: Column) -> bool:
    """Whether reading a column decodes rows of one size."""
    return not column.is_decoded and np.dtype(column.values.dtype).kind in "biuf"


def is_quick(arrays: Sequence[Any]) -> bool:
    """Whether array-likes are decoded in no time."""
    if sum(map(len, arrays)) > _QUICK_ROWS or sum(map(_count_bytes, arrays)) > _QUICK_BYTES:
        return False
    paths = {path for values in arrays for path in Column(values).paths}
    return sum(os.path.getsize(path) for path in paths if os.path.exists(path)) <= _QUICK_BYTES


def _count_bytes(values: Any) -> int:
    """Bytes of all rows after decoding."""
    return int(np.prod(values.shape, dtype=np.int64)) * np.dtype(values.dtype).itemsize


def _replace_values(split: Split, rows: Dict[int, Any]) -> Split:
    """A split with other values of the columns whose values have these ids."""
    part = copy.copy(split)
    part.columns = {
        key: column.with_values(rows[id(column.values)]).bind(key)
        if rows.get(id(column.values)) is not None
        else column
        for key, column in split.columns.items()
    }
    return part


def map_rows(values: Any, cache_dir: Optional[str] = None) -> np.ndarray:
    """The rows of an array-like, decoded once into a file of the cache: a memory map [M, ...].

    Args:
        values: has `shape` and `dtype`, and `paths` or an `identity` of its content.
        cache_dir: as for `decode_splits`.

    Raises:
        DataError: the rows cannot be read, or are not of the shape.
        RetryError: the cache cannot be written or read.
    """
    folder = _entry_folder(values, cache_dir)
    rows = _load(folder, values)
    if rows is not None:
        return rows
    with one_process_at_a_time(folder) as is_locked:
        rows = _load(folder, values)  # another process may have written it until now
        if rows is None:
            if is_locked:
                _remove_temporary_files(folder)
            _write(folder, values)
            rows = _load(folder, values)
    if rows is None:
        raise RetryError(
            f"{folder}: what was written there cannot be read back.",
            hint="Set TOOLKIT_CACHE to a folder on another disk.",
        )
    return rows


def has_identity(values: Any) -> bool:
    """Whether other processes can tell what an array-like holds without reading all of it."""
    return bool(getattr(values, "identity", "") or Column(values).paths)


def _decode(values: Any, limit: int, cache_dir: Optional[str]) -> Optional[np.ndarray]:
    """The rows of an array-like, mapped or in memory; None to decode them at each read."""
    if has_identity(values):
        return map_rows(values, cache_dir)
    return _read_all(values) if _count_bytes(values) <= limit else None


def _find_rows(values: Any, cache_dir: Optional[str]) -> Optional[np.ndarray]:
    """The rows of an array-like that are in the cache; None if they are not."""
    return _load(_entry_folder(values, cache_dir), values) if has_identity(values) else None


def _entry_folder(values: Any, cache_dir: Optional[str]) -> str:
    return os.path.join(cache_folder(cache_dir), GROUP, identify(values, cache_dir)[:32])


def identify(values: Any, cache_dir: Optional[str] = None) -> str:
    """A hash of what the rows of an array-like are decoded from, and of their form.

    Without an `identity` that is a hash of its files, of some rows, and of its type.
    """
    identity = getattr(values, "identity", "")
    if identity:
        return str(identity)
    paths = list(dict.fromkeys(os.path.abspath(path) for path in Column(values).paths))
    place = os.path.commonpath(paths) if paths else ""
    with translate_read_errors():
        digests = FileIndex(place, cache_dir).digests(paths)
    count = values.shape[0]
    samples = np.unique(np.linspace(0, count - 1, min(_SAMPLES, count)).astype(int))
    content = hashlib.sha256(_read(values, samples, len(samples)).tobytes()).hexdigest()
    form = (type(values).__qualname__, np.dtype(values.dtype).str, tuple(values.shape))
    return hash_texts([*digests, content, repr(form)])


def _read_all(values: Any) -> np.ndarray:
    """All rows of an array-like."""
    return _read(values, slice(None), values.shape[0])


def _read(values: Any, rows: Any, count: int) -> np.ndarray:
    """Some rows of an array-like, in its dtype.

    Args:
        values: the array-like.
        rows: a slice, or integers [count].
        count: of the rows.

    Raises:
        DataError: they cannot be read, or are not of the shape that the array-like has.
    """
    name, expected = type(values).__name__, [count, *values.shape[1:]]
    hint = "Its shape has to be that of all that can be read."
    with translate_read_errors():
        try:
            array = np.ascontiguousarray(values[rows], np.dtype(values.dtype))
        except IndexError as error:
            shape = list(values.shape)
            message = f"{name} of shape {shape} cannot be read: {str(error).rstrip('.')}."
            raise DataError(message, hint=hint) from error
    if list(array.shape) != expected:
        raise DataError(
            f"{name} returned rows of shape {list(array.shape)}, expected {expected}.", hint=hint
        )
    return array


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


def _remove_temporary_files(folder: str) -> None:
    """Remove what a process left that was killed; nobody else may be writing."""
    with writing_to_cache():
        for name in os.listdir(folder):
            if name.startswith(TEMPORARY_PREFIX):
                os.remove(os.path.join(folder, name))


def _write(folder: str, values: Any) -> None:
    """Decode all rows into the file of an entry."""
    path = os.path.join(folder, "rows.npy")
    with writing_to_cache():
        with atomic_write(path, durable=True) as file:
            digest = _write_rows(file, values)
        _write_entry(folder, _Entry(_FORMAT, digest, _state(path)))


def _write_rows(file: Any, values: Any) -> str:
    """Write rows in the format of `numpy.save`; return the SHA-256 of the file."""
    dtype, shape = np.dtype(values.dtype), tuple(values.shape)
    row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
    num_rows, total = max(1, _CHUNK_BYTES // max(1, row_bytes)), shape[0] * row_bytes
    digest = hashlib.sha256()
    with waiting(f"Decoding {shape[0]:,} images (once, then cached)", total) as wait:
        for part in _parts(values, num_rows, dtype):
            digest.update(part)
            file.write(part)
            wait.show(file.tell())
    return digest.hexdigest()


def _parts(values: Any, num_rows: int, dtype: np.dtype) -> Iterator[Any]:
    """The header of a file of `numpy.save`, and then the bytes of some rows at a time."""
    header = io.BytesIO()
    description = np.lib.format.dtype_to_descr(dtype)
    fields = {"descr": description, "fortran_order": False, "shape": tuple(values.shape)}
    np.lib.format.write_array_header_1_0(header, fields)
    yield header.getvalue()
    count = values.shape[0]
    for start in range(0, count, num_rows):
        stop = min(start + num_rows, count)
        yield _read(values, slice(start, stop), stop - start).data


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
