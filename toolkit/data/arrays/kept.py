"""Arrays that Python gave in place of a data source: kept in the cache, under the hash of their
content, as the source `arrays:HASH`. A run on them is resumed and opened like any other.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Mapping

import numpy as np

from ...errors import DataError
from ..column import as_array
from ..examples import Dataset
from ..files.cache import cache_folder, find_entry, open_entry
from ..images.image_file import as_plain_picture, is_picture
from ..reading_options import Settings
from .npz import make_splits, open_npz

GROUP, _FILE = "arrays", "data.npz"  # the folder in the cache, and the file of an entry
PREFIX = "arrays:"
SPLITS = ("train", "validation", "test")
_FORMS = (
    'Give data=(x, y), data={"train": (x, y), "test": (x, y)}, or a source as data="images:photos".'
)


def keep_arrays(data: Any, label_kind: str = "auto") -> str:
    """Keep arrays, and return the name of the data, `arrays:HASH`.

    Examples are (features, labels), or features alone; or a dict of such by the names "train",
    "validation" and "test". Features and labels are arrays [N, ...], what NumPy makes such arrays
    of, lists of pictures of Pillow of one size, or dicts of those by the name of the component. The
    option `label_kind` says what a run refuses of the labels.

    Raises DataError if the arrays are no examples, RetryError if the cache cannot be written.
    """
    splits = data if isinstance(data, Mapping) else {"train": data}
    unknown = [str(name) for name in splits if name not in SPLITS]
    if unknown or "train" not in splits:
        raise DataError(
            f"The data has the splits {', '.join(map(str, splits)) or 'none'}, expected train, and "
            "perhaps validation and test.",
            hint=_FORMS,
        )
    arrays: Dict[str, np.ndarray] = {}  # by the names of an .npz file: x_train, x_test_left, ...
    for split, examples in splits.items():
        parts = examples if isinstance(examples, tuple) else (examples, None)
        if len(parts) != 2:
            raise DataError(f"The data has a tuple of {len(parts)} for '{split}'.", hint=_FORMS)
        for letter, values in zip("xy", parts):
            by_name = values if isinstance(values, Mapping) else {"": values}
            for name, leaf in by_name.items():
                if leaf is not None:
                    key = f"{letter}_{split}" + (f"_{name}" if name else "")
                    arrays[key] = _as_array(key, leaf)
    make_splits("data", arrays, label_kind)
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    name = digest.hexdigest()[:16]
    open_entry(GROUP, name, lambda folder: np.savez(f"{folder}/{_FILE}", **arrays))  # type: ignore
    return PREFIX + name


def open_arrays(settings: Settings) -> Dataset:
    """Open the arrays that were kept under a hash. Raises DataError if they are gone."""
    name = settings.path
    folder = find_entry(GROUP, os.path.basename(name))
    if folder is None:
        raise DataError(
            f"The arrays '{name}' are not in the cache {cache_folder()}.",
            hint="Give the same arrays again in Python: toolkit.train(..., data=(x, y)).",
        )
    return open_npz(settings._replace(path=os.path.join(folder, _FILE)))


def _as_array(name: str, values: Any) -> np.ndarray:
    """A list, a table of pandas or the array of another library as an array of NumPy."""
    try:
        if isinstance(values, (list, tuple)):
            if values and all(map(is_picture, values)):
                values = [np.asarray(as_plain_picture(item)) for item in values]
            texts = [isinstance(item, str) for item in values]
            if any(texts) and not all(texts):  # of which NumPy would make texts
                other = type(values[texts.index(False)]).__name__
                raise ValueError(f"texts and {other}, expected one type")
            shapes = sorted({str(list(np.shape(item))) for item in values})
            if len(shapes) > 1:  # which versions of NumPy refuse in several ways
                raise ValueError(f"the shapes {' and '.join(shapes[:2])}, expected one")
        array = as_array(values)
        if array.dtype.kind == "O":
            items = list(array.ravel())
            if not all(isinstance(item, str) for item in items):
                types = [type(item).__name__.replace("str", "texts") for item in items]
                found = " and ".join(dict.fromkeys(types))
                way = " (pandas.get_dummies makes numbers of texts)" * hasattr(values, "columns")
                raise ValueError(f"{found}, expected numbers or texts alone{way}")
            array = array.astype(str)
    except Exception as error:  # of another library's arrays
        raise DataError(f"The data has no array as {name}: {error}.", hint=_FORMS) from error
    if not array.ndim:
        raise DataError(f"The data has {values!r:.50} as {name}, expected an array.", hint=_FORMS)
    return array
