"""The training digits as numpy arrays, and batches of them. Imports no TensorFlow."""

from __future__ import annotations

import os

import numpy as np


class Arrays:
    """The digits that the harness saved in `folder`.

    Attributes:
        images: uint8 [N, 28, 28, 1].
        labels: int32 [N].
    """

    def __init__(self, folder: str):
        with np.load(os.path.join(folder, "digits.npz")) as archive:
            self.images, self.labels = archive["images"], archive["labels"]

    @property
    def features(self):
        """float32 [N, 28, 28, 1] in [0, 1]."""
        return self.images.astype(np.float32) / 255

    @property
    def spec(self):
        from toolkit import DataSpec

        return DataSpec(tuple(self.images.shape[1:]), "uint8", 10)

    def shuffled_batches(self, size: int):
        """Endless batches, float32 [size, ...] and int32 [size], in a new order each epoch."""
        features, labels, random = self.features, self.labels, np.random.RandomState(1)
        while True:
            order = random.permutation(len(labels))
            for start in range(0, len(order) - size + 1, size):
                positions = order[start : start + size]
                yield features[positions], labels[positions]
