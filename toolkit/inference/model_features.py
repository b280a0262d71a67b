"""The features of a split as a model is fed them, converted when they are read."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from ..data.column import TEXT
from ..data.examples import Split
from ..data.structure import FEATURES


class ModelFeatures(np.lib.mixins.NDArrayOperatorsMixin):
    """A component [N, ...] of a split as the model gets it, by its flat key: an index copies these
    examples; arithmetic, methods of arrays and functions of NumPy copy all. Images are float32,
    divided by 255 as in training; sequences are padded to the longest of the split.
    """

    def __init__(self, split: Split, key: str = FEATURES):
        self._split = split
        self._key = key

    @property
    def shape(self) -> Tuple[int, ...]:
        longest = self._split.pad_length(self._key, is_longest=True)
        sizes = self._split.components[self._key].shape
        return (len(self), *(longest if size is None else size for size in sizes))

    @property
    def dtype(self) -> np.dtype:
        dtype = self._split.components[self._key].model_dtype
        return np.dtype(object if dtype == TEXT else dtype)

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, index: Any) -> np.ndarray:
        if isinstance(index, tuple):
            return np.asarray(self)[index]
        positions = np.asarray(np.arange(len(self))[index])  # of any number of axes
        features = self._read(positions.ravel())
        return features.reshape(positions.shape + features.shape[1:])

    def _read(self, positions: Any) -> np.ndarray:
        """A copy of some examples as the model gets them."""
        array = self._split.read(positions, [self._key], is_longest=True)[self._key]
        if self._split.components[self._key].kind == "image" and array.dtype == np.uint8:
            return array.astype(np.float32) * np.float32(1 / 255)
        return np.array(array, self.dtype)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self._read(slice(None)), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        if any(isinstance(output, ModelFeatures) for output in settings.get("out", ())):
            raise TypeError("Features are read-only; np.array(features[...]) is a copy to change.")
        arrays = [np.asarray(each) if isinstance(each, ModelFeatures) else each for each in inputs]
        return getattr(ufunc, method)(*arrays, **settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)
