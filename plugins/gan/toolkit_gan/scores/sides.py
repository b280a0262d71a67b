"""The two sides of a score, fakes and reals, brought to one form: bytes, features, classes.

Legend: N images, H height, W width, C channels, n fakes, m reals, F features, K classes.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from .distances import Moments
from .distances import moments as moments_of
from .extractor import Features
from .neighbours import radii

PART = 5000  # images that are taken from a split at a time
LOST = 0.1  # a class is lost below this part of its share among the reals


class Side(NamedTuple):
    """images: uint8 [N, H, W, C], or None where they are not kept. labels: int [N] as the
    features' classifier sees them, or None.
    """

    images: Optional[np.ndarray]
    features: np.ndarray  # [N, F]
    labels: Optional[np.ndarray]


class Reference(NamedTuple):
    """The real side of a split, kept from one score to the next."""

    split: Any
    side: Side
    moments: Moments
    radii: np.ndarray  # [m], as `neighbours` takes them


def reference_of(split: Any, features: Features, most: int) -> Reference:
    """A split as scores see it; of a larger one `most` images, evenly spaced."""
    side = seen(split, spread(len(split), most), features)
    return Reference(split, side, moments_of(side.features), radii(side.features))


def seen(split: Any, positions: np.ndarray, features: Features) -> Side:
    """Features and labels of a split at `positions`, a part at a time; no images are kept."""
    parts = [
        features.both(real_images(split, positions[at : at + PART]))
        for at in range(0, len(positions), PART)
    ]
    labels = [label for _, label in parts]
    joined = None if labels[0] is None else np.concatenate(labels)
    return Side(None, np.concatenate([found for found, _ in parts]), joined)


def to_bytes(images: np.ndarray) -> np.ndarray:
    """uint8 of images in [0, 1], to the nearest; what is no number becomes black."""
    return np.clip(np.rint(np.nan_to_num(images) * 255), 0, 255).astype(np.uint8)


def real_images(split: Any, positions: np.ndarray) -> np.ndarray:
    """uint8 [n, H, W, C]; floats are taken for images in [0, 1]."""
    images, _ = split.take(positions)
    return images if images.dtype == np.uint8 else to_bytes(images)


def spread(count: int, most: int) -> np.ndarray:
    """At most `most` of `count` positions, evenly spaced."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


def same_examples(a: Any, b: Any) -> bool:
    """Whether two splits hold the same examples, by their number and the first hundred."""
    if a is b:
        return True
    few = np.arange(min(100, len(a)))
    return len(a) == len(b) and np.array_equal(a.take(few)[0], b.take(few)[0])


def classes_of(
    fakes: np.ndarray, reals: np.ndarray, names: Sequence[str] = ()
) -> Dict[str, List[Any]]:
    """The class histogram: for each class its name, how many fakes and how many reals were taken
    for it; and the names of the lost ones.
    """
    count = max(int(fakes.max()), int(reals.max()), len(names) - 1) + 1
    names = [str(name) for name in names] + [str(k) for k in range(len(names), count)]
    of_fakes, of_reals = (np.bincount(side, minlength=count) for side in (fakes, reals))
    lost = of_fakes / len(fakes) < LOST * of_reals / len(reals)
    return {
        "names": names,
        "fakes": of_fakes.tolist(),
        "reals": of_reals.tolist(),
        "lost": [name for name, gone in zip(names, lost) if gone],
    }
