"""The features of a split as a model is fed them, converted when they are read."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from ..data.examples import Split


class ModelFeatures(np.lib.mixins.NDArrayOperatorsMixin):
    """Like an array float32 [N, ...], but only what is indexed is converted to float32.

    An index of examples reads these examples. Any other use, such as arithmetic or a method of
    arrays, converts all of them.

    Args:
        split: the examples; uint8 is divided by 255, as in training.
    """

    def __init__(self, split: Split):
        self._split = split
        self.shape: Tuple[int, ...] = (len(split), *split.shape)
        self.dtype = np.dtype(np.float32)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, index: Any) -> np.ndarray:
        if isinstance(index, tuple):
            return np.asarray(self)[index]
        positions = np.arange(len(self))[index]
        features = _scale(self._split.take(np.atleast_1d(positions))[0])
        return features[0] if np.ndim(positions) == 0 else features

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(_scale(self._split.take(slice(None))[0]), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        arrays = [np.asarray(x) if isinstance(x, ModelFeatures) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


def _scale(features: np.ndarray) -> np.ndarray:
    """The features as float32, in the way of `toolkit.data.resident.scale`."""
    if features.dtype == np.uint8:
        return features.astype(np.float32) * np.float32(1 / 255)
    return features
