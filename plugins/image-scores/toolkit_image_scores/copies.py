"""Signs of copied training images: samples beside the training images that are nearest to them.

The distances of samples to training images are compared with those of real images that were not
trained on. They are measured in features and, where there are few training images, in blurred
pixels too: weak features miss copies, and few images are soon remembered.

Legend: N images, H height, W width, C channels, F features, n samples.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np

from . import neighbours
from .damage import CHUNK, blur
from .sets import ImageSet, even_positions

NUM_COMPARED = 1000  # samples whose nearest training image is searched
# Of which the nearest are searched; pixels of more are not compared. Of 60,000 images a third: of
# copies a third is found, too, far more than the share of real images that are as near.
MAX_TRAINING_IMAGES = 20000
PIXEL_SIDE = 16  # of the blurred images, at most
NEAR_SHARE = 0.01  # of the reals: those nearest to the training images
ROWS = 8  # of the sheet, each with two random samples and two of the nearest

# Of each image of a set, the nearest training image, int [n], and its distance, float64 [n].
Matches = Tuple[np.ndarray, np.ndarray]


def compare_with_training(
    fakes: ImageSet, reals: ImageSet, training: ImageSet
) -> Tuple[Dict[str, Any], List[Tuple[int, int]]]:
    """Compare samples with at most `MAX_TRAINING_IMAGES` training images, and with real images that
    were not trained on.

    Returns JSON values, see `compare_distances`, with those in "pixels" if they are measured; and
    the pairs of a sheet, see `choose_pairs`, by pixels if they are measured; none if these are no
    images.
    """
    drawn = slice(NUM_COMPARED)
    compared = even_positions(len(reals), NUM_COMPARED)
    matches = neighbours.nearest(fakes.features[drawn], training.features)
    real_matches = neighbours.nearest(reals.features[compared], training.features)
    details = compare_distances(matches[1], real_matches[1])
    if fakes.source.ndim != 4:
        return details, []
    if len(training.source) <= MAX_TRAINING_IMAGES:
        starts = range(0, len(training), CHUNK)
        parts = (blurred_pixels(training.images(slice(at, at + CHUNK))) for at in starts)
        pixels = np.concatenate(list(parts))
        matches = neighbours.nearest(blurred_pixels(fakes.images(drawn)), pixels)
        real_matches = neighbours.nearest(blurred_pixels(reals.images(compared)), pixels)
        details["pixels"] = compare_distances(matches[1], real_matches[1])
    return details, choose_pairs(matches)


def compare_distances(samples: np.ndarray, reals: np.ndarray) -> Dict[str, Any]:
    """Compare the distances of samples to training images, float64 [n], with those of real images
    that were not trained on, float64 [m].

    "samples" and "reals" are the median distances, "ratio" is samples / reals; None where half of
    the real images or more are also training images. "near_samples" is the share of the samples
    that are as near as the nearest `NEAR_SHARE` of the reals. The median does not show copies among
    fewer than half of the samples; this does. "near_reals" is the same share of the reals, larger
    if several are equally near.
    """
    median, real_median = float(np.median(samples)), float(np.median(reals))
    bound = np.sort(reals)[max(1, round(NEAR_SHARE * len(reals))) - 1]
    return {
        "samples": median,
        "reals": real_median,
        "ratio": median / real_median if real_median else None,
        "near_samples": float(np.mean(samples <= bound)),
        "near_reals": float(np.mean(reals <= bound)),
    }


def blurred_pixels(images: np.ndarray) -> np.ndarray:
    """At most `CHUNK` images after a 3-tap blur, as means of k x k pixels: float32 [N, F].

    k is so that at most `PIXEL_SIDE` means remain a side; a rest is cut off.
    """
    count, height, width, channels = images.shape
    k = min(-(-max(height, width) // PIXEL_SIDE), height, width)
    rows, columns = height // k, width // k
    tiles = blur(images, (1, 2, 1))[:, : rows * k, : columns * k]
    tiles = tiles.reshape(count, rows, k, columns, k, channels)
    return tiles.mean(axis=(2, 4)).reshape(count, -1)


def choose_pairs(matches: Matches) -> List[Tuple[int, int]]:
    """The pairs of a sheet, row by row: two random samples, then two of the nearest; none twice. A
    pair is the row of a sample and that of the training image that matches it.
    """
    positions, distances = matches
    half = 2 * min(ROWS, len(positions) // 4)
    order = np.argsort(distances, kind="stable")
    nearest, random = order[:half], np.sort(order[half:])[:half]
    rows = np.concatenate([random.reshape(-1, 2), nearest.reshape(-1, 2)], axis=1).ravel()
    return [(int(row), int(positions[row])) for row in rows]
