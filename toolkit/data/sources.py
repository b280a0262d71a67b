"""The data sources: one table of what `--data` may name, opened by the prefix of the value."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ..data_value import complete
from ..errors import DataError, UsageError, suggest
from .examples import Dataset
from .files.file_index import FileIndex
from .held_out import DEFAULT_SHARES, Shares
from .reading_options import DEFAULT_COLUMNS, DEFAULT_IMAGES, ColumnOptions, ImageOptions

DEFAULT = "mnist5k"


class Settings(NamedTuple):
    """The arguments of `open_data` that a source may use."""

    path: str  # the part of the value after the prefix, resolved; "" if there is none
    images: ImageOptions
    columns: ColumnOptions
    shares: Shares
    cache_dir: Optional[str]
    file_index: FileIndex  # of the files at the path
    table: Optional[Mapping[str, Any]] = None
    label_scale: int = 0
    records: Optional[Mapping[str, Any]] = None


class Source(NamedTuple):
    """One row of the table."""

    value: str  # what the user writes, with a placeholder for the path: "npz:FILE"
    description: str
    size: str
    is_offline: Callable[[Optional[str]], bool]  # called with the cache folder: needs no network?
    open: Callable[[Settings], Dataset]
    options: Sequence[str] = ()  # the fields of ImageOptions and ColumnOptions that it uses


def open_data(
    value: str,
    images: ImageOptions = DEFAULT_IMAGES,
    columns: ColumnOptions = DEFAULT_COLUMNS,
    shares: Shares = DEFAULT_SHARES,
    cache_dir: Optional[str] = None,
    base: Optional[str] = None,
    rehash: bool = False,
    table: Optional[Mapping[str, Any]] = None,
    label_scale: int = 0,
    records: Optional[Mapping[str, Any]] = None,
) -> Dataset:
    """Open the data set that a `--data` value names.

    Args:
        value: a source, for example "mnist5k" or "npz:FILE".
        images: the form of images; sources without images accept only the default.
        columns: of tables and records; other sources accept only the default.
        shares: of the examples, held out if the source has no test or validation split.
        cache_dir: the folder of downloads; None for the default.
        base: the folder from which relative paths start.
        rehash: whether to hash all files again, also those whose size, time and inode are known.
        table: the columns that a model was trained on (`DataSpec.table`): another table is read in
            the same way.
        label_scale: of the label images that a model was trained on (`DataSpec.label_scale`): the
            number 255 in others has the same meaning.
        records: the keys of the records that a model was trained on (`RecordSchema`): others are
            read in the same way.

    Raises:
        UsageError: the value names no source, or an option does not apply to the source.
        DataError: the data cannot be used.
    """
    value = complete(value)
    source = _find_source(value)
    path = resolve_path(value, base)
    _refuse_idle_options(value, source, images, columns)
    index = FileIndex(path, cache_dir, is_fresh=rehash)
    settings = Settings(
        path, images, columns, shares, cache_dir, index, table, label_scale, records
    )
    with translate_system_errors(path or value):
        dataset = source.open(settings)
    dataset.name = value
    return dataset


def _refuse_idle_options(
    value: str, source: Source, images: ImageOptions, columns: ColumnOptions
) -> None:
    """Raise a UsageError if an option is set that has no effect on the source."""
    for options, default in ((images, DEFAULT_IMAGES), (columns, DEFAULT_COLUMNS)):
        for name, setting in options._asdict().items():
            if setting == getattr(default, name) or name in source.options:
                continue
            flag = "--" + name.replace("_", "-")
            text = ",".join(setting) if isinstance(setting, tuple) else setting
            raise UsageError(
                f"{flag} {text} has no effect on the data '{value}'.",
                hint=f"Omit {flag}, or use {_sources_with(name)}.",
            )


def uses_option(value: str, option: str) -> bool:
    """Whether a field of ImageOptions or ColumnOptions has an effect on what `--data` names."""
    return option in _find_source(value).options


def _sources_with(option: str) -> str:
    """The sources on which an option has an effect: `images:DIR or table:FILE`."""
    return " or ".join(each.value for each in SOURCES.values() if option in each.options)


@contextlib.contextmanager
def translate_system_errors(path: str) -> Iterator[None]:
    """Raise a DataError when the system fails to read data or runs out of memory."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or path}: {error.strerror or error}.",
            hint="Check that it is there and may be read.",
        ) from error
    except MemoryError as error:
        raise DataError(
            f"{path}: expected data that fits in memory; the process may not have more.",
            hint="Free some memory or raise a limit on it (ulimit -v), or use a part of the data.",
        ) from error


def resolve_path(value: str, base: Optional[str] = None) -> str:
    """The path in a `--data` value, or "". A relative path starts from the folder `base`."""
    path = os.path.expanduser(value.partition(":")[2])
    return os.path.join(base, path) if base and path else path


def _find_source(value: str) -> Source:
    prefix, colon, path = value.partition(":")
    source = SOURCES.get(prefix)
    if source is None and os.sep in value and not os.path.exists(os.path.expanduser(value)):
        raise UsageError(f"The data '{value}' is no source, and no file or folder.")
    if source is None:
        raise UsageError(
            f"The data '{value}' names no source.",
            hint=suggest(prefix, [each.value for each in SOURCES.values()]),
        )
    if bool(path) != (":" in source.value) or bool(colon) != bool(path):
        raise UsageError(
            f"The data '{value}' {'names no path' if ':' in source.value else 'takes no path'}.",
            hint=f"Write it as {source.value}.",
        )
    return source


