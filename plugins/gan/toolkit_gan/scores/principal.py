"""Fewer features where there are few real images: principal components.

Legend: N images, F features, P components.
"""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from .extractor import Features, open_features
from .sample_sets import MIN_IMAGES, even_positions, featurize_split
from .sensitivity import IMAGES_PER_FEATURE

IMAGES_PER_COMPONENT = 4  # so that the covariance of what remains is well known
MAX_FITTED = 2000  # training images of which the components are computed


class PrincipalFeatures(Features):
    """The first components of other features, in their units.

    Args:
        features: the others; `close` closes them.
        examples: float [N, F], features of training images.
        size: P, at most F.
        source: a hash of those images: numbers of the same network may differ in their last digits.
    """

    def __init__(self, features: Features, examples: np.ndarray, size: int, source: str):
        self._features = features
        self.name = f"{features.name}, {size} principal components of {features.size}"
        self.size = size
        self.knows_classes = features.knows_classes
        self.accuracy, self.num_test_images = features.accuracy, features.num_test_images
        examples = np.asarray(examples, np.float64)
        self._mean = examples.mean(axis=0)
        _, vectors = np.linalg.eigh(np.cov(examples, rowvar=False).reshape(features.size, -1))
        self._basis = vectors[:, ::-1][:, :size]  # [F, P]
        text = f"{features.sha256}: {size} components of {len(examples)} examples of {source}"
        self.sha256 = hashlib.sha256(text.encode("ascii")).hexdigest()

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return self._project(self._features(images))

    def labels(self, images: np.ndarray) -> Optional[np.ndarray]:
        return self._features.labels(images)

    def features_and_labels(self, images: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        features, labels = self._features.features_and_labels(images)
        return self._project(features), labels

    def close(self) -> None:
        self._features.close()

    def _project(self, features: np.ndarray) -> np.ndarray:
        return ((features - self._mean) @ self._basis).astype(np.float32)


def open_score_features(options: Any, data: Any, splits: Callable[[str], Any]) -> Features:
    """The features that the options name, or fewer of them for few real images.

    Args:
        options: of the run.
        data: the `DataSpec` of the images.
        splits: name -> `Split`, or None.
    """
    features = open_features(options, data, splits("train"))
    return reduce_features(features, splits, [options.quick_samples, options.score_samples])


def reduce_features(
    features: Features,
    splits: Callable[[str], Any],
    counts: Sequence[int],
    minimum: int = MIN_IMAGES,
) -> Features:
    """The features, or fewer of them if the splits that are scored have too few real images.

    Args:
        features: of the scores.
        splits: name -> `Split`, or None.
        counts: numbers of samples that are scored.
        minimum: images of a split; a smaller one gets no score.
    """
    train = splits("train")
    sizes = [len(split) for split in (splits("validation"), splits("test")) if split is not None]
    fewest = min([size for size in sizes if size >= minimum] + list(counts))
    if fewest >= IMAGES_PER_FEATURE * features.size or train is None or len(train) < 2:
        return features
    size = max(1, fewest // IMAGES_PER_COMPONENT)
    examples = featurize_split(train, even_positions(len(train), MAX_FITTED), features).features
    return PrincipalFeatures(features, examples, size, train.sha256())
