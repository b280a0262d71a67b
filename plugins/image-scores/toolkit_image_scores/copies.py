"""Signs of copied training images: samples beside the training images that are nearest to them.

The distances of samples to training images are compared with those of real images that were not
trained on: over all samples, and per class, where copies of a single class show. They are measured
in features and, where there are few training images, in blurred pixels too: weak features miss
copies, and few images are soon remembered.

Matches are what `neighbours.nearest` returns: for each image of a set, the position of the nearest
training image, int [n], and its distance, float64 [n].
Legend: N images, H height, W width, C channels, F features, n samples.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from . import neighbours
from .ruler import CHUNK, blur
from .sets import ReferenceSet, SampleSet, classes_of, even_positions, real_images

NUM_COMPARED = 1000  # samples whose nearest training image is searched
MAX_TRAINING_IMAGES = 60000  # of which the nearest are searched
MAX_PIXEL_IMAGES = 20000  # the pixels of more training images are not compared
PIXEL_SIDE = 16  # of the blurred images, at most
MIN_OF_CLASS = 10  # samples and real images; the ratio of a class with fewer is not measured
NEAR_SHARE = 0.01  # of the reals: those nearest to the training images
ROWS = 8  # of the sheet, each with two random samples and two of the nearest

Matches = Tuple[np.ndarray, np.ndarray]
Pair = Tuple[int, int]  # the positions of a sample and of its training image


def compare_with_training(
    fakes: SampleSet, reals: ReferenceSet, train: Any, training: np.ndarray, names: Sequence[str]
) -> Tuple[Dict[str, Any], List[Pair]]:
    """Compare samples with the training images.

    Args:
        fakes: the samples, with their images.
        reals: real images that were not trained on.
        train: the split of the training images.
        training: features [N, F] of `training_positions(train)`.
        names: of the classes.

    Returns:
        JSON values, see `compare_distances`, with those in "pixels" if they are measured; and the
        pairs of a sheet, see `choose_pairs`; none if these are no images.
    """
    positions = training_positions(train)
    labels = classes_of(train, positions)
    compared = even_positions(len(reals.samples.features), NUM_COMPARED)
    matches = neighbours.nearest(fakes.features[:NUM_COMPARED], training)
    real_matches = neighbours.nearest(reals.samples.features[compared], training)
    details = compare_distances(matches, real_matches, labels, names)
    if fakes.images is None or fakes.images.ndim != 4:
        return details, []
    columns = [matches]
    if len(positions) <= MAX_PIXEL_IMAGES:
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
        details["pixels"] = compare_distances(columns[1], real_matches, labels, names)
    return details, [(row, int(positions[index])) for row, index in choose_pairs(columns)]


def compare_distances(
    samples: Matches, reals: Matches, labels: Optional[np.ndarray], names: Sequence[str]
) -> Dict[str, Any]:
    """Compare the distances of samples to training images with those of other real images.

    Args:
        samples: matches of the samples.
        reals: matches of real images that were not trained on.
        labels: int [N], classes of the training images, or None.
        names: of the classes.

    Returns:
        "samples" and "reals": the median distances. "ratio": samples / reals; None where half of
        the real images or more are also training images. "near_samples": the share of the samples
        that are as near as the nearest `NEAR_SHARE` of the reals. The median does not show copies
        among fewer than half of the samples; this does. "near_reals": the same share of the reals,
        larger if several are equally near. "classes": the name of a class -> its ratio.
    """
    distances, real_distances = samples[1], reals[1]
    median, real_median = float(np.median(distances)), float(np.median(real_distances))
    bound = np.sort(real_distances)[max(1, round(NEAR_SHARE * len(real_distances))) - 1]
    return {
        "samples": median,
        "reals": real_median,
        "ratio": median / real_median if real_median else None,
        "near_samples": float(np.mean(distances <= bound)),
        "near_reals": float(np.mean(real_distances <= bound)),
        "classes": {} if labels is None else class_ratios(samples, reals, labels, names),
    }


def class_ratios(
    samples: Matches, reals: Matches, labels: np.ndarray, names: Sequence[str]
) -> Dict[str, float]:
    """The ratio of the median distances of samples and real images, per class.

    The class of an image is that of its nearest training image, for both sets alike: no classifier
    is needed. Classes with fewer than `MIN_OF_CLASS` samples or real images, or whose real images
    are mostly training images too, are left out.
    """
    ratios: Dict[str, float] = {}
    for label in np.unique(labels):
        of_samples, of_reals = (
            distance[labels[nearest] == label] for nearest, distance in (samples, reals)
        )
        if min(len(of_samples), len(of_reals)) >= MIN_OF_CLASS and np.median(of_reals) > 0:
            name = str(names[label]) if label < len(names) else str(label)
            ratios[name] = float(np.median(of_samples) / np.median(of_reals))
    return ratios


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
