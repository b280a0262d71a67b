"""Signs of copied training images: samples beside the training images that are nearest to them.

The distances of samples to training images are compared with those of real images that were not
trained on. They are measured in features and, where there are few training images, in blurred
pixels too: weak features miss copies, and few images are soon remembered.

Matches are what `neighbours.nearest` returns: for each image of a set, the position of the nearest
training image, int [n], and its distance, float64 [n].
Legend: N images, H height, W width, C channels, F features, n samples.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from . import neighbours
from .ruler import CHUNK, blur
from .sets import ReferenceSet, SampleSet, even_positions, real_images

NUM_COMPARED = 1000  # samples whose nearest training image is searched
# Of which the nearest are searched; pixels of more are not compared. Of 60,000 images a third: of
# copies a third is found, too, far more than the share of real images that are as near.
MAX_TRAINING_IMAGES = 20000
PIXEL_SIDE = 16  # of the blurred images, at most
NEAR_SHARE = 0.01  # of the reals: those nearest to the training images
ROWS = 8  # of the sheet, each with two random samples and two of the nearest

Matches = Tuple[np.ndarray, np.ndarray]
Pair = Tuple[int, int]  # the positions of a sample and of its training image


def compare_with_training(
    fakes: SampleSet, reals: ReferenceSet, train: Any, training: np.ndarray
) -> Tuple[Dict[str, Any], List[Pair]]:
    """Compare samples with the training images.

    Args:
        fakes: the samples, with their images.
        reals: real images that were not trained on.
        train: the split of the training images.
        training: features [N, F] of `training_positions(train)`.

    Returns:
        JSON values, see `compare_distances`, with those in "pixels" if they are measured; and the
        pairs of a sheet, see `choose_pairs`; none if these are no images.
    """
    positions = training_positions(train)
    compared = even_positions(len(reals.samples.features), NUM_COMPARED)
    matches = neighbours.nearest(fakes.features[:NUM_COMPARED], training)
    real_matches = neighbours.nearest(reals.samples.features[compared], training)
    details = compare_distances(matches[1], real_matches[1])
    if fakes.images is None or fakes.images.ndim != 4:
        return details, []
    columns = [matches]
    if len(train) <= MAX_TRAINING_IMAGES:
        read = even_positions(len(reals.split), len(reals.samples.features))[compared]
        pixels = [
            blurred_pixels(real_images(train, positions[start : start + CHUNK]))
            for start in range(0, len(positions), CHUNK)
        ]
        columns.append(
            neighbours.nearest(blurred_pixels(fakes.images[:NUM_COMPARED]), np.concatenate(pixels))
        )
        real_pixels = blurred_pixels(real_images(reals.split, read))
        real_matches = neighbours.nearest(real_pixels, np.concatenate(pixels))
        details["pixels"] = compare_distances(columns[1][1], real_matches[1])
    return details, [(row, int(positions[index])) for row, index in choose_pairs(columns)]


def compare_distances(samples: np.ndarray, reals: np.ndarray) -> Dict[str, Any]:
    """Compare the distances of samples to training images with those of other real images.

    Args:
        samples: of the samples, float64 [n].
        reals: of real images that were not trained on, float64 [m].

    Returns:
        "samples" and "reals": the median distances. "ratio": samples / reals; None where half of
        the real images or more are also training images. "near_samples": the share of the samples
        that are as near as the nearest `NEAR_SHARE` of the reals. The median does not show copies
        among fewer than half of the samples; this does. "near_reals": the same share of the reals,
        larger if several are equally near.
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
    """Images after a 3-tap blur, as means of k x k pixels: float32 [N, F].

    k is so that at most `PIXEL_SIDE` means remain a side; a rest is cut off.
    """
    _, height, width, channels = images.shape
    k = min(-(-max(height, width) // PIXEL_SIDE), height, width)
    rows, columns = height // k, width // k
    chunks = []
    for start in range(0, len(images), CHUNK):
        blurred = blur(images[start : start + CHUNK], (1, 2, 1))
        tiles = blurred[:, : rows * k, : columns * k]
        tiles = tiles.reshape(-1, rows, k, columns, k, channels).mean(axis=(2, 4))
        chunks.append(tiles.reshape(len(tiles), -1))
    return np.concatenate(chunks)


def training_positions(train: Any) -> np.ndarray:
    """The positions in the split of the training images that are searched."""
    return even_positions(len(train), MAX_TRAINING_IMAGES)


def choose_pairs(columns: Sequence[Matches]) -> List[Pair]:
    """The pairs of a sheet, row by row: two random samples, then two of the nearest.

    No pair is there twice: what is nearest in features may be so in pixels, too.

    Args:
        columns: the matches in features and, where they are measured, those in pixels; the nearest
            of both are shown.
    """
    first = columns[0][0]
    orders = [
        [(int(row), int(nearest[row])) for row in np.argsort(distance, kind="stable")]
        for nearest, distance in columns
    ]
    half = 2 * min(ROWS, len(first) // 4)
    nearest = list(dict.fromkeys(pair for pairs in zip(*orders) for pair in pairs))[:half]
    random = [pair for pair in enumerate(map(int, first)) if pair not in nearest]
    sheet: List[Pair] = []
    for start in range(0, half, 2):
        sheet += random[start : start + 2] + nearest[start : start + 2]
    return sheet
