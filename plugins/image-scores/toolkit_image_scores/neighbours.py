"""Scores from nearest neighbours: precision, recall, coverage, and who is nearest.

Distances are Euclidean, compared as squares, in float64. They are computed block by block, so that
they need little memory.
Legend: n generated images (fakes), m real images (reals), F features, k neighbours.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Tuple

import numpy as np

K = 5
BLOCK_SIZE = 4 << 20  # distances in a block: 32 MiB
ROUNDING = 1e-10  # squared distances below this part of the mean square are rounding errors


class Neighbours(NamedTuple):
    """Kynkaanniemi et al. 2019 (precision, recall), Naeem et al. 2020 (coverage).

    The ball of an example reaches to its k-th nearest neighbour in the same set.
    """

    precision: float  # share of the fakes within the ball of a real
    recall: float  # share of the reals within the ball of a fake
    coverage: float  # share of the reals whose ball contains a fake


def compare(
    fakes: np.ndarray, reals: np.ndarray, k: int = K, real_radii: Optional[np.ndarray] = None
) -> Neighbours:
    """Compute the three scores of fakes float [n, F] and reals float [m, F] with balls of k
    neighbours. The radii of the reals are computed if they are not known already.
    """
    # The distance of equal examples is a rounding error; a point on the rim is inside.
    slack = rounding_error(reals)
    real_radii = (radii(reals, k) if real_radii is None else real_radii) + slack
    fake_radii = radii(fakes, k)[:, None] + slack
    num_precise, is_recalled, is_covered = 0, np.zeros(len(reals), bool), np.zeros(len(reals), bool)
    for start, block in distances(fakes, reals):  # [b, m]
        is_near = block <= real_radii
        num_precise += int(is_near.any(axis=1).sum())
        is_covered |= is_near.any(axis=0)
        is_recalled |= (block <= fake_radii[start : start + len(block)]).any(axis=0)
    return Neighbours(num_precise / len(fakes), float(is_recalled.mean()), float(is_covered.mean()))


def radii(features: np.ndarray, k: int = K) -> np.ndarray:
    """float64 [n]: the squared distance to the k-th nearest other example; n is more than k."""
    squares = np.empty(len(features))
    for start, block in distances(features, features):
        rows = np.arange(len(block))
        block[rows, start + rows] = -1  # the example itself comes first, before any equal one
        squares[start : start + len(block)] = np.partition(block, k, axis=1)[:, k]
    return squares


def nearest(fakes: np.ndarray, reals: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """For each fake, the position of the nearest real, int64 [n], and its distance, float64 [n].

    The distance of equal examples is 0, also where rounding would make it a little more.
    """
    blocks = [(block.argmin(axis=1), block.min(axis=1)) for _, block in distances(fakes, reals)]
    index, squares = map(np.concatenate, zip(*blocks))
    return index, np.sqrt(np.where(squares <= rounding_error(reals), 0, squares))


def distances(a: np.ndarray, b: np.ndarray) -> Iterator[Tuple[int, np.ndarray]]:
    """Yield (position in a, squared distances float64 [block, len(b)]), block by block."""
    b = np.asarray(b, np.float64)
    centre = b.mean(axis=0)  # the squares below would lose digits far from zero
    b = b - centre
    squares = np.einsum("ij,ij->i", b, b)
    size = max(1, BLOCK_SIZE // len(b))
    for start in range(0, len(a), size):
        rows = np.asarray(a[start : start + size], np.float64) - centre
        block = rows @ (-2 * b.T)
        block += np.einsum("ij,ij->i", rows, rows)[:, None]
        block += squares
        yield start, np.maximum(block, 0, out=block)


def rounding_error(features: np.ndarray) -> float:
    """The largest error of a squared distance: a small part of the mean square from the centre."""
    return ROUNDING * float(np.var(np.asarray(features, np.float64), axis=0).sum())
