"""The Frechet distance of two sets of features, its floor, its noise and its interval.

Everything is computed in float64.
Legend: n generated images (fakes), m real images (reals), F features.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Union

import numpy as np

from toolkit import statistics

NUM_BLOCKS = 10  # of the jackknife


class Moments(NamedTuple):
    """The statistics of a set that the Frechet distance uses."""

    num_examples: int
    mean: np.ndarray  # float64 [F]
    covariance: np.ndarray  # float64 [F, F], unbiased


FeatureSet = Union[np.ndarray, Moments]


def moments(features: FeatureSet) -> Moments:
    """The moments of features [n, F], n at least 2; moments are returned unchanged."""
    if isinstance(features, Moments):
        return features
    features = np.asarray(features, np.float64)
    mean = features.mean(axis=0)
    centred = features - mean
    return Moments(len(features), mean, centred.T @ centred / (len(features) - 1))


def frechet_distance(a: FeatureSet, b: FeatureSet) -> float:
    """|mean_a - mean_b|^2 + trace(A + B - 2 sqrt(A B)), A and B being the covariances.

    The trace of sqrt(A B) is the sum of the singular values of sqrt(A) sqrt(B). Unlike the square
    root of a product, this takes no root of rounding errors: it is exact for singular A, too.
    """
    a, b = moments(a), moments(b)
    product = matrix_root(a.covariance) @ matrix_root(b.covariance)
    overlap = np.linalg.svd(product, compute_uv=False).sum()
    means = np.sum((a.mean - b.mean) ** 2)
    return float(max(0.0, means + np.trace(a.covariance) + np.trace(b.covariance) - 2 * overlap))


def matrix_root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric square root of a covariance [F, F]."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def frechet_floor(reals: Moments, n: int, m: int) -> float:
    """The expected Frechet distance of two sets of n and m real images, by sampling noise alone. It
    follows from the eigenvalues of the covariance, to second order in 1/n and 1/m.
    """
    values = np.maximum(np.linalg.eigvalsh(reals.covariance), 0)
    sums, products = np.add.outer(values, values), np.multiply.outer(values, values)  # [F, F]
    pairs = np.divide(products, sums, out=np.zeros_like(sums), where=sums > 0)
    total = values.sum()
    off_diagonal = pairs.sum() - total / 2  # on the diagonal, l * l / (l + l) = l / 2
    return float((1 / n + 1 / m) * (total + (off_diagonal + total) / 2))


def frechet_noise(
    fakes: np.ndarray, reals: FeatureSet, classes: Optional[np.ndarray] = None
) -> float:
    """The standard error of the Frechet distance over sets of fakes, float [n, F], by the
    jackknife; reals are float [m, F], or moments. If the fakes were generated for classes, int [n],
    each block has equal parts of all: their numbers are the same in every score, so they add no
    noise.
    """
    if classes is not None:
        fakes = fakes[np.argsort(classes, kind="stable")]
    estimates = leave_out_blocks(fakes, reals)
    return float(np.std(estimates) * (len(estimates) - 1) ** 0.5)


def frechet_interval(value: float, fakes: np.ndarray, reals: np.ndarray) -> statistics.Interval:
    """The 95 % interval of the Frechet distance at these numbers of fakes and reals.

    Its half width is the root of the squares of two parts: the jackknife over blocks of the fakes
    [n, F], and over blocks of the reals [m, F], both in a random order: those of a folder are in
    that of its classes, and samples may have one class after the other. The floor is a part of the
    distance, and so of the interval.
    """
    fakes, reals = (np.random.RandomState(0).permutation(each) for each in (fakes, reals))
    pairs = ((fakes, reals), (reals, fakes))
    ends = [statistics.jackknife(value, leave_out_blocks(*pair)) for pair in pairs]
    half = math.hypot(*(each.high - value for each in ends))
    method = "jackknife over samples, jackknife over real images"
    return statistics.Interval(max(0.0, value - half), value + half, ends[0].level, method)


def leave_out_blocks(features: np.ndarray, others: FeatureSet) -> np.ndarray:
    """The Frechet distances without a block of one of the sets each, float64 [blocks].

    Without a block, the distance is larger by nearly the same bias whichever block it is, and the
    jackknife only uses how the values differ; a bootstrap over images would be shifted, since
    copies of an image make a set smaller. The root of the other covariance is taken once, which
    makes a block several times as fast as `frechet_distance`. Rounding errors of singular
    covariances are nearly equal for all blocks.
    """
    others = moments(others)
    root, trace = matrix_root(others.covariance), np.trace(others.covariance)
    estimates, num_blocks = [], min(NUM_BLOCKS, len(features) // 2)
    for block in range(num_blocks):
        rest = np.delete(features, np.arange(block, len(features), num_blocks), axis=0)
        _, mean, covariance = moments(rest)
        values = np.linalg.eigvalsh(root @ covariance @ root)
        overlap = np.sqrt(np.maximum(values, 0)).sum()
        means = np.sum((mean - others.mean) ** 2)
        estimates.append(means + np.trace(covariance) + trace - 2 * overlap)
    return np.array(estimates)
