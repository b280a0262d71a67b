"""The two sets of a score, generated and real images, in one form: bytes, features, classes.

Legend: N images, H height, W width, C channels, n generated and m real images, F features, K
classes.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from . import distances, neighbours
from .distances import Moments
from .features import Features

CHUNK = 5000  # images that are read from a split at a time
HALF_BATCH = 32  # images of each set in a batch of a network that tells them apart
MIN_IMAGES = 10  # of a set; a score of fewer means nothing
# A class is lost below this share of its share among the real images, ...
LOST_SHARE = 0.1
MIN_EXPECTED = 20  # ... if so many samples of it are expected, ...
MIN_SHOWN = 3  # ... there are so many real images of it, ...
MAX_CHANCE = 0.05  # ... and any class of samples like the real images is lost this rarely


class SampleSet(NamedTuple):
    """Images as the scores use them."""

    images: Optional[np.ndarray]  # uint8 [N, H, W, C], or None if they are not kept
    features: np.ndarray  # float32 [N, F]
    labels: Optional[np.ndarray]  # int [N], predicted by the features' classifier, or None
    digests: Sequence[bytes] = ()  # N, of the real images of a split


class ReferenceSet(NamedTuple):
    """The real images of a split, and what is computed from them once for all scores."""

    split: Any
    samples: SampleSet
    moments: Moments
    radii: np.ndarray  # float64 [m], see `neighbours.radii`


def make_reference(split: Any, features: Features, limit: int) -> ReferenceSet:
    """Featurize at most `limit` images of a split, evenly spaced."""
    samples = featurize_split(split, even_positions(len(split), limit), features)
    moments = distances.moments(samples.features)
    return ReferenceSet(split, samples, moments, neighbours.radii(samples.features))


def featurize_split(split: Any, positions: np.ndarray, features: Features) -> SampleSet:
    """Compute features and labels of a split at `positions`, chunk by chunk, without the images."""
    chunks, digests = [], []
    for start in range(0, len(positions), CHUNK):
        images = real_images(split, positions[start : start + CHUNK])
        chunks.append(features.compute(images))
        digests += hash_images(images)
    labels = [chunk_labels for _, chunk_labels in chunks if chunk_labels is not None]
    all_labels = np.concatenate(labels) if labels else None
    return SampleSet(None, np.concatenate([values for values, _ in chunks]), all_labels, digests)


def hash_images(images: np.ndarray) -> List[bytes]:
    """A digest of the bytes of each image, uint8 [N, ...]: equal images have equal ones."""
    return [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]


def to_bytes(images: np.ndarray) -> np.ndarray:
    """uint8, rounded, from floats in [0, 1]; NaN becomes black. Bytes are returned unchanged."""
    if images.dtype == np.uint8:
        return images
    return np.clip(np.rint(np.nan_to_num(images) * 255), 0, 255).astype(np.uint8)


def real_images(split: Any, positions: np.ndarray) -> np.ndarray:
    """uint8 [N, H, W, C] from a split, whose floats are in [0, 1]."""
    return to_bytes(split.take(positions)[0])


def even_positions(count: int, limit: int) -> np.ndarray:
    """int64: at most `limit` of the positions 0 to count - 1, evenly spaced.

    A folder of images is read class after class: its first images would be of one class.
    """
    return np.linspace(0, count - 1, min(count, limit)).astype(np.int64)


def have_same_examples(a: Any, b: Any) -> bool:
    """Whether two splits are equal, judged by their length and their first hundred examples."""
    if a is b:
        return True
    first = np.arange(min(100, len(a)))
    return len(a) == len(b) and np.array_equal(a.take(first)[0], b.take(first)[0])


def chances_of_reals(num_fakes: np.ndarray, num_reals: np.ndarray) -> np.ndarray:
    """The probability that so many of the images of a class are real, or more: float [K].

    Where a class is as frequent in both sets, each of its images is real with the probability
    m / (n + m). This allows for the noise of few real images; an interval of their share alone
    would not, for many rare classes of which some are shown too often.

    Args:
        num_fakes: int [K], generated images of each class.
        num_reals: int [K], real images of each class.
    """
    from scipy.stats import binom

    n, m = num_fakes.sum(), num_reals.sum()
    chances: np.ndarray = binom.sf(num_reals - 1, num_fakes + num_reals, m / (n + m))
    return chances


def class_histogram(
    fakes: np.ndarray, reals: np.ndarray, names: Sequence[str] = ()
) -> Dict[str, List[Any]]:
    """Count the classes of generated and of real images.

    Of a rare class, samples may be missing by chance, or a few real images may show it more often
    than it is: it is not lost.

    Args:
        fakes: int [n], predicted labels of generated images.
        reals: int [m], predicted labels of real images.
        names: of the classes; further ones are named by their number.

    Returns:
        A dict of JSON values: names, fakes and reals (a count per class), lost (names of classes).
    """
    num_classes = max(int(fakes.max()), int(reals.max()), len(names) - 1) + 1
    names = [str(name) for name in names] + [str(k) for k in range(len(names), num_classes)]
    num_fakes, num_reals = (np.bincount(labels, minlength=num_classes) for labels in (fakes, reals))
    num_expected = num_reals / len(reals) * len(fakes)
    is_lost = (num_fakes < LOST_SHARE * num_expected) & (num_expected >= MIN_EXPECTED)
    is_lost &= num_reals >= MIN_SHOWN
    if is_lost.any():  # rarely, and scipy takes a while to import
        is_lost &= chances_of_reals(num_fakes, num_reals) < MAX_CHANCE / num_classes
    return {
        "names": names,
        "fakes": num_fakes.tolist(),
        "reals": num_reals.tolist(),
        "lost": [name for name, lost in zip(names, is_lost) if lost],
    }
