"""Distances between two sets of features: Frechet with its floor and noise, and kernel distance.

Everything is computed in float64.
Legend: n generated images (fakes), m real images (reals), F features.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from toolkit import statistics

NUM_BLOCKS = 10  # of the jackknife
NUM_SUBSETS = 10  # from which the kernel distance and its standard error are computed
MIN_DEVIATION = 0.01  # as a part of the largest standard deviation of a feature


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
    trace = np.linalg.svd(
        matrix_root(a.covariance) @ matrix_root(b.covariance), compute_uv=False
    ).sum()
    means = np.sum((a.mean - b.mean) ** 2)
    return float(max(0.0, means + np.trace(a.covariance) + np.trace(b.covariance) - 2 * trace))


def matrix_root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric square root of a covariance [F, F]."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def frechet_floor(reals: FeatureSet, n: int, m: int) -> float:
    """The expected Frechet distance of two sets of real images, by sampling noise alone.

    It follows from the eigenvalues of the covariance, to second order in 1/n and 1/m.

    Args:
        reals: real images, whose covariance is used.
        n: size of one set.
        m: size of the other set.
    """
    values = np.maximum(np.linalg.eigvalsh(moments(reals).covariance), 0)
    total = values.sum()
    sums = values[:, None] + values[None, :]  # [F, F]
    products = values[:, None] * values[None, :]
    pairs = np.divide(products, sums, out=np.zeros_like(sums), where=sums > 0)
    off_diagonal = pairs.sum() - total / 2  # on the diagonal, l * l / (l + l) = l / 2
    return float((1 / n + 1 / m) * (total + (off_diagonal + total) / 2))


def bootstrap_noise(
    fakes: np.ndarray,
    reals: FeatureSet,
    seed: int = 0,
    num_rounds: int = 8,
    groups: Optional[np.ndarray] = None,
) -> float:
    """The standard deviation of the Frechet distance, estimated by resampling the fakes.

    Args:
        fakes: float [n, F].
        reals: float [m, F], or moments.
        seed: of the resampling.
        num_rounds: how often the fakes are resampled.
        groups: int [n], the classes for which the fakes were generated, or None. Each class is
            then resampled by itself: its size is the same in every score, so it adds no noise.
    """
    reals, random = moments(reals), np.random.default_rng(seed)
    distances = [
        frechet_distance(fakes[resample(len(fakes), groups, random)], reals)
        for _ in range(num_rounds)
    ]
    return float(np.std(distances, ddof=1))


def resample(count: int, groups: Optional[np.ndarray], random: np.random.Generator) -> np.ndarray:
    """int [count]: positions drawn with replacement; if there are groups, within each of them."""
    if groups is None:
        return random.integers(0, count, count)
    positions = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    return np.concatenate([random.choice(part, len(part)) for part in positions])


def frechet_interval(
    distances: Sequence[float], fakes: np.ndarray, reals: np.ndarray
) -> statistics.Interval:
    """The 95 % interval of the Frechet distance at these numbers of fakes and reals.

    Its half width is the root of the squares of two parts. The fakes: Student's t over several sets
    of them, or the jackknife over blocks of one set. The reals: the jackknife. Without a block,
    the distance is larger by nearly the same bias whichever block it is, and the jackknife only
    uses how the values differ; a bootstrap over images would be shifted, since copies of an image
    make a set smaller. The floor is a part of the distance, and so of the interval.

    Args:
        distances: of each set of fakes.
        fakes: float [n, F], the first set.
        reals: float [m, F].
    """
    value = float(np.mean(distances))
    if len(distances) > 1:
        fakes_part, source = statistics.t_interval(distances), "several sets of samples"
    else:
        fakes_part, source = jackknife_blocks(value, fakes, reals), "jackknife over samples"
    reals_part = jackknife_blocks(value, reals, fakes)
    half = math.hypot(fakes_part.high - value, reals_part.high - value)
    method = f"{source}, jackknife over real images"
    return statistics.Interval(max(0.0, value - half), value + half, fakes_part.level, method)


def jackknife_blocks(value: float, features: np.ndarray, others: FeatureSet) -> statistics.Interval:
    """The jackknife interval of a Frechet distance over blocks of one of the sets.

    The root of the other covariance is taken once, which makes a block several times as fast as
    `frechet_distance`. Rounding errors of singular covariances are nearly equal for all blocks.
    """
    others = moments(others)
    root, trace = matrix_root(others.covariance), np.trace(others.covariance)
    estimates, num_blocks = [], min(NUM_BLOCKS, len(features) // 2)
    for block in range(num_blocks):
        rest = np.delete(features, np.arange(block, len(features), num_blocks), axis=0)
        _, mean, covariance = moments(rest)
        values = np.linalg.eigvalsh(root @ covariance @ root)
        means = np.sum((mean - others.mean) ** 2)
        overlap = np.sqrt(np.maximum(values, 0)).sum()
        estimates.append(float(means + np.trace(covariance) + trace - 2 * overlap))
    return statistics.jackknife(value, np.array(estimates))


def kernel_distance(
    fakes: np.ndarray, reals: np.ndarray, seed: int = 0, num_subsets: int = NUM_SUBSETS
) -> Tuple[float, float]:
    """The unbiased squared MMD of the kernel (x . y / F + 1)^3, and its standard error.

    Kernel and estimate are those of the KID (Binkowski et al. 2018, Demystifying MMD GANs), but the
    features are standardised first, so that no feature's unit matters: it is no KID, and has other
    values.

    Each set is divided into disjoint subsets, whose distances are therefore independent: their
    standard deviation gives an unbiased error.

    Args:
        fakes: float [n, F], n at least 4; standardised by the reals.
        reals: float [m, F], m at least 4.
        seed: of the division.
        num_subsets: limited so that a subset has 2 examples or more.
    """
    num_subsets = min(num_subsets, len(fakes) // 2, len(reals) // 2)
    fakes, reals = standardise(fakes, reals), standardise(reals, reals)
    random = np.random.default_rng(seed)
    distances = [
        squared_mmd(fakes[fake_positions], reals[real_positions])
        for fake_positions, real_positions in zip(
            np.array_split(random.permutation(len(fakes)), num_subsets),
            np.array_split(random.permutation(len(reals)), num_subsets),
        )
    ]
    return float(np.mean(distances)), float(np.std(distances, ddof=1) / np.sqrt(num_subsets))


def standardise(features: np.ndarray, reals: np.ndarray) -> np.ndarray:
    """Scale features [n, F] so that the reals have mean 0 and standard deviation 1; float64.

    A feature that hardly varies is scaled less, as if it had `MIN_DEVIATION` of the largest
    standard deviation: otherwise its last digits would dominate.
    """
    reals = np.asarray(reals, np.float64)
    deviation = reals.std(axis=0)
    minimum = MIN_DEVIATION * deviation.max()
    deviation = np.maximum(deviation, minimum if minimum > 0 else 1)
    return (np.asarray(features, np.float64) - reals.mean(axis=0)) / deviation


def squared_mmd(fakes: np.ndarray, reals: np.ndarray) -> float:
    """The unbiased squared MMD: no example is compared with itself."""
    within = mean_pair_kernel(fakes) + mean_pair_kernel(reals)
    return within - 2 * float(kernel(fakes, reals).mean())


def mean_pair_kernel(features: np.ndarray) -> float:
    """The mean of the kernel over pairs of two different examples."""
    values, count = kernel(features, features), len(features)
    return float((values.sum() - np.trace(values)) / (count * (count - 1)))


def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The kernel of each pair, [len(a), len(b)]."""
    return (a @ b.T / a.shape[1] + 1) ** 3
