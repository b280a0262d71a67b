"""Distances between two clouds of features: Frechet with its floor and noise, and kernel distance.

Legend: n fakes, m reals, F features. Everything is computed in float64.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple, Union

import numpy as np

SUBSETS = 10  # that the kernel distance and its standard error come from
LEAST_SPREAD = 0.01  # of the widest feature's


class Moments(NamedTuple):
    """What the Frechet distance sees of a cloud. covariance: unbiased, float64 [F, F]."""

    count: int
    mean: np.ndarray  # float64 [F]
    covariance: np.ndarray


Cloud = Union[np.ndarray, Moments]


def moments(features: Cloud) -> Moments:
    """features: [n, F] with n at least 2, or moments, which are handed back."""
    if isinstance(features, Moments):
        return features
    features = np.asarray(features, np.float64)
    mean = features.mean(axis=0)
    centred = features - mean
    return Moments(len(features), mean, centred.T @ centred / (len(features) - 1))


def frechet_distance(a: Cloud, b: Cloud) -> float:
    """|mean_a - mean_b|^2 + trace(A + B - 2 sqrt(A B)), A and B being the covariances.

    The trace of sqrt(A B) is the sum of the singular values of sqrt(A) sqrt(B). Unlike the square
    root of a product it needs no root of rounding errors, so that it is exact for singular A, too.
    """
    a, b = moments(a), moments(b)
    shared = np.linalg.svd(root(a.covariance) @ root(b.covariance), compute_uv=False).sum()
    apart = np.sum((a.mean - b.mean) ** 2)
    return float(max(0.0, apart + np.trace(a.covariance) + np.trace(b.covariance) - 2 * shared))


def root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric square root of a covariance [F, F]."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def frechet_floor(reals: Cloud, n: int, m: int) -> float:
    """What the distance of n from m examples comes to on average though both are real.

    From the eigenvalues of the reals' covariance, to the second order in 1/n and 1/m.
    """
    values = np.maximum(np.linalg.eigvalsh(moments(reals).covariance), 0)
    total = values.sum()
    sums = values[:, None] + values[None, :]  # [F, F]
    products = values[:, None] * values[None, :]
    pairs = np.divide(products, sums, out=np.zeros_like(sums), where=sums > 0)
    off_diagonal = pairs.sum() - total / 2  # the diagonal is l * l / (l + l)
    return float((1 / n + 1 / m) * (total + (off_diagonal + total) / 2))


def bootstrap_noise(
    fakes: np.ndarray, reals: Cloud, seed: int = 0, rounds: int = 8, groups=None
) -> float:
    """The standard deviation of the Frechet distance over fakes [n, F] that are drawn again.

    groups: int [n], the classes that the fakes were asked for. Each is then drawn again by itself:
    how many there are of each does not change from one score to the next, so it is no noise.
    """
    reals, draws = moments(reals), np.random.default_rng(seed)
    distances = [
        frechet_distance(fakes[drawn_again(len(fakes), groups, draws)], reals)
        for _ in range(rounds)
    ]
    return float(np.std(distances, ddof=1))


def drawn_again(count: int, groups, draws) -> np.ndarray:
    """int [count]: places drawn with replacement, within each group where there are groups."""
    if groups is None:
        return draws.integers(0, count, count)
    places = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    return np.concatenate([draws.choice(some, len(some)) for some in places])


def kernel_distance(
    fakes: np.ndarray, reals: np.ndarray, seed: int = 0, subsets: int = SUBSETS
) -> Tuple[float, float]:
    """The unbiased squared MMD of the kernel (x . y / F + 1)^3, and its standard error.

    fakes [n, F] and reals [m, F] are standardised by the reals. Each side is dealt out to
    `subsets` parts; no example is in two parts, so that the parts' distances are independent and
    their spread gives an honest error. Both sides need 4 examples or more.
    """
    subsets = min(subsets, len(fakes) // 2, len(reals) // 2)
    fakes, reals = standardised(fakes, reals), standardised(reals, reals)
    draws = np.random.default_rng(seed)
    parts = [
        squared_mmd(fakes[chosen], reals[others])
        for chosen, others in zip(
            np.array_split(draws.permutation(len(fakes)), subsets),
            np.array_split(draws.permutation(len(reals)), subsets),
        )
    ]
    return float(np.mean(parts)), float(np.std(parts, ddof=1) / np.sqrt(subsets))


def standardised(features: np.ndarray, reals: np.ndarray) -> np.ndarray:
    """float64 [n, F] with the reals' mean 0 and standard deviation 1.

    A feature that hardly varies counts as one of `LEAST_SPREAD` of the widest: its last digits
    would otherwise be all that is seen.
    """
    reals = np.asarray(reals, np.float64)
    spread = reals.std(axis=0)
    least = LEAST_SPREAD * spread.max()
    spread = np.maximum(spread, least if least > 0 else 1)
    return (np.asarray(features, np.float64) - reals.mean(axis=0)) / spread


def squared_mmd(fakes: np.ndarray, reals: np.ndarray) -> float:
    """Unbiased: no example is compared with itself."""
    return mean_of_others(fakes) + mean_of_others(reals) - 2 * float(kernel(fakes, reals).mean())


def mean_of_others(features: np.ndarray) -> float:
    """The mean of the kernel over pairs of two different examples."""
    values, count = kernel(features, features), len(features)
    return float((values.sum() - np.trace(values)) / (count * (count - 1)))


def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a @ b.T / a.shape[1] + 1) ** 3
