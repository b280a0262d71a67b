"""A ruler for the Frechet distance: the distance of real images with known damage.

The images are training images, none of which are in the reference. The mark of the undamaged images
is therefore the floor as measured, and every mark is measured as generated images are.
Legend: N images, H height, W width, C channels, m reference images, F features, K classes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from .distances import FeatureSet, frechet_distance, moments
from .sets import MIN_IMAGES

CHUNK = 1000  # images that are damaged at a time
REAL = "real images"
NUM_REPEATED, FEW_REPEATED = 100, 10
PATCHES = 4  # per side of an image whose patches are shuffled
MAX_CLASSES = 10  # of more classes, so many are left out in turn; their median is the mark
Mark = Dict[str, Any]  # a kind of damage on the ruler, see `measure_marks`
IMAGES_PER_CLASS = 5  # on average: the mean of one image is that image, which is no damage


def damage_features(
    images: np.ndarray,
    labels: Optional[np.ndarray],
    featurize: Callable[[np.ndarray], np.ndarray],
    features: np.ndarray,
    seed: int = 0,
) -> Dict[str, np.ndarray]:
    """The features [N, F] of images, as they are (`REAL`) and by the name of their damage.

    Args:
        images: uint8 [N, H, W, C] or [N, D].
        labels: int [N], or None.
        featurize: maps uint8 images to features.
        features: `featurize(images)`.
        seed: of the random damage.
    """
    random = np.random.default_rng(seed)
    feature_sets = {REAL: features}
    for name, damaged_images in damage_images(images, random):
        feature_sets[name] = featurize(damaged_images)
    for count in (NUM_REPEATED, FEW_REPEATED):
        if len(images) >= 2 * count:
            positions = random.permutation(len(images))[:count]
            repeated = features[np.resize(positions, len(images))]
            feature_sets[f"{count} images repeated"] = repeated
    if labels is not None and can_average_classes(labels):
        means, rows = class_means(images, labels)
        feature_sets["each class's mean image"] = featurize(means)[rows]
    return feature_sets


def measure_marks(
    feature_sets: Mapping[str, np.ndarray], labels: Optional[np.ndarray], reference: FeatureSet
) -> List[Mark]:
    """The marks, in order of their distance: {"name": of the damage, "distance": float}.

    Args:
        feature_sets: of `damage_features`.
        labels: int [N] of the images, or None.
        reference: features [m, F] of other images, or moments.
    """
    reference = moments(reference)
    distances = {name: frechet_distance(f, reference) for name, f in feature_sets.items()}
    if labels is not None:
        distance = missing_class_distance(feature_sets[REAL], labels, reference)
        if distance is not None:
            distances["one class missing"] = distance
    names = sorted(distances, key=distances.__getitem__)
    return [{"name": name, "distance": distances[name]} for name in names]


def damage_images(
    images: np.ndarray, random: np.random.Generator
) -> Iterator[Tuple[str, np.ndarray]]:
    """Yield (name, uint8 [N, H, W, C] or [N, D]) for each kind of damage to pixels or numbers."""
    if images.ndim == 4:  # the numbers of a vector have no neighbours
        yield "a 5-tap blur", apply_in_chunks(lambda part: blur(part, (1, 4, 6, 4, 1)), images)
        yield "shuffled patches", shuffle_patches(images, random)
    mean, deviation = pixel_moments(images)
    yield (
        "Gaussian pixels",
        apply_in_chunks(lambda part: gaussian_pixels(len(part), mean, deviation, random), images),
    )


def apply_in_chunks(damage: Callable[[np.ndarray], np.ndarray], images: np.ndarray) -> np.ndarray:
    """Damage uint8 images chunk by chunk: as floats, all of them would take much memory."""
    result = np.empty_like(images)
    for start in range(0, len(images), CHUNK):
        part = slice(start, start + CHUNK)
        result[part] = np.clip(np.rint(damage(images[part])), 0, 255)
    return result


def blur(images: np.ndarray, taps: Tuple[int, ...]) -> np.ndarray:
    """Blur along the height, then along the width; edges are repeated. float32 [N, H, W, C]."""
    reach = len(taps) // 2
    result: Any = images.astype(np.float32)
    for axis in (1, 2):
        padding = [(reach, reach) if other == axis else (0, 0) for other in range(4)]
        wide, size = np.pad(result, padding, mode="edge"), images.shape[axis]
        shares = (np.take(wide, range(at, at + size), axis=axis) for at in range(len(taps)))
        result = sum(share * np.float32(tap / sum(taps)) for share, tap in zip(shares, taps))
    return result


def gaussian_pixels(
    count: int, mean: np.ndarray, deviation: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Images [count, H, W, C] of independent pixels with their mean and deviation [H, W, C]."""
    return mean + deviation * random.standard_normal((count,) + mean.shape, np.float32)


