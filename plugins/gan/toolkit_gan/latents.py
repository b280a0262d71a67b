"""What images are made from: latent numbers and class labels, drawn in the graph or with numpy.

Legend: N images, Z latent numbers, K classes.
"""

from __future__ import annotations

import numpy as np

from toolkit import UsageError

from .sizes import condition

PER_PATH = 8  # images from one random point to the next


def counts_of(data):
    """float64 [K]: how often each class is drawn; the training data's histogram, or all alike."""
    counts = np.asarray(data.class_counts or np.ones(data.num_classes), np.float64)
    return counts if counts.sum() else np.ones(data.num_classes)


# ------------------------------------------------------------------------------------ in the graph


def noise(run, name, count):
    """float32 [count, Z]: a function of the run's seed, `name` and the global step."""
    shape = [count, run.options.latent_size]
    if run.options.latent == "uniform":
        return run.uniform(name, shape, -1.0, 1.0)
    return run.normal(name, shape)


def classes(run, name, count):
    """int32 [count], drawn from the training data's class histogram; None without condition."""
    if condition(run.options, run.data) == "none":
        return None
    from toolkit import tf

    counts = counts_of(run.data)
    bounds = tf.constant(np.cumsum(counts)[:-1] / counts.sum(), tf.float32)  # [K - 1]
    drawn = run.uniform(name, [count, 1])
    return tf.reduce_sum(tf.cast(drawn >= bounds, tf.int32), axis=1)


# -------------------------------------------------------------------------------------- with numpy


def draw(options, data, count, seed, label=None, truncation=None):
    """{"z": float32 [count, Z]}, with a condition also "label": int32 [count]. Image i is the same
    for any count.

    label: one class for all, else drawn from the class histogram. truncation: keep each number
    within +-truncation; the tails are redrawn, not cut.
    """
    drawn = {"z": _latent(options, np.random.RandomState(seed), count, truncation)}
    if condition(options, data) != "none":
        drawn["label"] = _labels(data, count, seed, label)
    return drawn


def interpolate(options, data, count, seed, label=None, truncation=None):
    """As `draw`, with z along arcs from one random point to the next, `PER_PATH` images each.

    On a sphere's arc, since the middle of a straight line between two normal points is too near
    to zero.
    """
    stops = draw(options, data, -(-count // PER_PATH) + 1, seed, label, truncation)
    places = np.arange(count) / float(PER_PATH)
    first = places.astype(int)
    z = arc(stops["z"][first], stops["z"][first + 1], (places - first)[:, None])
    return dict({name: values[first] for name, values in stops.items()}, z=z)


def arc(a, b, t):
    """The point at share t [N, 1] of the arc from a to b, float32 [N, Z] each (Shoemake 1985)."""
    cosine = (a * b).sum(1, keepdims=True) / np.maximum(
        np.linalg.norm(a, axis=1, keepdims=True) * np.linalg.norm(b, axis=1, keepdims=True), 1e-12
    )
    angle = np.arccos(np.clip(cosine, -1, 1))
    sine = np.sin(angle)
    small = sine < 1e-6
    sine = np.where(small, 1, sine)
    start = np.where(small, 1 - t, np.sin((1 - t) * angle) / sine)
    end = np.where(small, t, np.sin(t * angle) / sine)
    return (start * a + end * b).astype(np.float32)


def rows_of_classes(options, data, count, seed):
    """As `draw`; where there is a condition, in rows of one class each, and images per row.

    Returns (inputs, columns); columns is None without condition.
    """
    if condition(options, data) == "none":
        return draw(options, data, count, seed), None
    columns = max(1, count // data.num_classes)
    inputs = draw(options, data, columns * data.num_classes, seed)
    inputs["label"] = np.repeat(np.arange(data.num_classes, dtype=np.int32), columns)
    return inputs, columns


def _latent(options, random, count, truncation):
    shape = (count, options.latent_size)
    if truncation is not None and not 0 < truncation < np.inf:
        raise UsageError(
            f"The truncation is {truncation}, expected a number above 0.",
            hint="Take 0.5 to 2: less is cleaner and less varied.",
        )
    if options.latent == "uniform":
        limit = min(1.0, truncation or 1.0)
        return random.uniform(-limit, limit, shape).astype(np.float32)
    if truncation is None:
        return random.standard_normal(shape).astype(np.float32)
    from scipy.special import ndtr, ndtri

    tail = ndtr(-truncation)
    return ndtri(random.uniform(tail, 1 - tail, shape)).astype(np.float32)


def _labels(data, count, seed, label):
    if label is not None:
        return np.full(count, label, np.int32)
    counts = counts_of(data)
    # Another stream than z's, so that z is the same with and without a condition.
    random = np.random.RandomState([seed, 1])
    return random.choice(data.num_classes, count, p=counts / counts.sum()).astype(np.int32)
