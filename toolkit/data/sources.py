"""The data sources: one table of what `--data` may name, opened by the prefix of the value."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
from typing import Any, Dict, List, NamedTuple, Sequence

from ..data_value import complete
from ..errors import UsageError, suggest
from .examples import Dataset
from .files.cache import translate_read_errors
from .files.file_index import FileIndex
from .reading_options import ColumnOptions, ImageOptions, Settings, refuse_idle

DEFAULT = "mnist5k"
_IMAGE_FORM = tuple(name for name in ImageOptions._fields if name != "skip_damaged")


class Source(NamedTuple):
    """One row of the table.

    Attributes:
        value: what the user writes, with a placeholder for the path: "npz:FILE".
        description: what it is.
        size: of it.
        open: the function that opens it, MODULE:NAME in this package; it is called with `Settings`.
        options: the fields of ImageOptions and ColumnOptions that it uses.
    """

    value: str
    description: str
    size: str
    open: str
    options: Sequence[str] = ()


def open_data(
    value: str,
    rehash: bool = False,
    **settings: Any,
) -> Dataset:
    """Open the data set that a `--data` value names.

    Args:
        value: a source, for example "mnist5k" or "npz:FILE".
        rehash: whether to hash all files again, also those whose size, time and inode are known.
        settings: other fields of `Settings`. A source without images accepts only the default
            `images`, and one without columns only the default `columns`.

    Raises:
        UsageError: the value names no source, or an option does not apply to the source.
        DataError: the data cannot be used.
    """
    value = complete(value)
    source = _find_source(value)
    path = resolve_path(value)
    index = FileIndex(path, is_fresh=rehash)
    place = path or value
    chosen = Settings(place, file_index=index, **settings)
    for options in (chosen.images, chosen.columns):
        refuse_idle(options, source.options, f"the data '{value}'", _describe_sources)
    module, _, function = source.open.partition(":")  # imported when it is used
    with translate_read_errors(place):
        dataset = getattr(importlib.import_module("." + module, __package__), function)(chosen)
    dataset.name = value
    return dataset


def _describe_sources(option: str) -> str:
    """`, or use images:DIR or table:FILE`: the sources on which an option has an effect."""
    return ", or use " + " or ".join(s.value for s in SOURCES.values() if option in s.options)


def uses_option(value: str, option: str) -> bool:
    """Whether a field of ImageOptions or ColumnOptions has an effect on what `--data` names."""
    return option in _find_source(value).options


def resolve_path(value: str) -> str:
    """The path in a `--data` value, or ""."""
    return os.path.expanduser(value.partition(":")[2])


def _find_source(value: str) -> Source:
    prefix, colon, path = value.partition(":")
    source = SOURCES.get(prefix)
    full_path = os.path.expanduser(value)
    if source is None and value and not colon and not os.path.exists(full_path):
        names = [each.value for each in SOURCES.values()]
        with contextlib.suppress(OSError):
            folder = os.path.dirname(value)
            files = os.listdir(os.path.dirname(full_path) or os.curdir)
            names += [os.path.join(folder, name) for name in files]
        matches = difflib.get_close_matches(value, names, n=1)
        raise UsageError(
            f"The data '{value}' is no source, and no file or folder.",
            hint=f"Did you mean '{matches[0]}'?" if matches else "'toolkit data list' has all.",
        )
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


def list_sources() -> List[Dict[str, str]]:
    """The table as JSON values: `value`, `what` and `size` of each source."""
    return [
        {"value": each.value, "what": each.description, "size": each.size}
        for each in SOURCES.values()
    ]


SOURCES = {
    source.value.split(":")[0]: source
    for source in (
        Source(
            "mnist5k",
            "5,000 MNIST digits, embedded; 28x28x1, 10 classes",
            "4,000 / 500 / 500, 1.1 MB",
            "arrays.download:open_mnist5k",
        ),
        Source(
            "mnist",
            "MNIST digits, downloaded once; 28x28x1, 10 classes",
            "60,000 / 10,000, 11.6 MB",
            "arrays.download:open_download",
        ),
        Source(
            "fashion-mnist",
            "Fashion-MNIST clothes, downloaded once; 28x28x1, 10 classes",
            "60,000 / 10,000, 30.9 MB",
            "arrays.download:open_download",
        ),
        Source(
            "idx:DIR",
            "a folder of IDX files, plain or .gz",
            "any; plain files are not loaded",
            "arrays.idx:open_idx",
        ),
        Source(
            "npz:FILE",
            "arrays x_train, y_train, x_test, y_test (or images, labels; x, y)",
            "what fits in memory",
            "arrays.npz:open_npz",
            ("label_kind",),
        ),
        Source(
            "arrays:HASH",
            "arrays in memory that toolkit.train was given, kept in the cache",
            "what fits in memory",
            "arrays.kept:open_arrays",
            ("label_kind",),
        ),
        Source(
            "images:DIR",
            "a folder of images for each class, or of images without labels",
            "any; images are decoded as they are used",
            "images.folder:open_images",
            ImageOptions._fields,
        ),
        Source(
            "table:FILE",
            "CSV with a header or JSON lines: numbers, texts, paths of images, labels",
            "numbers and texts in memory",
            "tables.table:open_table",
            (*_IMAGE_FORM, *ColumnOptions._fields),
        ),
        Source(
            "pairs:DIR",
            "two folders of images: images and masks, or a and b",
            "any; images are decoded as they are used",
            "images.pairs:open_pairs",
            ImageOptions._fields,
        ),
        Source(
            "tfrecord:GLOB",
            "files of tf.train.Examples, plain or compressed: images, numbers, texts, labels",
            "any; images are decoded as they are used",
            "records.tfrecord:open_tfrecord",
            (
                *_IMAGE_FORM,
                *("label_column", "label_kind", "image_column", "feature_columns"),
                "ignore_columns",
            ),
        ),
    )
}
