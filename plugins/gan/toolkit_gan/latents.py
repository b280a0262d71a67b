"""The inputs of the generator: latent numbers and class labels, in the graph or with numpy.

Legend: N images, Z latent numbers, K classes.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np

from toolkit import UsageError

from .architecture import conditioning

IMAGES_PER_PATH = 8  # from one random point to the next
BLOCK_SIZE = 256  # examples of an evaluation whose random numbers are drawn together

Inputs = Dict[str, np.ndarray]  # "z": float32 [N, Z], and with conditioning "label": int32 [N]


def class_counts(data: Any) -> np.ndarray:
    """float64 [K]: the weight of each class, its count in the training data; if unknown, all 1."""
    counts = np.asarray(data.class_counts or np.ones(data.num_classes), np.float64)
    return counts if counts.sum() else np.ones(data.num_classes)


# ------------------------------------------------------------------------------------ in the graph


def noise(run, name: str, count):
    """float32 [count, Z], a function of the run's seed, `name` and the global step."""
    shape = [count, run.options.latent_size]
    if run.options.latent == "uniform":
        return run.uniform(name, shape, -1.0, 1.0)
    return run.normal(name, shape)


def random_labels(run, name: str, count):
    """int32 [count], from the training data's class histogram; None without conditioning."""
    if conditioning(run.options, run.data) == "none":
        return None
    return _labels_at(run.uniform(name, [count, 1]), run.data)


def positional_noise(run, name: str, count):
    """float32 [count, Z], a function of the run's seed, `name` and positions in the split.

    Args:
        run: the `toolkit.Run`, in mode "eval".
        name: of the use.
        count: of the examples in the batch.
    """
    from toolkit import tf

    size = run.options.latent_size
    if run.options.latent == "uniform":
        return 2 * _positional_numbers(run, name, count, size, tf.random.stateless_uniform) - 1
    return _positional_numbers(run, name, count, size, tf.random.stateless_normal)


def positional_labels(run, name: str, count):
    """As `random_labels`, but a function of positions in the split instead of the global step."""
    if conditioning(run.options, run.data) == "none":
        return None
    from toolkit import tf

    uniform = _positional_numbers(run, name, count, 1, tf.random.stateless_uniform)
    return _labels_at(uniform, run.data)


def _positional_numbers(run, name, count, size, draw):
    """float32 [count, size], drawn in blocks of examples whose positions are fixed."""
    from toolkit import tf

    count = tf.cast(count, tf.int64)
    first = run.position // BLOCK_SIZE
    last = (run.position + count - 1) // BLOCK_SIZE
    seed = tf.constant(run.seed(name), tf.int64)
    blocks = tf.map_fn(
        lambda block: draw([BLOCK_SIZE, size], tf.stack([seed, block])),
        tf.range(first, last + 1),
        dtype=tf.float32,
    )  # [blocks, BLOCK_SIZE, size]
    start = run.position - first * BLOCK_SIZE
    return tf.reshape(blocks, [-1, size])[start : start + count]


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
    """Draw latent numbers, and with conditioning labels. Image i is the same for any count.

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
    if conditioning(options, data) != "none":
        inputs["label"] = _random_labels(data, count, seed, label)
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
    """Inputs for a grid of about `count` images: with conditioning, in rows of one class each.

    Returns:
        The inputs, and the images per row or None without conditioning.
    """
    if conditioning(options, data) == "none":
        return random_inputs(options, data, count, seed), None
    columns = max(1, count // data.num_classes)
    inputs = random_inputs(options, data, columns * data.num_classes, seed)
    inputs["label"] = np.repeat(np.arange(data.num_classes, dtype=np.int32), columns)
    return inputs, columns


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
