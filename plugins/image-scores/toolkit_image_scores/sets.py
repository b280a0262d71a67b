"""A set of images as the scores use it, generated or real: bytes, features, classes.

Legend: N images, H height, W width, C channels, n generated and m real images, F features, K
classes.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Optional, Sequence, Set

import numpy as np

from . import distances, neighbours
from .features import Compute

CHUNK = 5000  # images whose features are computed at a time
MIN_IMAGES = 10  # of a set; a score of fewer means nothing
# A class is lost below this share of its share among the real images, ...
LOST_SHARE = 0.1
MIN_EXPECTED = 20  # ... if so many samples of it are expected, ...
MIN_SHOWN = 3  # ... there are so many real images of it, ...
MAX_CHANCE = 0.05  # ... and any class of samples like the real images is lost this rarely


class ImageSet:
    """Images of a source, uint8 [N, H, W, C] or a `Split` that is read again where it is needed,
    with what all scores of them need. Beyond a limit, so many of them are taken, evenly spaced.
    """

    def __init__(self, source: Any, compute: Compute, limit: Optional[int] = None):
        self.source, self.compute = source, compute
        # Those of the images in the source, int64 [N].
        self.positions = even_positions(len(source), len(source) if limit is None else limit)
        self.digests: List[bytes] = []  # see `hash_images`
        parts = []
        for start in range(0, len(self.positions), CHUNK):
            images = self.images(slice(start, start + CHUNK))
            self.digests += hash_images(images)
            parts.append(compute(images))
        labels = [part for _, part in parts if part is not None]
        self.features = np.concatenate([part for part, _ in parts])  # float32 [N, F]
        self.labels = np.concatenate(labels) if labels else None  # as predicted, int [N]
        self._moments: Optional[distances.Moments] = None
        self._radii: Optional[np.ndarray] = None

    def __len__(self) -> int:
        return len(self.positions)

    def images(self, rows: Any = slice(None)) -> np.ndarray:
        """uint8 [n, H, W, C]: those of some rows of the set."""
        return read_images(self.source, self.positions[rows])

    @property
    def moments(self) -> distances.Moments:
        if self._moments is None:
            self._moments = distances.moments(self.features)
        return self._moments

    @property
    def radii(self) -> np.ndarray:
        """float64 [N], see `neighbours.radii`."""
        if self._radii is None:
            self._radii = neighbours.radii(self.features)
        return self._radii


def read_images(source: Any, positions: np.ndarray) -> np.ndarray:
    """uint8 [N, H, W, C] from an array, or from a `Split`, whose floats are in [0, 1]."""
    return to_bytes(
        source[positions] if isinstance(source, np.ndarray) else source.take(positions)[0]
    )


def hash_images(images: np.ndarray) -> List[bytes]:
    """A digest of the bytes of each image, uint8 [N, ...]: equal images have equal ones."""
    return [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]


def hash_source(source: Any) -> Set[bytes]:
    """The digests of all images of a source, as `ImageSet` takes it; see `hash_images`."""
    digests: Set[bytes] = set()
    for positions in np.array_split(np.arange(len(source)), -(-len(source) // CHUNK)):
        digests.update(hash_images(read_images(source, positions)))
    return digests


def to_bytes(images: np.ndarray) -> np.ndarray:
    """uint8, rounded, from floats in [0, 1]; NaN becomes black. Bytes are returned unchanged."""
    if images.dtype == np.uint8:
        return images
    return np.clip(np.rint(np.nan_to_num(images) * 255), 0, 255).astype(np.uint8)


def even_positions(count: int, limit: int) -> np.ndarray:
    """int64: at most `limit` of the positions 0 to count - 1, evenly spaced.

    A folder of images is read class after class: its first images would be of one class.
    """
    return np.linspace(0, count - 1, min(count, limit)).astype(np.int64)


def class_histogram(
    fakes: np.ndarray, reals: np.ndarray, names: Sequence[str] = ()
) -> Dict[str, List[Any]]:
    """Count the classes of generated and of real images, predicted labels int [n] and int [m].
    Classes beyond the names are named by their number.

    Of a rare class, samples may be missing by chance, or a few real images may show it more often
    than it is: it is not lost. Where a class is as frequent in both sets, each of its images is
    real with the probability m / (n + m), which allows for the noise of few real images.

    Returns JSON values: names, fakes and reals (a count per class), lost (names of classes).
    """
    num_classes = max(int(fakes.max()), int(reals.max()), len(names) - 1) + 1
    names = [str(name) for name in names] + [str(k) for k in range(len(names), num_classes)]
    num_fakes, num_reals = (np.bincount(labels, minlength=num_classes) for labels in (fakes, reals))
    num_expected = num_reals / len(reals) * len(fakes)
    is_lost = (num_fakes < LOST_SHARE * num_expected) & (num_expected >= MIN_EXPECTED)
    is_lost &= num_reals >= MIN_SHOWN
    if is_lost.any():
        from scipy.stats import binom  # rarely, as this takes a while

        share = len(reals) / (len(fakes) + len(reals))
        chances = binom.sf(num_reals - 1, num_fakes + num_reals, share)
        is_lost &= chances < MAX_CHANCE / num_classes
    return {
        "names": names,
        "fakes": num_fakes.tolist(),
        "reals": num_reals.tolist(),
        "lost": [name for name, lost in zip(names, is_lost) if lost],
    }
