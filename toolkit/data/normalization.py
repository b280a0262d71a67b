"""Mean and standard deviation of the training examples, and their use in the graph.

Legend: N examples, ... the shape of one example, C its last axis: the channels of images, the
values of flat features.
"""

from __future__ import annotations

from typing import Any, Iterable, Tuple

import numpy as np

from ..compat import tf
from ..errors import UsageError
from .spec import DataSpec

NORMALIZED = "toolkit/normalized"  # the graph's collection of what `normalize` returned
CHUNK_BYTES = 4 << 20  # of features that are read at once; float64 takes up to eight times as much


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


def measure_moments(chunks: Iterable[Any]) -> Tuple[Tuple[float, ...], Tuple[float, ...]]:
    """Mean and standard deviation of each of the C values along the last axis of examples as the
    graph gets them (uint8 is divided by 255); the deviation of what never varies is 0.

    The chunks are features [n, ..., C], an example or more in each. Raises UsageError if they are
    no numbers, or one of them is not finite.
    """
    count, mean, squares = 0, np.zeros(1), np.zeros(1)  # of the squared differences to the mean
    lowest, highest = np.full(1, np.inf), np.full(1, -np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        for chunk in chunks:
            if not isinstance(chunk, np.ndarray) or chunk.dtype.kind not in "uif":
                raise UsageError(
                    "Only features that are one array of numbers have a mean and a deviation.",
                    hint="Leave out normalize.",
                )
            values = chunk.reshape(-1, chunk.shape[-1]).astype(np.float64)  # [n * ..., C]
            values = values / 255 if chunk.dtype == np.uint8 else values
            lowest = np.minimum(lowest, values.min(axis=0))
            highest = np.maximum(highest, values.max(axis=0))
            part_mean = values.mean(axis=0)
            values -= part_mean
            part = np.einsum("ij,ij->j", values, values)
            # Chan, Golub and LeVeque, "Updating Formulae", 1979.
            share = len(values) / (count + len(values))
            difference = part_mean - mean
            squares = squares + part + difference**2 * count * share
            mean = mean + difference * share
            count += len(values)
    assert count, "there are no examples"
    is_constant = lowest == highest
    mean = np.where(is_constant, lowest, mean)
    deviation = np.where(is_constant, 0.0, np.sqrt(squares / count))
    if not np.isfinite([mean, deviation]).all():
        raise UsageError(
            "The features have no mean: NaN, infinity or too large numbers are among them.",
            hint="Repair the data, or leave out normalize.",
        )
    return tuple(map(float, mean)), tuple(map(float, deviation))
