"""A ruler for the Frechet distance: how far known damage takes real images.

Legend: N images, H height, W width, C channels, m reference images, F features. `images` are real
training images, which the reference has none of. So the mark of the undamaged images is the floor
as measured, and every mark comes about as the distance of generated images does.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional

import numpy as np

from .distances import Cloud, frechet_distance, moments

CHUNK = 1000  # images that are damaged at a time
REPEATED = 100
CLASSES = 10  # so many are left out in turn at most; their median is the mark


class Mark(NamedTuple):
    name: str  # fits into "between ... and ..."
    distance: float


def measure_ruler(
    images: np.ndarray,
    labels: Optional[np.ndarray],
    reference: Cloud,
    featurize: Callable[[np.ndarray], np.ndarray],
    features: Optional[np.ndarray] = None,
    seed: int = 0,
) -> List[Mark]:
    """The marks, the nearest first.

    images: uint8 [N, H, W, C]. labels: int [N], or None. reference: features [m, F] or moments of
    other images. featurize: uint8 images to features. features: `featurize(images)`, where it was
    done. seed: of the damage that is random.
    """
    reference, draws = moments(reference), np.random.default_rng(seed)
    features = featurize(images) if features is None else features
    clouds = {"real images": features}
    clouds.update((name, featurize(made)) for name, made in damaged(images, draws))
    if len(images) >= 2 * REPEATED:
        chosen = draws.permutation(len(images))[:REPEATED]
        clouds[f"{REPEATED} images repeated"] = features[np.resize(chosen, len(images))]
    marks = [Mark(name, frechet_distance(cloud, reference)) for name, cloud in clouds.items()]
    if labels is not None and len(np.unique(labels)) > 1:
        marks.append(Mark("one class missing", class_missing(features, labels, reference)))
        means, rows = class_means(images, labels)
        cloud = featurize(means)[rows]
        marks.append(Mark("each class's mean image", frechet_distance(cloud, reference)))
    return sorted(marks, key=lambda mark: mark.distance)


def damaged(images: np.ndarray, draws: np.random.Generator):
    """(name, uint8 [N, H, W, C]) of each damage done to pixels, one at a time."""
    yield "a 3-tap blur", in_chunks(lambda part: blurred(part, (1, 2, 1)), images)
    yield "a 5-tap blur", in_chunks(lambda part: blurred(part, (1, 4, 6, 4, 1)), images)
    yield "a shift by one pixel", shifted(images)
    yield "noise of sigma 0.1", in_chunks(lambda part: noisy(part, 0.1, draws), images)
    yield "noise of sigma 0.3", in_chunks(lambda part: noisy(part, 0.3, draws), images)
    mean, deviation = pixel_moments(images)
    yield "Gaussian pixels", in_chunks(lambda part: drawn(part, mean, deviation, draws), images)


def in_chunks(change: Callable[[np.ndarray], np.ndarray], images: np.ndarray) -> np.ndarray:
    """float images take four times the memory and more, so only some are floats at a time."""
    made = np.empty_like(images)
    for start in range(0, len(images), CHUNK):
        part = slice(start, start + CHUNK)
        made[part] = np.clip(np.rint(change(images[part])), 0, 255)
    return made


def blurred(images: np.ndarray, taps) -> np.ndarray:
    """float32 [N, H, W, C]: `taps` along the height, then along the width; edges are repeated."""
    reach, result = len(taps) // 2, images.astype(np.float32)
    for axis in (1, 2):
        pad = [(reach, reach) if at == axis else (0, 0) for at in range(4)]
        wide, size = np.pad(result, pad, mode="edge"), images.shape[axis]
        shares = (np.take(wide, range(at, at + size), axis=axis) for at in range(len(taps)))
        result = sum(share * np.float32(tap / sum(taps)) for share, tap in zip(shares, taps))
    return result


def shifted(images: np.ndarray) -> np.ndarray:
    """One pixel to the right; the left edge is repeated."""
    return np.concatenate([images[:, :, :1], images[:, :, :-1]], axis=2)


def noisy(images: np.ndarray, sigma: float, draws: np.random.Generator) -> np.ndarray:
    """sigma: for pixels in [0, 1]."""
    return images + 255 * sigma * draws.standard_normal(images.shape, np.float32)


def drawn(images, mean, deviation, draws: np.random.Generator) -> np.ndarray:
    return mean + deviation * draws.standard_normal(images.shape, np.float32)


def pixel_moments(images: np.ndarray):
    """Mean and standard deviation of each pixel over the images, [H, W, C]."""
    mean = images.mean(axis=0)
    squares = np.zeros(images.shape[1:])
    for start in range(0, len(images), CHUNK):
        squares += ((images[start : start + CHUNK] - mean) ** 2).sum(axis=0)
    return mean, np.sqrt(squares / len(images))


def class_missing(features: np.ndarray, labels: np.ndarray, reference: Cloud) -> float:
    """The median over the classes: some are missed more than others."""
    classes = np.unique(labels)
    classes = classes[np.linspace(0, len(classes) - 1, min(len(classes), CLASSES)).astype(int)]
    return float(np.median([frechet_distance(features[labels != k], reference) for k in classes]))


def class_means(images: np.ndarray, labels: np.ndarray):
    """The mean image of each class, uint8 [K, H, W, C], and which of them each example has, [N]."""
    classes, rows = np.unique(labels, return_inverse=True)
    means = [np.rint(images[labels == k].mean(axis=0)) for k in classes]
    return np.stack(means).astype(np.uint8), rows


def place(distance: float, marks: Iterable[Mark]) -> str:
    """Where a distance lies on the ruler, as "between a 5-tap blur and one class missing"."""
    marks = sorted(marks, key=lambda mark: mark.distance)
    below = [mark for mark in marks if mark.distance <= distance]
    above = [mark for mark in marks if mark.distance > distance]
    if not below:
        return f"nearer than {above[0].name}"
    if not above:
        return f"farther than {below[-1].name}"
    return f"between {below[-1].name} and {above[0].name}"


def to_json(marks: Iterable[Mark]) -> List[Dict[str, Any]]:
    return [dict(mark._asdict()) for mark in marks]


def from_json(values: Iterable[Dict[str, Any]]) -> List[Mark]:
    return [Mark(str(value["name"]), float(value["distance"])) for value in values]
