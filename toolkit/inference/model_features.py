"""The features of a split as a model is fed them, converted when they are read."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from ..data.examples import Split

_IN_PLACE = ("sort", "partition", "fill", "put", "resize", "setfield", "itemset")  # of arrays


class ModelFeatures(np.lib.mixins.NDArrayOperatorsMixin):
    """Like an array float32 [N, ...], but only what is indexed is converted to float32.

    An index of examples reads these examples. Any other use, such as arithmetic or a method of
    arrays, converts all of them. What is read is always a copy, and the features are read-only.

    Args:
        split: the examples; uint8 is divided by 255, as in training.
    """

    def __init__(self, split: Split):
        self._split = split

    @property
    def shape(self) -> Tuple[int, ...]:
        return (len(self), *self._split.shape)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, index: Any) -> np.ndarray:
        if isinstance(index, tuple):
            return np.asarray(self)[index]
        positions = np.arange(len(self))[index]
        features = _scale(self._split.take(np.atleast_1d(positions))[0])
        return features[0] if np.ndim(positions) == 0 else features

    def __setitem__(self, index: Any, value: Any) -> None:
        raise _read_only()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if copy is False:  # of NumPy 2
            raise ValueError("The features of an evaluation cannot be read without a copy.")
        return np.asarray(_scale(self._split.take(slice(None))[0]), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        outputs = inputs[:1] if method == "at" else settings.get("out", ())
        if any(isinstance(output, ModelFeatures) for output in outputs):
            raise _read_only()
        arrays = [np.asarray(x) if isinstance(x, ModelFeatures) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _IN_PLACE:
            raise _read_only()
        return getattr(np.asarray(self), name)


def _read_only() -> TypeError:
    return TypeError(
        "The features of an evaluation are read-only; np.array(features[...]) is a copy to change."
    )


def _scale(features: np.ndarray) -> np.ndarray:
    """A copy of the features as float32, in the way of `toolkit.data.resident.scale`."""
    if features.dtype == np.uint8:
        return features.astype(np.float32) * np.float32(1 / 255)
    return np.array(features, np.float32)
