"""The data sources: one table of what `--data` may name, opened by the prefix of the value."""

from __future__ import annotations

import importlib
import os
from typing import Any, Dict, List, NamedTuple, Sequence

from ..data_value import complete
from ..errors import UsageError, suggest, suggest_path
from .examples import Dataset
from .files.cache import translate_read_errors
from .files.file_index import FileIndex
from .reading_options import ColumnOptions, ImageOptions, Settings, refuse_idle

_IMAGE_FORM = tuple(name for name in ImageOptions._fields if name != "skip_damaged")


class Source(NamedTuple):
    """One row of the table."""

    value: str  # what the user writes, with a placeholder for the path: "npz:FILE"
    description: str
    open: str  # the function that opens it, MODULE:NAME in this package, called with `Settings`
    options: Sequence[str] = ()  # the fields of ImageOptions and ColumnOptions that it uses


def open_data(value: str, rehash: bool = False, **settings: Any) -> Dataset:
    """Open the data set that a `--data` value names, for example "mnist5k" or "npz:FILE", with
    other fields of `Settings`. `rehash` hashes all files again, also those whose size, time and
    inode are known. Raises UsageError if the value names no source, or an option has no effect on
    it; DataError if the data cannot be used.
    """
    value = complete(value)
    source = _find_source(value)
    path = resolve_path(value)
    place = path or value

    def describe_others(option: str) -> str:
        return ", or use " + " or ".join(s.value for s in SOURCES.values() if option in s.options)

    if rehash:
        FileIndex(path).forget()
    chosen = Settings(place, **settings)
    for options in (chosen.images, chosen.columns):
        refuse_idle(options, source.options, f"the data '{value}'", describe_others)
    module, _, function = source.open.partition(":")  # imported when it is used
    with translate_read_errors(place):
        dataset = getattr(importlib.import_module("." + module, __package__), function)(chosen)
    dataset.name = value
    return dataset


def uses_option(value: str, option: str) -> bool:
    """Whether a field of ImageOptions or ColumnOptions has an effect on what `--data` names."""
    return option in _find_source(value).options


def resolve_path(value: str) -> str:
    """The path in a `--data` value, or ""."""
    return os.path.expanduser(value.partition(":")[2])


def _find_source(value: str) -> Source:
    prefix, colon, path = value.partition(":")
    source, full_path = SOURCES.get(prefix), os.path.expanduser(value)
    if source is None:
        message, hint = f"The data '{value}' names no source.", ""
        if value and not colon and not os.path.exists(full_path):
            message = f"The data '{value}' is no source, and no file or folder."
            hint = suggest_path(full_path)
        names = [each.value for each in SOURCES.values()]
        raise UsageError(message, hint=hint or suggest(prefix, names))
    if bool(path) != (":" in source.value) or bool(colon) != bool(path):
        raise UsageError(
            f"The data '{value}' {'names no path' if ':' in source.value else 'takes no path'}.",
            hint=f"Write it as {source.value}"
            + (f", or {path} for what lies there." if os.path.exists(resolve_path(value)) else "."),
        )
    return source


def list_sources() -> List[Dict[str, str]]:
    """The table as JSON values: `value` and `what` of each source."""
    return [{"value": each.value, "what": each.description} for each in SOURCES.values()]


SOURCES = {
    source.value.split(":")[0]: source
    for source in (
        Source(
            "mnist5k",
            "5,000 MNIST digits, embedded (4,000 / 500 / 500); 28x28x1, 10 classes",
            "arrays.download:open_mnist5k",
        ),
        Source(
            "mnist",
            "60,000 / 10,000 MNIST digits, downloaded once (11.6 MB); 28x28x1, 10 classes",
            "arrays.download:open_download",
        ),
        Source(
            "fashion-mnist",
            "60,000 / 10,000 clothes, downloaded once (30.9 MB); 28x28x1, 10 classes",
            "arrays.download:open_download",
        ),
        Source("idx:DIR", "a folder of IDX files, plain or .gz", "arrays.idx:open_idx"),
        Source(
            "npz:FILE",
            "arrays x_train, y_train, x_test, y_test (or images, labels; x, y), in memory",
            "arrays.npz:open_npz",
            ("label_kind",),
        ),
        Source(
            "arrays:HASH",
            "arrays in memory that toolkit.train was given, kept in the cache",
            "arrays.kept:open_arrays",
            ("label_kind",),
        ),
        Source(
            "images:DIR",
            "a folder of images for each class, or of images without labels",
            "images.folder:open_images",
            ImageOptions._fields,
        ),
        Source(
            "table:FILE",
            "CSV with a header or JSON lines: numbers, texts, paths of images, labels",
            "tables.table:open_table",
            (*_IMAGE_FORM, *ColumnOptions._fields),
        ),
        Source(
            "pairs:DIR",
            "two folders of images: images and masks, or a and b",
            "images.pairs:open_pairs",
            ImageOptions._fields,
        ),
        Source(
            "tfrecord:GLOB",
            "files of tf.train.Examples, plain or compressed: images, numbers, texts, labels",
            "records.tfrecord:open_tfrecord",
            (*_IMAGE_FORM, *ColumnOptions._fields[:5]),  # up to `ignore_columns`
        ),
    )
}
