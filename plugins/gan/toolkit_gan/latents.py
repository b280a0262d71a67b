"""The inputs of the generator: latent numbers and labels, in the graph or with numpy.

A label is a class of the data, or a cluster of its images. The sizes of clusters are in variables:
numpy's inputs name a cluster by a position in the cumulated sizes, of those of one class if the
data have classes.
Legend: N images, Z latent numbers, K classes or clusters.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np

from toolkit import UsageError

from .architecture import has_classes, label_kind, num_labels
from .options import IMAGES_PER_PATH

# "z": float32 [N, Z]; with classes "label": int32 [N]; with clusters "cluster": float32 [N]
Inputs = Dict[str, np.ndarray]
BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))  # rounding to float32 may give 1


def class_counts(data: Any) -> np.ndarray:
    """float64 [K]: the weight of each class, its count in the training data; if unknown, all 1."""
    counts = np.asarray(data.class_counts or np.ones(data.num_classes), np.float64)
    return counts if counts.sum() else np.ones(data.num_classes)


# ------------------------------------------------------------------------------------ in the graph


def noise(run, name: str, count):
    """float32 [count, Z], drawn by the run: see `toolkit.Run.uniform`."""
    shape = [count, run.options.latent_size]
    if run.options.latent == "uniform":
        return run.uniform(name, shape, -1.0, 1.0)
    return run.normal(name, shape)


def random_labels(run, name: str, count, clusters=None):
    """int32 [count], as frequent as in the training data; None without conditioning.

    Args:
        run: the `toolkit.Run`.
        name: of the random numbers.
        count: an int or an int32 scalar.
        clusters: the `clusters.Clusters`, if these are the labels.
    """
    kind = label_kind(run.options, run.data)
    if kind == "none":
        return None
    positions = run.uniform(name, [count, 1])
    if not has_classes(run.options, run.data):
        return clusters.labels_at(positions)
    classes = _labels_at(positions, run.data)
    if kind == "class":
        return classes
    return clusters.labels_at(run.uniform(name + "/cluster", [count, 1]), classes)


def labels_of(inputs: Dict[str, Any], clusters=None):
    """int32 [N], the labels of inputs, which are arrays or tensors; None without any."""
    classes = inputs.get("label")
    return clusters.labels_at(inputs["cluster"], classes) if "cluster" in inputs else classes


def _labels_at(uniform, data):
    """int32 [N], the classes at these points [N, 1] in [0, 1) of the cumulated class histogram."""
    from toolkit import tf

    counts = class_counts(data)
    bounds = tf.constant(np.cumsum(counts)[:-1] / counts.sum(), tf.float32)  # [K - 1]
    return tf.reduce_sum(tf.cast(uniform >= bounds, tf.int32), axis=1)


# -------------------------------------------------------------------------------------- with numpy


def random_inputs(
    options: Any,
    data: Any,
    count: int,
    seed: int,
    label: Optional[int] = None,
    truncation: Optional[float] = None,
) -> Inputs:
    """Draw latent numbers, and with conditioning labels: classes, or positions of clusters.

    Image i is the same for any count.

    Args:
        options: of the model.
        data: the `DataSpec` of the model.
        count: N.
        seed: of numpy's generator.
        label: one class for all; None: drawn from the class histogram.
        truncation: a bound on the size of each latent number; the tails are drawn again, not
            clipped. None: no bound.

    Raises:
        UsageError: the truncation is not a positive number.
    """
    inputs = {"z": _random_latents(options, np.random.RandomState(seed), count, truncation)}
    if has_classes(options, data):
        inputs["label"] = _random_labels(data, count, seed, label)
    if label_kind(options, data) == "cluster":
        positions = np.random.RandomState([seed, 2]).random_sample(count).astype(np.float32)
        inputs["cluster"] = np.minimum(positions, BELOW_ONE)
    return inputs


def interpolation_inputs(
    options: Any,
    data: Any,
    count: int,
    seed: int,
    label: Optional[int] = None,
    truncation: Optional[float] = None,
) -> Inputs:
    """As `random_inputs`, with z on arcs between random points, `IMAGES_PER_PATH` images each.

    The arcs are of a sphere: the middle of a straight line between two normal points would be
    too close to zero.
    """
    points = random_inputs(options, data, -(-count // IMAGES_PER_PATH) + 1, seed, label, truncation)
    positions = np.arange(count) / float(IMAGES_PER_PATH)
    first = positions.astype(int)
    z = slerp(points["z"][first], points["z"][first + 1], (positions - first)[:, None])
    return dict({name: values[first] for name, values in points.items()}, z=z)


def slerp(a: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Spherical linear interpolation (Shoemake 1985), float32 [N, Z].

    Args:
        a: float32 [N, Z], where the arc starts.
        b: float32 [N, Z], where it ends.
        t: float64 [N, 1] in [0, 1], the share of the arc.
    """
    cosine = (a * b).sum(1, keepdims=True) / np.maximum(
        np.linalg.norm(a, axis=1, keepdims=True) * np.linalg.norm(b, axis=1, keepdims=True), 1e-12
    )
    angle = np.arccos(np.clip(cosine, -1, 1))
    sine = np.sin(angle)
    is_straight = sine < 1e-6
    sine = np.where(is_straight, 1, sine)
    start = np.where(is_straight, 1 - t, np.sin((1 - t) * angle) / sine)
    end = np.where(is_straight, t, np.sin(t * angle) / sine)
    return (start * a + end * b).astype(np.float32)


