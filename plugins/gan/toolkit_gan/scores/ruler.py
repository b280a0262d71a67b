"""A ruler for the Frechet distance: the distance of real images with known damage.

The images are training images, none of which are in the reference. The mark of the undamaged images
is therefore the floor as measured, and every mark is measured as generated images are.
Legend: N images, H height, W width, C channels, m reference images, F features, K classes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from .distances import FeatureSet, frechet_distance, moments

CHUNK = 1000  # images that are damaged at a time
NUM_REPEATED = 100
MAX_CLASSES = 10  # of more classes, so many are left out in turn; their median is the mark


class Mark(NamedTuple):
    """A kind of damage on the ruler."""

    name: str  # fits into "between ... and ..."
    distance: float


def measure_ruler(
    images: np.ndarray,
    labels: Optional[np.ndarray],
    reference: FeatureSet,
    featurize: Callable[[np.ndarray], np.ndarray],
    features: Optional[np.ndarray] = None,
    seed: int = 0,
) -> List[Mark]:
    """The marks, in order of their distance.

    Args:
        images: uint8 [N, H, W, C].
        labels: int [N], or None.
        reference: features [m, F] of other images, or moments.
        featurize: maps uint8 images to features.
        features: `featurize(images)`, if it is known already.
        seed: of the random damage.
    """
    reference, random = moments(reference), np.random.default_rng(seed)
    features = featurize(images) if features is None else features
    feature_sets = {"real images": features}
    for name, damaged_images in damage_images(images, random):
        feature_sets[name] = featurize(damaged_images)
    if len(images) >= 2 * NUM_REPEATED:
        positions = random.permutation(len(images))[:NUM_REPEATED]
        repeated = features[np.resize(positions, len(images))]
        feature_sets[f"{NUM_REPEATED} images repeated"] = repeated
    marks = [Mark(name, frechet_distance(f, reference)) for name, f in feature_sets.items()]
    if labels is not None and len(np.unique(labels)) > 1:
        distance = missing_class_distance(features, labels, reference)
        marks.append(Mark("one class missing", distance))
        means, rows = class_means(images, labels)
        distance = frechet_distance(featurize(means)[rows], reference)
        marks.append(Mark("each class's mean image", distance))
    return sorted(marks, key=lambda mark: mark.distance)


def damage_images(
    images: np.ndarray, random: np.random.Generator
) -> Iterator[Tuple[str, np.ndarray]]:
    """Yield (name, uint8 [N, H, W, C]) for each kind of damage to pixels."""
    yield "a 3-tap blur", apply_in_chunks(lambda part: blur(part, (1, 2, 1)), images)
    yield "a 5-tap blur", apply_in_chunks(lambda part: blur(part, (1, 4, 6, 4, 1)), images)
    yield "a shift by one pixel", shift(images)
    yield "noise of sigma 0.1", apply_in_chunks(lambda part: add_noise(part, 0.1, random), images)
    yield "noise of sigma 0.3", apply_in_chunks(lambda part: add_noise(part, 0.3, random), images)
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


def shift(images: np.ndarray) -> np.ndarray:
    """Shift by one pixel to the right; the left edge is repeated."""
    return np.concatenate([images[:, :, :1], images[:, :, :-1]], axis=2)


def add_noise(images: np.ndarray, sigma: float, random: np.random.Generator) -> np.ndarray:
    """Add Gaussian noise; sigma is for pixels in [0, 1]."""
    return images + 255 * sigma * random.standard_normal(images.shape, np.float32)


def gaussian_pixels(
    count: int, mean: np.ndarray, deviation: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Images [count, H, W, C] of independent pixels with their mean and deviation [H, W, C]."""
    return mean + deviation * random.standard_normal((count,) + mean.shape, np.float32)


def pixel_moments(images: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each pixel over the images, float64 [H, W, C]."""
    mean = images.mean(axis=0)
    squares = np.zeros(images.shape[1:])
    for start in range(0, len(images), CHUNK):
        squares += ((images[start : start + CHUNK] - mean) ** 2).sum(axis=0)
    return mean, np.sqrt(squares / len(images))


def missing_class_distance(
    features: np.ndarray, labels: np.ndarray, reference: FeatureSet
) -> float:
    """The distance without one class: the median over the classes, whose distances differ."""
    classes = np.unique(labels)
    positions = np.linspace(0, len(classes) - 1, min(len(classes), MAX_CLASSES)).astype(int)
    distances = [frechet_distance(features[labels != k], reference) for k in classes[positions]]
    return float(np.median(distances))


def class_means(images: np.ndarray, labels: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """The mean image of each class, uint8 [K, H, W, C], and each example's row there, int [N]."""
    classes, rows = np.unique(labels, return_inverse=True)
    means = [np.rint(images[labels == k].mean(axis=0)) for k in classes]
    return np.stack(means).astype(np.uint8), rows


def locate(distance: float, marks: Iterable[Mark]) -> str:
    """Where a distance is on the ruler, as "between a 5-tap blur and one class missing"."""
    marks = sorted(marks, key=lambda mark: mark.distance)
    below = [mark for mark in marks if mark.distance <= distance]
    above = [mark for mark in marks if mark.distance > distance]
    if not below:
        return f"nearer than {above[0].name}"
    if not above:
        return f"farther than {below[-1].name}"
    return f"between {below[-1].name} and {above[0].name}"


def to_json(marks: Iterable[Mark]) -> List[Dict[str, Any]]:
    """The marks as JSON values."""
    return [dict(mark._asdict()) for mark in marks]


def from_json(values: Iterable[Dict[str, Any]]) -> List[Mark]:
    """The marks from `to_json`."""
    return [Mark(str(value["name"]), float(value["distance"])) for value in values]