def shuffle_patches(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Divide each image into `PATCHES` x `PATCHES` patches, and exchange them at random.

    The rows and columns that are left over stay in place.
    """
    count, height, width, channels = images.shape
    rows, columns = height // PATCHES, width // PATCHES
    result = images.copy()
    inner = result[:, : PATCHES * rows, : PATCHES * columns]
    grid = inner.reshape(count, PATCHES, rows, PATCHES, columns, channels).swapaxes(2, 3)
    patches = grid.reshape(count, PATCHES**2, rows, columns, channels)
    order = np.argsort(random.random((count, PATCHES**2)), axis=1)
    grid = patches[np.arange(count)[:, None], order].reshape(grid.shape)
    inner[...] = grid.swapaxes(2, 3).reshape(inner.shape)
    return result


def pixel_moments(images: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each pixel over the images, float64 [H, W, C]."""
    mean = images.mean(axis=0)
    squares = np.zeros(images.shape[1:])
    for start in range(0, len(images), CHUNK):
        squares += ((images[start : start + CHUNK] - mean) ** 2).sum(axis=0)
    return mean, np.sqrt(squares / len(images))


def missing_class_distance(
    features: np.ndarray, labels: np.ndarray, reference: FeatureSet
) -> Optional[float]:
    """The distance without one class: the median over the classes, whose distances differ.

    None if there is no class without which `MIN_IMAGES` images remain.
    """
    classes, counts = np.unique(labels, return_counts=True)
    classes = classes[len(labels) - counts >= MIN_IMAGES]
    if not len(classes):
        return None
    positions = np.linspace(0, len(classes) - 1, min(len(classes), MAX_CLASSES)).astype(int)
    distances = [frechet_distance(features[labels != k], reference) for k in classes[positions]]
    return float(np.median(distances))


def can_average_classes(labels: np.ndarray) -> bool:
    """Whether there are two classes or more, with enough images for their means to be damage."""
    num_classes = len(np.unique(labels))
    return num_classes > 1 and len(labels) >= IMAGES_PER_CLASS * num_classes


def class_means(images: np.ndarray, labels: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """The mean image of each class, uint8 [K, H, W, C], and each example's row there, int [N]."""
    classes, rows = np.unique(labels, return_inverse=True)
    means = [np.rint(images[labels == k].mean(axis=0)) for k in classes]
    return np.stack(means).astype(np.uint8), rows


def locate(distance: float, marks: Iterable[Mark]) -> str:
    """Where a distance is on the ruler, as "between a 5-tap blur and one class missing"."""
    marks = sorted(marks, key=lambda mark: mark["distance"])
    below = [mark["name"] for mark in marks if mark["distance"] <= distance]
    above = [mark["name"] for mark in marks if mark["distance"] > distance]
    if not below:
        return f"nearer than {above[0]}"
    return f"between {below[-1]} and {above[0]}" if above else f"farther than {below[-1]}"