def class_row_inputs(
    options: Any, data: Any, count: int, seed: int
) -> Tuple[Inputs, Optional[int]]:
    """Inputs for a grid of about `count` images: with conditioning, in rows of one label each.

    Rows of one class have its clusters from left to right. Without classes, clusters have the rows;
    of many there is a square grid, whose rows are at even positions of the sizes.

    Returns:
        The inputs, and the images per row or None without conditioning.
    """
    kind = label_kind(options, data)
    if kind == "none":
        return random_inputs(options, data, count, seed), None
    is_by_class = has_classes(options, data)
    rows = data.num_classes if is_by_class else num_labels(options, data)
    if not is_by_class:
        rows = min(rows, max(1, int(np.sqrt(count))))
    columns = max(1, count // rows)
    inputs = random_inputs(options, data, columns * rows, seed)
    if is_by_class:
        inputs["label"] = np.repeat(np.arange(rows, dtype=np.int32), columns)
    if kind == "cluster":
        positions = np.tile(even_shares(columns), rows)
        inputs["cluster"] = positions if is_by_class else np.repeat(even_shares(rows), columns)
    return inputs, columns


def even_shares(count: int) -> np.ndarray:
    """float32 [count], the middles of equal parts of [0, 1]."""
    return ((np.arange(count) + 0.5) / count).astype(np.float32)


def _random_latents(options, random, count, truncation) -> np.ndarray:
    shape = (count, options.latent_size)
    if truncation is not None and not 0 < truncation < np.inf:
        raise UsageError(
            f"The truncation is {truncation}, expected a number above 0.",
            hint="Use 0.5 to 2; a lower value gives cleaner and less varied images.",
        )
    if options.latent == "uniform":
        limit = min(1.0, truncation or 1.0)
        return random.uniform(-limit, limit, shape).astype(np.float32)
    if truncation is None:
        return random.standard_normal(shape).astype(np.float32)
    from scipy.special import ndtr, ndtri

    tail = ndtr(-truncation)
    return ndtri(random.uniform(tail, 1 - tail, shape)).astype(np.float32)


def _random_labels(data, count, seed, label) -> np.ndarray:
    if label is not None:
        return np.full(count, label, np.int32)
    counts = class_counts(data)
    # Not the generator of z, so that z is the same with and without conditioning.
    random = np.random.RandomState([seed, 1])
    return random.choice(data.num_classes, count, p=counts / counts.sum()).astype(np.int32)
