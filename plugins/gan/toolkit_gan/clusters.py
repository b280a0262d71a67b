"""Labels from clusters of the training images.

Before the first step, k-means divides the training images, those of each class by themselves, into
clusters. The networks use the number of an image's cluster as they would use its class. Labels from
k-means are those of Caron et al. 2018, Deep clustering for unsupervised learning of visual
features; Sage et al. 2018, Logo synthesis and manipulation with clustered generative adversarial
networks, condition a GAN on them.

What the clusters follow from is in variables: a checkpoint has it, and a resume restores it.
Legend: N images, H W C of one, D numbers of an image, P components, K clusters.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

import numpy as np
from toolkit_agreement import MIN_IMAGES
from toolkit_image_scores.sets import even_positions

import toolkit
from toolkit import DataError, UsageError, tf

from . import kmeans
from .architecture import MAX_CLUSTERS, num_labels
from .cluster_features import VALUES, variable
from .sampling import images_per_step

MAX_IMAGES = 20000  # from which the clusters are computed
# Where the option is 0, the number of clusters follows from data and run. With fewer images than
# this, a cluster is an image and its copies; with fewer examples, the networks do not learn what
# is in it (300 clusters of MNIST are worse than 100 after 5,000 steps, and 40 are better).
IMAGES_PER_CLUSTER = 15
EXAMPLES_PER_CLUSTER = 8000  # real images in the batches of the run
MIN_CLUSTERS = 2
NUM_COMPONENTS = 50
WHITENING_FLOOR = 1e-3  # of the largest variance: directions with less are not enlarged to noise
NEVER = 1e9  # a bound that no position reaches
UNUSED = -1  # class of a row without images, where the rows are more than the clusters
BELOW = 1 - 2.0**-23  # times a float32 number is less than this number
FAR = 1e6  # coordinate of a centroid that no image is near
UNREACHABLE = 1e30  # a squared distance beyond that of any centroid, also of one that is far


class Clusters:
    """The clusters of the training images, in variables. Clusters of data with classes are within
    one class each, in the order of the classes. Predicting needs only their sizes.
    """

    def __init__(self, run):
        self._num = num_labels(run.options, run.data)
        self._count, self._seed = run.options.clusters, run.seed("clusters")
        per_step = images_per_step(run) * run.options.batches_per_step
        self._examples = per_step * (run.total_steps or 0)
        self._num_classes = max(1, run.data.num_classes)
        sizes = np.linspace(0, self._num_classes, self._num + 1)[1:-1]
        self._bounds = variable("bounds", [self._num - 1], tf.constant_initializer(sizes))
        if run.mode == "predict":
            return
        self._values = VALUES[run.options.cluster_features](run)
        self._projection = variable("projection", [self._values.size, NUM_COMPONENTS])
        self._centroids = variable("centroids", [self._num, NUM_COMPONENTS])
        variables = [self._projection, self._centroids, self._bounds]
        self._classes = None
        if self._num_classes > 1:
            unused = tf.constant_initializer(UNUSED, tf.int32)
            self._classes = variable("classes", [self._num], unused, tf.int32)
            variables.append(self._classes)
        run.fit_initial_values([*variables, *self._values.variables], self._fit, is_of_data=True)

    def assign(self, images, classes=None):
        """int32 [N], the cluster of each image, whose centroid is nearest: one of its class, int32
        [N], if that is known. Images are float32 [N, H, W, C] in [-1, 1].
        """
        points = tf.matmul(self._values(images), self._projection.read_value())  # [N, P]
        centroids = self._centroids.read_value()
        products = tf.matmul(points, centroids, transpose_b=True)  # [N, K]
        squares = tf.reduce_sum(tf.square(centroids), axis=1)
        distances = squares - 2 * products
        if classes is not None and self._classes is not None:
            is_other = tf.not_equal(tf.reshape(classes, [-1, 1]), self._classes.read_value())
            distances += tf.cast(is_other, tf.float32) * UNREACHABLE
        return tf.argmin(distances, axis=1, output_type=tf.int32)

    def labels_at(self, positions, classes=None):
        """int32 [N], the clusters at some positions in the cumulated sizes: float32 [N] in [0, 1),
        of the clusters of a class, int32 [N], or of all where the data have none.
        """
        positions = tf.reshape(positions, [-1, 1])
        if classes is not None:
            first = tf.cast(tf.reshape(classes, [-1, 1]), tf.float32)
            positions = tf.minimum(first + positions, (first + 1) * BELOW)
        is_later = positions >= self._bounds.read_value()  # [N, K - 1]
        return tf.reduce_sum(tf.cast(is_later, tf.int32), axis=1)

    def _fit(self, split: Any) -> List[np.ndarray]:
        """The values of the variables, from the training images.

        Evenly spaced: a folder of images is read class after class.
        """
        count = self._count or default_count(len(split), self._examples)
        positions = even_positions(len(split), MAX_IMAGES)
        values, others = self._values.read(split, positions)
        classes = np.zeros(len(values), int)
        if self._num_classes > 1:
            classes = np.asarray(split.labels)[positions]
        points, projection = project(values, self._values.is_whitened)
        with toolkit.waiting(f"Dividing {len(points):,} images into clusters"):
            fitted = fit(points, classes, self._num_classes, self._num, count, self._seed)
        arrays = [projection, fitted.centroids, fitted.bounds]
        return [*arrays, *([fitted.classes] if self._num_classes > 1 else []), *others]


def default_count(num_images: int, num_examples: int) -> int:
    """The number of clusters where the option is 0, by the images of the training data and the
    examples in all batches of the run that starts; a longer resume changes nothing.
    """
    count = min(num_images // IMAGES_PER_CLUSTER, num_examples // EXAMPLES_PER_CLUSTER)
    return min(max(count, MIN_CLUSTERS), MAX_CLUSTERS)


def check_clusters(options: Any, data: Any, train: Any) -> None:
    """Check, before a training, that the training images suffice for the clusters: DataError if
    they are fewer, UsageError if they are too few for the network that the clusters follow from.
    """
    if options.conditional != "clusters":
        return
    if options.clusters > len(train):
        raise DataError(
            f"clusters is {options.clusters}, and the split 'train' has {len(train)} images.",
            hint="Set fewer clusters, or 0 for a number that fits the data.",
        )
    if options.cluster_features == "self" and len(train) < MIN_IMAGES:
        raise UsageError(
            f"cluster_features=self learns from {MIN_IMAGES} images or more, and the split 'train' "
            f"has {len(train)}.",
            hint="Set cluster_features=pixels, or conditional=none.",
        )


class Fit(NamedTuple):
    """The clusters of some images, in the order of their classes."""

    centroids: np.ndarray  # float64 [K, P]
    # float64 [K - 1], the end of each cluster: class plus cumulated share of the class's images
    bounds: np.ndarray
    classes: np.ndarray  # int [K]


def fit(
    points: np.ndarray, classes: np.ndarray, num_classes: int, num_rows: int, count: int, seed: int
) -> Fit:
    """Divide the images of each class into clusters.

    The points, float [N, P], are the projected images. The classes, int [N], are all 0, and
    `num_classes` is 1, where the data have none. There may be more rows, K, than clusters, of which
    each class has one at least; the rest gets no image. The seed is of the start of k-means.
    """
    random = np.random.RandomState(seed % 2**32)
    sizes = np.bincount(classes, minlength=num_classes)
    rows = np.full((num_rows, points.shape[1]), FAR)
    bounds, row_classes, start = np.full(num_rows, NEVER), np.full(num_rows, UNUSED), 0
    for number, class_count in enumerate(divide(min(count, num_rows), sizes)):
        centroids, shares = find_clusters(points[classes == number], class_count, random)
        part = slice(start, start + len(shares))
        rows[part], row_classes[part] = centroids, number
        bounds[part] = number + np.cumsum(shares)
        bounds[part.stop - 1] = number + 1  # exactly
        start = part.stop
    bounds[start - 1] = NEVER
    return Fit(rows, bounds[:-1], row_classes)


def find_clusters(
    points: np.ndarray, count: int, random: np.random.RandomState
) -> Tuple[np.ndarray, np.ndarray]:
    """The centroids, float64 [at most count, P], and the shares, float64 [as many], of the clusters
    of points [n, P] of one class; without points, one that is far. `random` starts k-means.
    """
    if not len(points):
        return np.full((1, points.shape[1]), FAR), np.ones(1)
    centroids = kmeans.find_centroids(points, count, random)
    counts = np.bincount(kmeans.assign(points, centroids), minlength=len(centroids))
    return centroids, counts / len(points)


def divide(count: int, sizes: np.ndarray) -> np.ndarray:
    """int [classes]: one cluster for each class, the others in proportion to `sizes`."""
    rest = max(0, count - len(sizes))
    quotas = rest * sizes / max(1, sizes.sum())
    shares = np.floor(quotas).astype(int)
    largest = np.argsort(shares - quotas, kind="stable")[: rest - shares.sum()]
    shares[largest] += 1
    return 1 + shares


def project(values: np.ndarray, is_whitened: bool) -> Tuple[np.ndarray, np.ndarray]:
    """Images' principal components, of numbers float [N, D]: the projected images, float64 [N, P],
    which are not centred, and the components with their scales, float64 [D, P]. If they are
    whitened, the images vary alike along each.
    """
    mean, components = kmeans.principal_components(values, NUM_COMPONENTS)
    if is_whitened:
        components = components * whitening_scales((values - mean).dot(components))
    return values.dot(components), components


def whitening_scales(points: np.ndarray) -> np.ndarray:
    """float64 [P], the factors that give each coordinate of points [N, P] the variance 1, or less.

    One that hardly varies gets less. There, an embedding has mostly noise.
    """
    variances = points.var(axis=0)
    return 1 / np.sqrt(np.maximum(variances + WHITENING_FLOOR * variances.max(), 1e-12))
