"""The averaged generator: its inputs, its weights, and the images that it makes.

A label is a class of the data, or a cluster of its images. The sizes of clusters are in variables:
numpy's inputs name a cluster by a position in the cumulated sizes, of those of one class if the
data have classes.

Batch norm keeps no moving averages: those of the trained weights would not fit the averaged ones.
Each time, the statistics are computed from a fixed set of latent numbers. One z alone therefore
gives the same image as in a batch, and sampling does not change training.
Legend: N images, Z latent numbers, K classes or clusters, H W C of an image.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np
from toolkit_image_scores.sets import even_positions

from toolkit import SampleRequest, UsageError, tf

from .architecture import conditioning, has_classes, label_kind, num_labels
from .options import IMAGES_PER_PATH

# "z": float32 [N, Z]; with classes "label": int32 [N]; with clusters "cluster": float32 [N]
Inputs = Dict[str, np.ndarray]
BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))  # rounding to float32 may give 1
RAMP = 0.05  # the half-life is at most this share of the images so far (Karras et al. 2020)


def class_counts(data: Any) -> np.ndarray:
    """float64 [K]: the weight of each class, its count in the training data; if unknown, all 1."""
    counts = np.asarray(data.class_counts or np.ones(data.num_classes), np.float64)
    return counts if counts.sum() else np.ones(data.num_classes)


# ----------------------------------------------------------------------------- inputs, in the graph


def noise(run, name: str, count):
    """float32 [count, Z], drawn by the run: see `toolkit.Run.uniform`."""
    shape = [count, run.options.latent_size]
    if run.options.latent == "uniform":
        return run.uniform(name, shape, -1.0, 1.0)
    return run.normal(name, shape)


def random_labels(run, name: str, count, clusters=None):
    """int32 [count], as frequent as in the training data; None without conditioning. The name is of
    the random numbers; the count is an int or an int32 scalar; clusters, if these are the labels,
    are `clusters.Clusters`.
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
    counts = class_counts(data)
    bounds = tf.constant(np.cumsum(counts)[:-1] / counts.sum(), tf.float32)  # [K - 1]
    return tf.reduce_sum(tf.cast(uniform >= bounds, tf.int32), axis=1)


# ------------------------------------------------------------------------------- inputs, with numpy


def random_inputs(
    options: Any, data: Any, count: int, seed: int, truncation: Optional[float] = None
) -> Inputs:
    """Draw latent numbers, and with conditioning labels: classes, or positions of clusters.

    Image i is the same for any count. `truncation` is a bound on the size of each latent number,
    above 0, for which the tails are drawn again, not clipped.
    """
    limit = latent_limit(options, truncation)
    inputs = {"z": _random_latents(options, np.random.RandomState(seed), count, limit)}
    if has_classes(options, data):
        inputs["label"] = _random_labels(data, count, seed)
    if label_kind(options, data) == "cluster":
        positions = np.random.RandomState([seed, 2]).random_sample(count).astype(np.float32)
        inputs["cluster"] = np.minimum(positions, BELOW_ONE)
    return inputs


