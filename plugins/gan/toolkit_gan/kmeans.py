"""Principal components and k-means, with numpy and scipy.

Legend: N points, D values of a point, P components, K clusters.
"""

from __future__ import annotations

import warnings
from typing import Tuple

import numpy as np

MAX_SQUARE = 1500  # of more values, the components follow from the rows' products, which are fewer
MAX_ROWS = 1500  # rows that are then used
NUM_ROUNDS = 50  # of Lloyd's algorithm


def principal_components(points: np.ndarray, count: int) -> Tuple[np.ndarray, np.ndarray]:
    """The directions in which points, float32 [N, D], vary most: the mean, float64 [D], and the
    components, float64 [D, P], orthonormal and in the order of the variance along them. Components
    beyond the rank of the points are zero.
    """
    mean = points.mean(axis=0, dtype=np.float64)
    size = points.shape[1]
    if size > MAX_SQUARE:
        step = -(-len(points) // MAX_ROWS)
        rows = points[::step] - mean
        variances, vectors = np.linalg.eigh(rows.dot(rows.T))
        vectors = rows.T.dot(vectors) / np.sqrt(np.maximum(variances, 1e-12))
    else:
        centred = (points - mean).astype(points.dtype)
        variances, vectors = np.linalg.eigh(centred.T.dot(centred).astype(np.float64))
    order = np.argsort(-variances, kind="stable")[:count]
    is_real = variances[order] > 1e-9 * max(float(variances.max()), 1e-12)
    components = np.zeros((size, count))
    components[:, : len(order)] = vectors[:, order] * is_real * _signs(vectors[:, order])
    return mean, components


def _signs(vectors: np.ndarray) -> np.ndarray:
    """Signs with which the largest entry of each column is positive: an eigenvector has either."""
    largest = np.abs(vectors).argmax(axis=0)
    return np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def find_centroids(points: np.ndarray, count: int, random: np.random.RandomState) -> np.ndarray:
    """The centroids of k-means of points float64 [N, P], float64 [at most K, P]: Lloyd's algorithm
    (1982) from the start of k-means++ (2007), which `random` draws.

    They are in the order of their first coordinate. There are fewer than K where the points have
    fewer different values, or where a cluster becomes empty.
    """
    from scipy.cluster import vq

    start = _spread_start(points, count, random)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One of the clusters is empty")
        centroids, labels = vq.kmeans2(points, start, NUM_ROUNDS, minit="matrix")
    centroids = centroids[np.bincount(labels, minlength=len(centroids)) > 0]
    return centroids[np.lexsort(centroids.T[::-1])]


def assign(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """The nearest centroid of each point, int64 [N]."""
    squares = np.square(centroids).sum(axis=1) - 2 * points.dot(centroids.T)  # [N, K]
    return squares.argmin(axis=1)


def _spread_start(points, count, random) -> np.ndarray:
    """Points as centroids, each drawn with the square of its distance to those before it.

    That of scipy computes all distances again for each centroid, which takes ten times as long for
    a hundred of them, and divides by zero where fewer points differ than there are centroids.
    """
    centroids = [points[random.randint(len(points))]]
    distances = np.full(len(points), np.inf)
    while len(centroids) < count:
        distances = np.minimum(distances, np.square(points - centroids[-1]).sum(axis=1))
        total = distances.sum()
        if not total > 0:  # each point is a centroid
            break
        centroids.append(points[random.choice(len(points), p=distances / total)])
    return np.array(centroids, np.float64)
