"""Real images with known damage: a ruler for the Frechet distance, and a judge of the measures.

The damaged images are training images, none of which are in the reference, measured as samples are:
undamaged ones have the values that a perfect generator would have. The ruler has the distance of
each kind of damage as a mark. A measure that gives severely damaged images the value of real ones
cannot tell good samples from bad ones, here, with these features and these numbers of images. It is
then refused, whatever value the samples have.

Legend: N images, H height, W width, C channels, n samples, m real images (the reference), F
features, K classes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from . import neighbours
from .distances import frechet_distance, frechet_floor
from .sets import ImageSet, even_positions

CHUNK = 1000  # images that are damaged at a time
REAL = "real images"
PATCHES = 4  # per side of an image whose patches are shuffled
IMAGES_PER_CLASS = 5  # on average: the mean of one image is that image, which is no damage

DISTANCE = "frechet_distance"  # lower is better; higher, of the other measures
# Damage that leaves no image like a real one.
SPOILED = ("a 5-tap blur", "shuffled patches", "Gaussian pixels", "each class's mean image")
# Measure -> the damage that it has to notice. Precision is about single images; recall is about
# their variety, and large distances between bad images must not pass for variety.
SEVERE: Dict[str, Tuple[str, ...]] = {
    DISTANCE: (*SPOILED, "10 images repeated"),
    "precision": SPOILED,
    "recall": ("Gaussian pixels", "10 images repeated", "each class's mean image"),
    "coverage": (*SPOILED, "10 images repeated"),
}
LOSS = 0.1  # of the value of real images: the least that severe damage takes away ...
ERRORS = 3  # ... and so many standard errors
MULTIPLE = 2  # of the distance of real images: the least of severely damaged ones
IMAGES_PER_FEATURE = 2  # of which n and m make a covariance of F features more than noise
Values = Dict[str, Dict[str, float]]  # by kind of damage, then by measure


# ------------------------------------------------------------------------------------- measurement


def measure(training: ImageSet, count: int, reference: ImageSet) -> Values:
    """The distance from the reference, m real images, of each kind of damage of `count` training
    images, evenly spaced, and of severe damage all measures of `SEVERE`.
    """
    rows = even_positions(len(training), count)
    labels = None if training.labels is None else training.labels[rows]
    if labels is None and training.source.class_labels is not None:  # the data's own
        labels = training.source.class_labels[training.positions[rows]]
    severe, values = {name for names in SEVERE.values() for name in names} | {REAL}, {}
    for name, features in damage_features(training, rows, labels):
        values[name] = {DISTANCE: frechet_distance(features, reference.moments)}
        if name in severe:
            shares = neighbours.compare(features, reference.features, real_radii=reference.radii)
            values[name].update(shares._asdict())
    return values


def damage_features(
    training: ImageSet, rows: np.ndarray, labels: Optional[np.ndarray]
) -> Iterator[Tuple[str, np.ndarray]]:
    """Yield the features [N, F] of rows of a set as they are (`REAL`) and by each damage's name."""
    random, images, features = np.random.default_rng(0), training.images(rows), training.features
    features = features[rows]
    yield REAL, features
    for name, damaged_images in damage_images(images, random):
        yield name, training.compute(damaged_images)[0]
    for count in (100, 10):
        if len(images) >= 2 * count:
            positions = random.permutation(len(images))[:count]
            yield f"{count} images repeated", features[np.resize(positions, len(images))]
    if labels is not None:
        classes, class_rows = np.unique(labels, return_inverse=True)
        if 1 < len(classes) <= len(labels) / IMAGES_PER_CLASS:
            means = [np.rint(images[labels == k].mean(axis=0)) for k in classes]
            means_features, _ = training.compute(np.stack(means).astype(np.uint8))
            yield "each class's mean image", means_features[class_rows]


