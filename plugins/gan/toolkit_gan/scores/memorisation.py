"""Signs of copied training images: samples beside the training images that are nearest to them.

The distances of samples to training images are compared with those of real images that were not
trained on: over all samples, and per class, where copies of a single class show. They are measured
in features and, where there are few training images, in blurred pixels too: weak features miss
copies, and few images are soon remembered.

Legend: N images, H height, W width, C channels, F features, n samples.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import neighbours, reports
from .ruler import CHUNK, blur
from .sample_sets import ReferenceSet, SampleSet, classes_of, even_positions, real_images

NUM_COMPARED = 1000  # samples whose nearest training image is searched
MAX_TRAINING_IMAGES = 60000  # of which the nearest are searched
MAX_PIXEL_IMAGES = 20000  # the pixels of more training images are not compared
PIXEL_SIDE = 16  # of the blurred images, at most
MIN_OF_CLASS = 10  # samples and real images; the ratio of a class with fewer is not measured
ROWS = 8  # of nearest.png, each with two random samples and two of the nearest


class Matches(NamedTuple):
    """The nearest training image of each image of a set.

    Attributes:
        nearest: int [n], the position of the nearest among the training images.
        distance: float64 [n].
    """

    nearest: np.ndarray
    distance: np.ndarray


class Comparison(NamedTuple):
    """The distances of samples and of real images to training images, in one kind of features."""

    samples: Matches
    reals: Matches

    def as_json(self, labels: Optional[np.ndarray], names: Sequence[str]) -> Dict[str, Any]:
        """`neighbours.TrainingDistances`, and the ratios of the classes if there are any.

        Args:
            labels: int [N], classes of the training images, or None.
            names: of the classes.
        """
        distances = neighbours.compare_distances(self.samples.distance, self.reals.distance)
        ratios = {} if labels is None else class_ratios(self, labels, names)
        return dict(distances._asdict(), classes=ratios)


def compare(samples: np.ndarray, reals: np.ndarray, training: np.ndarray) -> Comparison:
    """Search the nearest training image of each sample and of each real image: float [N, F]."""
    sample_matches = Matches(*neighbours.nearest(samples, training))
    return Comparison(sample_matches, Matches(*neighbours.nearest(reals, training)))


def class_ratios(
    comparison: Comparison, labels: np.ndarray, names: Sequence[str]
) -> Dict[str, float]:
    """The ratio of the median distances of samples and real images, per class.

    The class of an image is that of its nearest training image, for both sets alike: no classifier
    is needed. Classes with fewer than `MIN_OF_CLASS` samples or real images, or whose real images
    are mostly training images too, are left out.
    """
    ratios: Dict[str, float] = {}
    for label in np.unique(labels):
        samples, reals = (
            matches.distance[labels[matches.nearest] == label] for matches in comparison
        )
        if min(len(samples), len(reals)) >= MIN_OF_CLASS and np.median(reals) > 0:
            name = str(names[label]) if label < len(names) else str(label)
            ratios[name] = float(np.median(samples) / np.median(reals))
    return ratios


def blurred_pixels(images: np.ndarray) -> np.ndarray:
    """Images after a 3-tap blur, with at most PIXEL_SIDE means a side: float32 [N, F]."""
    starts = range(0, len(images), CHUNK)
    chunks = [blur(images[start : start + CHUNK], (1, 2, 1)) for start in starts]
    return np.concatenate([shrink(chunk).reshape(len(chunk), -1) for chunk in chunks])


def shrink(images: np.ndarray) -> np.ndarray:
    """Means of k x k pixels, k so that at most PIXEL_SIDE remain a side; a rest is cut off."""
    count, height, width, channels = images.shape
    k = -(-max(height, width) // PIXEL_SIDE)
    k = min(k, height, width)
    rows, columns = height // k, width // k
    tiles = images[:, : rows * k, : columns * k].reshape(count, rows, k, columns, k, channels)
    return tiles.mean(axis=(2, 4))


def compare_with_training(
    fakes: SampleSet,
    reals: ReferenceSet,
    train: Any,
    training: np.ndarray,
    names: Sequence[str],
    folder: str,
) -> Tuple[Dict[str, Any], List[str]]:
    """Compare samples with the training images, and draw those that are nearest.

    Args:
        fakes: the samples, with their images.
        reals: real images that were not trained on.
        train: the split of the training images.
        training: features [N, F] of `training_positions(train)`.
        names: of the classes.
        folder: for the sheet.

    Returns:
        JSON values, and the names of the written files.
    """
    positions = training_positions(train)
    labels = classes_of(train, positions)
    # Evenly spaced: a folder of images is read class after class.
    compared = even_positions(len(reals.samples.features), NUM_COMPARED)
    samples = fakes.features[:NUM_COMPARED]
    comparison = compare(samples, reals.samples.features[compared], training)
    details = comparison.as_json(labels, names)
    if fakes.images is None or fakes.images.ndim != 4:
        return details, []
    images, columns = fakes.images[: len(samples)], [comparison.samples]
    if len(positions) <= MAX_PIXEL_IMAGES:
        pixels = compare_pixels(images, reals, train, positions, compared)
        details["pixels"] = pixels.as_json(labels, names)
        columns.append(pixels.samples)
    sheet = choose_pairs(columns)
    nearest_images = real_images(train, positions[[index for _, index in sheet]])
    files = reports.draw_nearest(images[[row for row, _ in sheet]], nearest_images, folder)
    return details, files


def compare_pixels(
    images: np.ndarray, reals: ReferenceSet, train: Any, positions: np.ndarray, part: np.ndarray
) -> Comparison:
    """Compare blurred pixels of samples, of a part of the real images, and of training images."""
    read = even_positions(len(reals.split), len(reals.samples.features))[part]
    training = [
        blurred_pixels(real_images(train, positions[start : start + CHUNK]))
        for start in range(0, len(positions), CHUNK)
    ]
    real_pixels = blurred_pixels(real_images(reals.split, read))
    return compare(blurred_pixels(images), real_pixels, np.concatenate(training))


def training_positions(train: Any) -> np.ndarray:
    """The positions in the split of the training images that are searched."""
    return even_positions(len(train), MAX_TRAINING_IMAGES)


def choose_pairs(columns: Sequence[Matches]) -> List[Tuple[int, int]]:
    """The pairs of a sheet, row by row: two random samples, then two of the nearest.

    No pair is there twice: what is nearest in features may be so in pixels, too.

    Args:
        columns: the matches in features and, where they are measured, those in pixels; the nearest
            of both are shown.

    Returns:
        Pairs of the position of a sample and that of its training image.
    """
    first = columns[0].nearest
    orders = [_nearest_first(matches) for matches in columns]
    half = 2 * min(ROWS, len(first) // 4)
    nearest = list(dict.fromkeys(pair for pairs in zip(*orders) for pair in pairs))[:half]
    random = [(row, int(first[row])) for row in range(len(first))]
    random = [pair for pair in random if pair not in nearest]
    sheet: List[Tuple[int, int]] = []
    for start in range(0, half, 2):
        sheet += random[start : start + 2] + nearest[start : start + 2]
    return sheet


def _nearest_first(matches: Matches) -> List[Tuple[int, int]]:
    """The pairs of a sample and its training image, the nearest first."""
    order = np.argsort(matches.distance, kind="stable")
    return [(int(row), int(matches.nearest[row])) for row in order]