def interpolation_inputs(
    options: Any, data: Any, count: int, seed: int, truncation: Optional[float] = None
) -> Inputs:
    """As `random_inputs`, with z on arcs between random points, `IMAGES_PER_PATH` images each.

    The arcs are of a sphere: the middle of a straight line between two normal points would be
    too close to zero. Where an arc leaves the bound of its points, it is clipped.
    """
    points = random_inputs(options, data, -(-count // IMAGES_PER_PATH) + 1, seed, truncation)
    positions = np.arange(count) / float(IMAGES_PER_PATH)
    first = positions.astype(int)
    z = slerp(points["z"][first], points["z"][first + 1], (positions - first)[:, None])
    limit = latent_limit(options, truncation)
    inputs = {name: values[first] for name, values in points.items()}
    return dict(inputs, z=np.clip(z, -limit, limit))


def slerp(a: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Spherical linear interpolation (Shoemake 1985) from a to b, float32 [N, Z], at the share t of
    the arc, float64 [N, 1] in [0, 1].
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
    """Inputs for a grid of about `count` images, and its images per row: with conditioning, in rows
    of one label each, None without it.

    Rows of one class have its clusters from left to right. Without classes, clusters have the rows;
    of many there is a square grid, whose rows are at even positions of the sizes.
    """
    kind = label_kind(options, data)
    if kind == "none":
        return random_inputs(options, data, count, seed), None
    is_by_class = has_classes(options, data)
    classes = grid_classes(data, count)
    rows = len(classes) if is_by_class else min(num_labels(options, data), int(np.sqrt(count)))
    columns = count // rows
    inputs = random_inputs(options, data, columns * rows, seed)
    if is_by_class:
        inputs["label"] = np.repeat(classes, columns)
    if kind == "cluster":
        positions = np.tile(even_shares(columns), rows)
        inputs["cluster"] = positions if is_by_class else np.repeat(even_shares(rows), columns)
    return inputs, columns


def real_rows(split, count: int, run) -> np.ndarray:
    """As many training images as a grid has samples; with classes, in rows of one class."""
    if not has_classes(run.options, run.data):
        return split.take(np.resize(even_positions(len(split), count), count))[0]
    classes = grid_classes(run.data, count)
    positions = [np.flatnonzero(split.labels == k) for k in classes]
    rows = [np.resize(row if len(row) else [0], count // len(classes)) for row in positions]
    return split.take(np.concatenate(rows))[0]


def grid_classes(data: Any, count: int) -> np.ndarray:
    """int32: the classes in a grid of so many images: all, or as many as a square has rows."""
    limit = count if data.num_classes <= count else int(np.sqrt(count))
    return even_positions(data.num_classes, limit).astype(np.int32)


def even_shares(count: int) -> np.ndarray:
    """float32 [count], the middles of equal parts of [0, 1]."""
    return ((np.arange(count) + 0.5) / count).astype(np.float32)


def latent_limit(options: Any, truncation: Optional[float]) -> float:
    """The bound on the size of each latent number; infinite if there is none."""
    return min(truncation or np.inf, 1.0 if options.latent == "uniform" else np.inf)


def _random_latents(options, random, count, limit) -> np.ndarray:
    shape = (count, options.latent_size)
    if options.latent == "uniform":
        return random.uniform(-limit, limit, shape).astype(np.float32)
    if limit == np.inf:
        return random.standard_normal(shape).astype(np.float32)
    from scipy.special import ndtr, ndtri

    tail = ndtr(-limit)
    return ndtri(random.uniform(tail, 1 - tail, shape)).astype(np.float32)


def _random_labels(data, count, seed) -> np.ndarray:
    counts = class_counts(data)
    # Not the generator of z, so that z is the same with and without conditioning.
    random = np.random.RandomState([seed, 1])
    return random.choice(data.num_classes, count, p=counts / counts.sum()).astype(np.int32)


# ------------------------------------------------------------------------------- the moving average


def update_average(model, run):
    """Build the op that moves the averaged weights towards the generator's; it runs after those.

    Its decay is counted in steps (`ema`), or as a half-life in images (`ema_images`), which does
    not depend on the batch size and grows with the run.
    """
    share = 1 - decay(run)
    moves = []
    for average, variable in zip(model.average.variables, model.generator.variables):
        difference = average.read_value() - variable.read_value()
        moves.append(average.assign_sub(share * difference, read_value=False))
    return tf.group(*moves)


def decay(run):
    """The share of its old value that the average keeps in this step, a float32 scalar tensor."""
    options = run.options
    step = tf.cast(run.step_index, tf.float32)
    if options.ema_images is None:
        # It grows with the step, so that the average forgets the initial weights.
        return tf.minimum(options.ema, (1 + step) / (10 + step))
    batch = images_per_step(run)
    return decay_of_half_life(batch * options.accumulate, step * batch, options.ema_images)


def decay_of_half_life(update_images: int, past_images, half_life: int):
    """0.5 ** (update_images / h), with h = min(half_life, RAMP * past_images); 0 at the start.

    Of an average, whose weights count half as much after `half_life` images. `past_images`, a
    float32 scalar, are those before this step, `update_images` those of one update. Karras et al.
    2020, Analyzing and Improving the Image Quality of StyleGAN.
    """
    half_life = tf.minimum(float(half_life), RAMP * past_images)
    return tf.pow(0.5, update_images / tf.maximum(half_life, 1e-8))


def images_per_step(run) -> int:
    """The examples of a generator's batch, those of all replicas."""
    replica = run.replica
    return replica.batch_size if replica.count > 1 else run.options.batch_size


# ------------------------------------------------------------------------------------------- images


def generator_inputs(run) -> Dict[str, Any]:
    """What the generator is fed when it predicts: name -> (dtype, shape of one)."""
    specs = {"z": ("float32", [run.options.latent_size])}
    if has_classes(run.options, run.data):
        specs["label"] = ("int32", [])
    if label_kind(run.options, run.data) == "cluster":
        specs["cluster"] = ("float32", [])  # a position in the cumulated sizes of the clusters
    return specs


def generate_predictions(generator, inputs: Dict[str, Any], run) -> Dict[str, Any]:
    """{"image": float32 [N, H, W, C] in [0, 1]} from tensors named by `generator_inputs`."""
    labels = labels_of(inputs, generator.clusters)
    return {"image": sample_images(generator, inputs["z"], labels, run)}


def predict(outputs: Dict[str, Any], run) -> Dict[str, Any]:
    """The columns of a prediction: the image; when evaluating, the logit of each real image."""
    if run.mode == "predict":
        return {"image": outputs["image"]}
    return {"real_logit": outputs["real_logits"]}


def sample_images(generator, z, labels, run):
    """float32 [N, H, W, C] in [0, 1] of the averaged generator for z, float32 [N, Z], and labels,
    int32 [N] or None. A session computes the batch norm statistics, local variables, once, after
    its weights are restored.
    """
    collections = [tf.GraphKeys.LOCAL_VARIABLES]
    statistics = [
        tf.Variable(value, trainable=False, collections=collections).read_value()
        for value in _norm_statistics(generator, run)
    ]
    return generate_images(generator, z, labels, statistics, run)


def sample_fixed_inputs(generator, inputs: Dict[str, Any], run):
    """float32 [N, H, W, C] in [0, 1] from numpy z and labels, in any graph with the weights."""
    z, labels = tf.constant(inputs["z"]), labels_of(inputs, generator.clusters)
    return generate_images(generator, z, labels, _norm_statistics(generator, run), run)


def generate_images(generator, z, labels, statistics: List[Any], run):
    """float32 [N, H, W, C] in [0, 1], with the given batch norm statistics."""
    if conditioning(run.options, run.data) == "none":
        labels = None
    return (generator(z, labels, statistics=statistics) + 1) / 2


def _norm_statistics(generator, run) -> List[Any]:
    """Mean and variance of each batch norm, over `norm_samples` fixed latent numbers."""
    inputs = random_inputs(run.options, run.data, run.options.norm_samples, run.seed("standing"))
    labels = labels_of(inputs, generator.clusters)
    return generator.statistics(tf.constant(inputs["z"]), labels)


def draw(request: SampleRequest, run) -> Iterator[Dict[str, np.ndarray]]:
    """Yield images and the inputs from which they follow: "z", and "label" and "cluster" if any.
    Raises UsageError if the request names a class, and the model knows none.
    """
    if request.labels is not None and not has_classes(run.options, run.data):
        has_clusters = label_kind(run.options, run.data) == "cluster"
        reason = (
            "its labels are clusters of images" if has_clusters else "it was trained without labels"
        )
        raise UsageError(
            f"The model knows no classes: {reason}.",
            hint="Omit --class, or train with --conditional projection on labelled data.",
        )
    return _generate(request, draw_inputs(request, run))


def draw_inputs(request: SampleRequest, run) -> Inputs:
    """The inputs of the generator for all images of a request; image i is the same for any n.

    The numbers are those of earlier versions, and therefore not drawn by `request.normal`.
    """
    draw_all = random_inputs
    if request.options.interpolate:
        draw_all = interpolation_inputs
    truncation = request.options.truncation
    inputs = draw_all(run.options, run.data, request.count, request.seed, truncation)
    return inputs if request.labels is None else dict(inputs, label=request.labels)


def _generate(request: SampleRequest, inputs: Inputs) -> Iterator[Dict[str, np.ndarray]]:
    for part in request.parts():
        rows = {name: array[part.first :][: part.count] for name, array in inputs.items()}
        yield dict(images=part.predict(rows)["image"], **rows)