def damage_images(
    images: np.ndarray, random: np.random.Generator
) -> Iterator[Tuple[str, np.ndarray]]:
    """Yield (name, uint8 [N, H, W, C] or [N, D]) for each kind of damage to pixels or numbers."""
    if images.ndim == 4:  # the numbers of a vector have no neighbours
        yield "a 5-tap blur", apply_in_chunks(lambda part: blur(part, (1, 4, 6, 4, 1)), images)
        yield "shuffled patches", shuffle_patches(images, random)
    mean, squares = images.mean(axis=0), np.zeros(images.shape[1:])
    for start in range(0, len(images), CHUNK):
        squares += ((images[start : start + CHUNK] - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / len(images))  # of each pixel, float64 [H, W, C]

    def draw(part: np.ndarray) -> np.ndarray:
        return mean + deviation * random.standard_normal(part.shape, np.float32)

    yield "Gaussian pixels", apply_in_chunks(draw, images)


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


def shuffle_patches(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Divide each image into `PATCHES` x `PATCHES` patches, or as many as it has pixels a side, and
    exchange them at random.

    The rows and columns that are left over stay in place.
    """
    count, height, width, channels = images.shape
    down, across = min(PATCHES, height), min(PATCHES, width)
    rows, columns = height // down, width // across
    result = images.copy()
    inner = result[:, : down * rows, : across * columns]
    grid = inner.reshape(count, down, rows, across, columns, channels).swapaxes(2, 3)
    patches = grid.reshape(count, down * across, rows, columns, channels)
    order = np.argsort(random.random((count, down * across)), axis=1)
    grid = patches[np.arange(count)[:, None], order].reshape(grid.shape)
    inner[...] = grid.swapaxes(2, 3).reshape(inner.shape)
    return result


# --------------------------------------------------------------------------------------- the ruler


def place(features: np.ndarray, values: Values, reference: ImageSet) -> Dict[str, Any]:
    """The ruler, of values of `measure`, and where samples, float [N, F], are on it: JSON values. N
    is the number of images of each damage: of fewer, the distance is larger.

    "ruler" has the marks in order of their distance, {"name": of the damage, "distance": float};
    "n_ruler" is N; "ruler_distance" of the samples, "ruler_floor", and "place", as "between a 5-tap
    blur and Gaussian pixels".
    """
    names = sorted(values, key=lambda name: values[name][DISTANCE])
    marks = [{"name": name, "distance": values[name][DISTANCE]} for name in names]
    distance, n, m = frechet_distance(features, reference.moments), len(features), len(reference)
    return {
        "ruler": marks,
        "n_ruler": n,
        "ruler_distance": distance,
        "ruler_floor": frechet_floor(reference.moments, n, m),
        "place": locate(distance, marks),
    }


def locate(distance: float, marks: List[Dict[str, Any]]) -> str:
    """Where a distance is among sorted marks."""
    below = [mark["name"] for mark in marks if mark["distance"] <= distance]
    above = [mark["name"] for mark in marks if mark["distance"] > distance]
    if not below:
        return f"nearer than {above[0]}"
    return f"between {below[-1]} and {above[0]}" if above else f"farther than {below[-1]}"


# --------------------------------------------------------------------------------------- the judge


def judge(values: Values, num_images: int, n: int, m: int, size: int) -> Dict[str, Dict[str, Any]]:
    """Judge each measure of `SEVERE`, by the values of `measure` for so many damaged images; if
    there are none, only a shortage is judged. n, m and size are the numbers of samples and of real
    images of the Frechet distance, and F.

    By measure, JSON values: "real", the value of undamaged images (None without any), "damages",
    those of severely damaged ones by the name of the damage, and, where the measure is refused,
    "refusal", the reason.
    """
    judgements: Dict[str, Dict[str, Any]] = {}
    needed, shortage = IMAGES_PER_FEATURE * size, ""
    if min(n, m) < needed:
        shortage = f"{size} features need {needed} samples and {needed} real images or more, and "
        shortage += f"there are {n} and {m}"
    for name, kinds in SEVERE.items():
        real = values[REAL][name] if values else None
        damages = {kind: values[kind][name] for kind in kinds if kind in values}
        refusal = shortage if name == DISTANCE else ""
        if real is not None:
            refusal = refusal or explain_refusal(name, real, damages, min(num_images, m))
        if values or refusal:
            reason = {"refusal": refusal} if refusal else {}
            judgements[name] = {"real": real, "damages": damages, **reason}
    return judgements


def explain_refusal(name: str, real: float, damages: Mapping[str, float], num_images: int) -> str:
    """Why a measure says nothing: the damage that it notices least; "" if it notices all.

    Equal images have equal values: severely damaged ones must be worse than a bound. The standard
    error of a share of `num_images`, those of the smaller of the two sets, is at most half of the
    inverse root of their number.
    """
    sign, bound = 1, real - max(LOSS * real, ERRORS * 0.5 / num_images**0.5)
    if name == DISTANCE:
        sign, bound = -1, MULTIPLE * real
    unnoticed = {kind: v for kind, v in damages.items() if not sign * v < sign * bound}
    if not unnoticed:
        return ""
    kind = max(unnoticed, key=lambda kind: sign * unnoticed[kind])
    value, real_value = format_value(unnoticed[kind]), format_value(real)
    return f"of damaged real images ({kind}) it is {value}, of undamaged ones {real_value}"


def format_value(value: float) -> str:
    """Two decimals, and more for small numbers."""
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"


def refusals(details: Mapping[str, Any]) -> Dict[str, str]:
    """Measure -> why it is refused, from the content of scores.json."""
    measures = details.get("measures") or {}
    return {name: each["refusal"] for name, each in measures.items() if each.get("refusal")}


def remove_refused(details: Mapping[str, Any]) -> Dict[str, Any]:
    """The content of scores.json with None in place of each refused measure.

    The value is still under "measures", beside those of the damaged images.
    """
    names, result = refusals(details), dict(details, measures=dict(details["measures"]))
    for name in names:
        value = details[name]["mean"] if name == DISTANCE else details[name]
        result["measures"][name] = dict(result["measures"][name], value=value)
        result[name] = None
    if DISTANCE in names:
        result.update(frechet_ratio=None, place=None)
    return result
