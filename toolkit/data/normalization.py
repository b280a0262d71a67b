"""Mean and standard deviation of the training examples, and their use in the graph.

Legend: N examples, ... the shape of one example, C its last axis: the channels of images, the
values of flat features.
"""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Optional, Tuple

import numpy as np

from ..compat import tf
from ..errors import UsageError
from .spec import DataSpec

NORMALIZED = "toolkit/normalized"  # the graph's collection of what `normalize` returned
CHUNK_BYTES = 4 << 20  # of features that are read at once; float64 takes up to eight times as much


class Moments(NamedTuple):
    """Mean and standard deviation of each of the C values along the last axis."""

    mean: Tuple[float, ...]
    deviation: Tuple[float, ...]  # 0 for what has one value in all examples


class _Sums(NamedTuple):
    """What is known of the values so far, float64 [C] each."""

    num_values: int
    mean: np.ndarray
    squares: np.ndarray  # the sum of the squared differences to the mean
    lowest: np.ndarray
    highest: np.ndarray


def normalize(features: Any, spec: DataSpec) -> Any:
    """Subtract the mean of the training examples and divide by their standard deviation.

    Call it in the hook `call`, in every mode, on what the model is fed after its augmentation. It
    returns the features unchanged unless the option `normalize` is on. Evaluation, `predict` and
    exports then normalize as the training did, with the numbers that the run recorded.

    Args:
        features: numbers [N, ..., C].
        spec: `run.data`.

    Returns:
        float32 [N, ..., C] if the option is on.
    """
    if not spec.mean:
        return features
    mean, scale = np.array(spec.mean), np.array(spec.deviation)
    with np.errstate(divide="ignore", over="ignore"):
        factor = (1.0 / scale).astype(np.float32)
    factor = np.where(np.isfinite(factor), factor, np.float32(1.0))  # of constants
    features = tf.cast(features, tf.float32)
    normalized = (features - tf.constant(mean, tf.float32)) * tf.constant(factor, tf.float32)
    tf.add_to_collection(NORMALIZED, normalized)
    return normalized


def is_normalized() -> bool:
    """Whether `normalize` was called for the default graph."""
    return bool(tf.get_collection(NORMALIZED))


def examples_per_chunk(example_bytes: int) -> int:
    """How many examples to measure at once."""
    return max(1, CHUNK_BYTES // max(1, example_bytes))


def measure_moments(chunks: Iterable[Any]) -> Moments:
    """The moments of examples as the graph gets them: uint8 is divided by 255.

    Args:
        chunks: features [n, ..., C] one after the other, an example or more in each.

    Raises:
        UsageError: the features are no numbers, or one of them is not finite.
    """
    sums: Optional[_Sums] = None
    for chunk in chunks:
        part = _sum_chunk(chunk)
        sums = part if sums is None else _join(sums, part)
    assert sums is not None, "there are no examples"
    is_constant = sums.lowest == sums.highest
    mean = np.where(is_constant, sums.lowest, sums.mean)
    deviation = np.where(is_constant, 0.0, np.sqrt(sums.squares / sums.num_values))
    if not np.isfinite([mean, deviation]).all():
        raise UsageError(
            "The features have no mean: NaN, infinity or too large numbers are among them.",
            hint="Repair the data, or leave out normalize.",
        )
    return Moments(tuple(map(float, mean)), tuple(map(float, deviation)))


def _sum_chunk(features: Any) -> _Sums:
    if not isinstance(features, np.ndarray) or features.dtype.kind not in "uif":
        raise UsageError(
            "Only features that are one array of numbers have a mean and a deviation.",
            hint="Leave out normalize.",
        )
    values = features.reshape(-1, features.shape[-1]).astype(np.float64)
    if features.dtype == np.uint8:
        values /= 255
    with np.errstate(invalid="ignore", over="ignore"):
        mean = values.mean(axis=0)
        lowest, highest = values.min(axis=0), values.max(axis=0)
        values -= mean
        squares = np.einsum("ij,ij->j", values, values)
    return _Sums(len(values), mean, squares, lowest, highest)


def _join(sums: _Sums, other: _Sums) -> _Sums:
    """The sums of both; see Chan, Golub and LeVeque, "Updating Formulae", 1979."""
    total = sums.num_values + other.num_values
    share = other.num_values / total
    with np.errstate(invalid="ignore", over="ignore"):
        difference = other.mean - sums.mean
        mean = sums.mean + difference * share
        squares = sums.squares + other.squares + difference**2 * sums.num_values * share
    lowest = np.minimum(sums.lowest, other.lowest)
    return _Sums(total, mean, squares, lowest, np.maximum(sums.highest, other.highest))