def list_sources(cache_dir: Optional[str] = None) -> List[Dict[str, object]]:
    """The table as JSON values: `value`, `what`, `size` and `offline` of each source.

    `offline` says whether the source can be opened now without a network.
    """
    return [
        {
            "value": source.value,
            "what": source.description,
            "size": source.size,
            "offline": source.is_offline(cache_dir),
        }
        for source in SOURCES.values()
    ]


def _always(cache_dir: Optional[str]) -> bool:
    return True


def _if_cached(name: str) -> Callable[[Optional[str]], bool]:
    def is_offline(cache_dir: Optional[str]) -> bool:
        from .arrays.download import is_cached

        return is_cached(name, cache_dir)

    return is_offline


def _if_mnist5k_is_installed(cache_dir: Optional[str]) -> bool:
    from .arrays.digits import is_installed

    return is_installed()


def _open_mnist5k(settings: Settings) -> Dataset:
    from .arrays.digits import open_mnist5k

    return open_mnist5k(settings.shares)


def _open_download(name: str) -> Callable[[Settings], Dataset]:
    def open_source(settings: Settings) -> Dataset:
        from .arrays.download import open_download

        return open_download(name, settings.shares, settings.cache_dir)

    return open_source


def _open_idx(settings: Settings) -> Dataset:
    from .arrays.idx import open_idx

    return open_idx(settings.path, shares=settings.shares, index=settings.file_index)


def _open_npz(settings: Settings) -> Dataset:
    from .arrays.npz import open_npz

    return open_npz(
        settings.path, settings.shares, settings.file_index, settings.columns.label_kind
    )


def _open_arrays(settings: Settings) -> Dataset:
    from .arrays.kept import open_arrays

    kind = settings.columns.label_kind
    return open_arrays(settings.path, settings.shares, kind, settings.cache_dir)


def _open_images(settings: Settings) -> Dataset:
    from .images.folder import open_images

    return open_images(settings.path, settings.images, settings.shares, settings.file_index)


def _open_table(settings: Settings) -> Dataset:
    from .tables.schema import TableSchema
    from .tables.table import open_table

    return open_table(
        settings.path,
        settings.columns,
        settings.images,
        settings.shares,
        settings.file_index,
        TableSchema.from_json(settings.table) if settings.table else None,
    )


def _open_pairs(settings: Settings) -> Dataset:
    from .images.pairs import open_pairs

    return open_pairs(
        settings.path,
        settings.images,
        settings.shares,
        settings.file_index,
        settings.label_scale,
    )


def _open_tfrecord(settings: Settings) -> Dataset:
    from .records.schema import RecordSchema
    from .records.tfrecord import open_tfrecord

    return open_tfrecord(
        settings.path,
        settings.images,
        settings.columns,
        settings.shares,
        settings.cache_dir,
        settings.file_index,
        RecordSchema.from_json(settings.records) if settings.records else None,
    )


SOURCES = {
    source.value.split(":")[0]: source
    for source in (
        Source(
            "mnist5k",
            "5,000 MNIST digits, embedded; 28x28x1, 10 classes",
            "4,000 / 500 / 500, 1.1 MB",
            _if_mnist5k_is_installed,
            _open_mnist5k,
        ),
        Source(
            "mnist",
            "MNIST digits, downloaded once; 28x28x1, 10 classes",
            "60,000 / 10,000, 11.6 MB",
            _if_cached("mnist"),
            _open_download("mnist"),
        ),
        Source(
            "fashion-mnist",
            "Fashion-MNIST clothes, downloaded once; 28x28x1, 10 classes",
            "60,000 / 10,000, 30.9 MB",
            _if_cached("fashion-mnist"),
            _open_download("fashion-mnist"),
        ),
        Source(
            "idx:DIR",
            "a folder of IDX files, plain or .gz",
            "any; plain files are not loaded",
            _always,
            _open_idx,
        ),
        Source(
            "npz:FILE",
            "arrays x_train, y_train, x_test, y_test (or images, labels; x, y)",
            "what fits in memory",
            _always,
            _open_npz,
            ("label_kind",),
        ),
        Source(
            "arrays:HASH",
            "arrays in memory that toolkit.train was given, kept in the cache",
            "what fits in memory",
            _always,
            _open_arrays,
            ("label_kind",),
        ),
        Source(
            "images:DIR",
            "a folder of images for each class, or of images without labels",
            "any; images are decoded as they are used",
            _always,
            _open_images,
            ImageOptions._fields,
        ),
        Source(
            "table:FILE",
            "CSV with a header or JSON lines: numbers, texts, paths of images, labels",
            "numbers and texts in memory",
            _always,
            _open_table,
            (*ImageOptions._fields, *ColumnOptions._fields),
        ),
        Source(
            "pairs:DIR",
            "two folders of images: images and masks, or a and b",
            "any; images are decoded as they are used",
            _always,
            _open_pairs,
            ImageOptions._fields,
        ),
        Source(
            "tfrecord:GLOB",
            "files of tf.train.Examples, plain or compressed: images, numbers, texts, labels",
            "any; images are decoded as they are used",
            _always,
            _open_tfrecord,
            (
                *ImageOptions._fields,
                *("label_column", "label_kind", "image_column", "feature_columns"),
                "ignore_columns",
            ),
        ),
    )
}
