"""What `--data` may name: one table of sources, each opened by the prefix of the value."""

from __future__ import annotations

import contextlib
import os
from typing import Callable, Dict, List, NamedTuple, Optional

from ..errors import DataError, UsageError, nearest
from .examples import Dataset

DEFAULT = "mnist5k"


class Settings(NamedTuple):
    """What a source may need besides its name."""

    place: str  # what follows the prefix, resolved
    image_size: Optional[int]
    channels: Optional[int]
    validation_share: float
    cache_dir: Optional[str]
    progress: Optional[Callable[[str, int, int], None]]


class Source(NamedTuple):
    value: str  # as the user writes it
    what: str
    size: str
    offline: Callable[[Optional[str]], bool]  # given the cache folder: usable without a network?
    open: Callable[[Settings], Dataset]


def open_data(
    value: str,
    image_size: Optional[int] = None,
    channels: Optional[int] = None,
    validation_share: float = 0.1,
    cache_dir: Optional[str] = None,
    progress: Optional[Callable[[str, int, int], None]] = None,
    base: Optional[str] = None,
) -> Dataset:
    """The data set that a `--data` value names.

    image_size: the side in pixels, and channels: 1, 3 or 4, to which `images:` brings its images.
    validation_share: of the training examples, in [0, 0.5], where the source has no validation
        split.
    cache_dir: where downloads are kept. progress: called with (file, bytes done, bytes in all, or 0
    where unknown) while downloading. base: the folder from which relative paths start.
    Raises UsageError for a value that names no source, DataError for data that cannot be used.
    """
    source = _source(value)
    place = resolve(value, base)
    settings = Settings(place, image_size, channels, validation_share, cache_dir, progress)
    with readable(place or value):
        made = source.open(settings)
    made.name = value
    return made


@contextlib.contextmanager
def readable(place: str):
    """Tell what the system refuses while data is read as a DataError: a permission, memory."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or place}: {error.strerror or error}.",
            hint="Check that it is there and may be read.",
        ) from error
    except MemoryError as error:
        raise DataError(
            f"{place}: expected data that fits in memory, found more.",
            hint="Use a part of it, or smaller images with --image-size.",
        ) from error


def resolve(value: str, base: Optional[str] = None) -> str:
    """The path in a `--data` value, or "". A relative one starts from the folder `base`."""
    place = os.path.expanduser(value.partition(":")[2])
    return os.path.join(base, place) if base and place else place


def _source(value: str) -> Source:
    prefix, colon, place = value.partition(":")
    source = SOURCES.get(prefix)
    if source is None:
        raise UsageError(
            f"The data '{value}' names no source.",
            hint=nearest(prefix, [each.value for each in SOURCES.values()]),
        )
    if bool(place) != (":" in source.value) or bool(colon) != bool(place):
        raise UsageError(
            f"The data '{value}' {'names no path' if ':' in source.value else 'takes no path'}.",
            hint=f"Write it as {source.value}.",
        )
    return source


def list_sources(cache_dir: Optional[str] = None) -> List[Dict[str, object]]:
    """A row for each source: value, what, size, and offline: whether it needs no network now."""
    return [
        {
            "value": source.value,
            "what": source.what,
            "size": source.size,
            "offline": source.offline(cache_dir),
        }
        for source in SOURCES.values()
    ]


def _always(cache_dir: Optional[str]) -> bool:
    return True


def _cached(name: str) -> Callable[[Optional[str]], bool]:
    def is_cached(cache_dir: Optional[str]) -> bool:
        from .download import is_cached

        return is_cached(name, cache_dir)

    return is_cached


def _packaged(cache_dir: Optional[str]) -> bool:
    from .digits import is_packaged

    return is_packaged()


def _open_mnist5k(settings: Settings) -> Dataset:
    from .digits import open_mnist5k

    return open_mnist5k()


def _open_downloaded(name: str) -> Callable[[Settings], Dataset]:
    def open_it(settings: Settings) -> Dataset:
        from .download import open_download

        return open_download(name, settings.validation_share, settings.cache_dir, settings.progress)

    return open_it


def _open_idx(settings: Settings) -> Dataset:
    from .idx import open_idx

    return open_idx(settings.place, validation_share=settings.validation_share)


def _open_npz(settings: Settings) -> Dataset:
    from .npz import open_npz

    return open_npz(settings.place, settings.validation_share)


def _open_images(settings: Settings) -> Dataset:
    from .images import open_images

    return open_images(
        settings.place, settings.image_size, settings.channels, settings.validation_share
    )


SOURCES = {
    source.value.split(":")[0]: source
    for source in (
        Source(
            "mnist5k",
            "5,000 MNIST digits, embedded; 28x28x1, 10 classes",
            "4,000 / 500 / 500, 1.1 MB",
            _packaged,
            _open_mnist5k,
        ),
        Source(
            "mnist",
            "MNIST digits, downloaded once; 28x28x1, 10 classes",
            "60,000 / 10,000, 11.6 MB",
            _cached("mnist"),
            _open_downloaded("mnist"),
        ),
        Source(
            "fashion-mnist",
            "Fashion-MNIST clothes, downloaded once; 28x28x1, 10 classes",
            "60,000 / 10,000, 30.9 MB",
            _cached("fashion-mnist"),
            _open_downloaded("fashion-mnist"),
        ),
        Source(
            "idx:DIR",
            "a folder of IDX files, plain or .gz",
            "any; not loaded where plain",
            _always,
            _open_idx,
        ),
        Source(
            "npz:FILE",
            "arrays x_train, y_train, x_test, y_test (or images, labels; x, y)",
            "what fits in memory",
            _always,
            _open_npz,
        ),
        Source(
            "images:DIR",
            "a folder of images for each class, or of images without labels",
            "what fits in memory",
            _always,
            _open_images,
        ),
    )
}
