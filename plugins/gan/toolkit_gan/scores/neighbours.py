"""Which reals and fakes are neighbours: precision, recall, density, coverage, nearest example.

Legend: n fakes, m reals, F features, k neighbours. Distances are Euclidean, compared as squares, in
float64. They are made block by block, so that memory stays small; no block is kept.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Tuple

import numpy as np

K = 5
ENTRIES = 4 << 20  # of a block of distances: 32 MiB


class Neighbours(NamedTuple):
    """Kynkaanniemi et al. 2019 (precision, recall), Naeem et al. 2020 (density, coverage).

    A ball reaches from an example to its k-th nearest neighbour of the same side.
    """

    precision: float  # share of the fakes within the ball of some real
    recall: float  # share of the reals within the ball of some fake
    density: float  # reals' balls around a fake on average, divided by k
    coverage: float  # share of the reals whose ball has a fake in it


def neighbours(
    fakes: np.ndarray, reals: np.ndarray, k: int = K, real_radii: Optional[np.ndarray] = None
) -> Neighbours:
    """fakes: [n, F]. reals: [m, F]. real_radii: `radii(reals, k)`, where they are kept."""
    real_radii = radii(reals, k) if real_radii is None else real_radii
    fake_radii = radii(fakes, k)
    # Two equal examples are apart by a rounding error; a point on the rim is inside.
    slack = 1e-10 * mean_square(reals)
    precise, inside, recalled, covered = 0, 0, False, False
    for start, block in distances(fakes, reals):  # [b, m]
        near = block <= real_radii + slack
        precise += int(near.any(axis=1).sum())
        inside += int(near.sum())
        covered = near.any(axis=0) | covered
        own = fake_radii[start : start + len(block), None]
        recalled = (block <= own + slack).any(axis=0) | recalled
    n, m = len(fakes), len(reals)
    return Neighbours(
        precise / n, float(np.sum(recalled)) / m, inside / (k * n), float(np.sum(covered)) / m
    )


def radii(features: np.ndarray, k: int = K) -> np.ndarray:
    """float64 [n]: the squared distance to the k-th nearest other example; n is more than k."""
    found = np.empty(len(features))
    for start, block in distances(features, features):
        rows = np.arange(len(block))
        block[rows, start + rows] = -1  # itself comes first, before any twin
        found[start : start + len(block)] = np.partition(block, k, axis=1)[:, k]
    return found


def nearest(fakes: np.ndarray, reals: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """For each fake the position of the nearest real, int64 [n], and how far it is, [n]."""
    index, distance = np.empty(len(fakes), np.int64), np.empty(len(fakes))
    for start, block in distances(fakes, reals):
        chosen = block.argmin(axis=1)
        index[start : start + len(block)] = chosen
        distance[start : start + len(block)] = block[np.arange(len(block)), chosen]
    return index, np.sqrt(distance)


def distances(a: np.ndarray, b: np.ndarray) -> Iterator[Tuple[int, np.ndarray]]:
    """(position in a, squared distances float64 [block, len(b)]), one block after another."""
    b = np.asarray(b, np.float64)
    centre = b.mean(axis=0)  # the squares below lose digits far from zero
    b = b - centre
    squares = np.einsum("ij,ij->i", b, b)
    size = max(1, ENTRIES // len(b))
    for start in range(0, len(a), size):
        rows = np.asarray(a[start : start + size], np.float64) - centre
        block = rows @ (-2 * b.T)
        block += np.einsum("ij,ij->i", rows, rows)[:, None]
        block += squares
        yield start, np.maximum(block, 0, out=block)


def mean_square(features: np.ndarray) -> float:
    """The mean squared distance from the centre."""
    return float(np.var(np.asarray(features, np.float64), axis=0).sum())
