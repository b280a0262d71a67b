"""The features that scores use: of a classifier, of a network trained without labels, or pixels.

Legend: N images, H height, W width, C channels, F features.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from toolkit_agreement.training import MIN_IMAGES, train_once

import toolkit
from toolkit import DataError, UsageError, statistics

from .options import WORDS

TRAINED = ("classifier", "self")  # kinds of features that are trained for a run
CELLS = 8  # per side, of the pixel features
CHUNK = 1000  # images that are floats at a time
MIN_SIDE = 8  # pixels: the smallest side of an image for a convolutional network
NUM_STEPS, BATCH_SIZE = 150, 64  # of a training: less than a tenth of the time of a GAN's
# The share of what lies between chance and 1 that the accuracy of a good classifier covers. Below
# it, classes that it confuses are near each other, and samples between two classes look real.
GOOD_SHARE = 0.8


class Features:
    """Computes the features of images.

    Attributes:
        name: for a person to read.
        sha256: of what computes the features, 64 hex digits.
        size: F.
        knows_classes: whether `compute` returns any.
        accuracy: of the classes on test images, in [0, 1], or None if it is unknown.
    """

    name = ""
    sha256 = ""
    size = 0
    knows_classes = False
    accuracy: Optional[float] = None

    def compute(self, images: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """float32 [N, F] of images uint8 [N, H, W, C], and the predicted class of each, if any."""
        raise NotImplementedError

    def close(self) -> None:
        """Release resources."""


# ------------------------------------------------------------------------------------------ pixels


class PixelFeatures(Features):
    """Means over the cells of a grid, of each channel by itself, in [0, 1]. Knows no classes.

    Args:
        shape: (H, W, C); for other shapes, the features are the numbers themselves.
    """

    name = "pixels"

    def __init__(self, shape: Sequence[int]):
        self._shape = tuple(shape)
        self._rows = self._columns = np.zeros([0, 0], np.float32)
        self._is_image = len(self._shape) == 3
        self.size = int(np.prod(self._shape))
        if self._is_image:
            self._rows, self._columns = cell_weights(self._shape[0]), cell_weights(self._shape[1])
            self.size = len(self._rows) * len(self._columns) * self._shape[2]
        description = f"pixels: {self.size} features of {list(self._shape)}"
        self.sha256 = hashlib.sha256(description.encode("utf-8")).hexdigest()

    def compute(self, images: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        check_shape(self._shape, images.shape[1:], "pixels")
        starts = range(0, len(images), CHUNK)
        means = [self._means(images[start : start + CHUNK]) for start in starts]
        return np.concatenate(means).reshape(len(images), self.size), None

    def _means(self, images: np.ndarray) -> np.ndarray:
        scaled = images.astype(np.float32) / 255
        if not self._is_image:
            return scaled
        narrow = np.tensordot(scaled, self._columns, axes=(2, 1))  # [N, H, C, cells]
        return np.tensordot(narrow, self._rows, axes=(1, 1))  # [N, C, cells, cells]


def cell_weights(size: int) -> np.ndarray:
    """float32 [cells, size]: the weight of each pixel of a side in each cell; a row sums to 1."""
    cells = min(CELLS, size)
    bounds = np.linspace(0, size, cells + 1)
    starts = np.arange(size)
    upper = np.minimum(bounds[1:, None], starts + 1)
    lower = np.maximum(bounds[:-1, None], starts)
    return (np.maximum(upper - lower, 0) * cells / size).astype(np.float32)


# ------------------------------------------------------------------------------------ of a network


class NetworkFeatures(Features):
    """The features that a trained run predicts.

    Args:
        trained: of `toolkit.open_trained`; closed with the features.
        name: for a person to read; by default plugin, folder and step.

    Raises:
        UsageError: the run's plugin predicts no features.
    """

    def __init__(self, trained: Any, name: str = ""):
        self.trained = trained
        self.name = name or f"{trained.plugin} {trained.folder}, step {trained.step}"
        self.sha256 = trained.sha256
        self.size = self._find_size()
        test = (trained.summary or {}).get("test") or {}
        self.accuracy = (test.get("metrics") or {}).get("accuracy")

    def compute(self, images: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        columns = self._predict(images)
        return columns["features"].reshape(len(images), -1), columns.get("label")

    def close(self) -> None:
        self.trained.close()

    def _find_size(self) -> int:
        """F, from the prediction for one black image."""
        plugin = f"{self.trained.folder}: plugin '{self.trained.plugin}'"
        hint = "Name a classifier's run with --features, or use --features pixels."
        try:
            columns = self._predict(np.zeros((1,) + tuple(self.trained.data.shape), np.uint8))
        except DataError as error:  # a generator, for example
            raise UsageError(
                f"{plugin} predicts from other inputs than images, and has no features.", hint=hint
            ) from error
        if columns.get("features") is None:
            names = ", ".join(sorted(columns))
            raise UsageError(f"{plugin} predicts {names}, and no features.", hint=hint)
        self.knows_classes = columns.get("label") is not None
        return int(columns["features"].size)

    def _predict(self, images: np.ndarray) -> Dict[str, np.ndarray]:
        check_shape(self.trained.data.shape, images.shape[1:], self.name)
        if self.trained.data.dtype != "uint8":
            images = images.astype(np.float32) / 255
        return self.trained.predict(images)


def check_shape(expected: Sequence[int], shape: Sequence[int], name: str) -> None:
    """Check the shape of images against that of the features' images. Raises DataError."""
    if tuple(shape) != tuple(expected):
        raise DataError(
            f"The features ({name}) are of images {list(expected)}, but these are {list(shape)}.",
            hint="Use features of a run with the same image_size and channels, or auto.",
        )


# ------------------------------------------------------------------------------------------- choice


def list_kinds(options: Any, data: Any, train: Any = None) -> List[str]:
    """What the option `features` stands for: words of `WORDS`, the best first, or a run's folder.

    "classifier" and "self" are networks that are trained once and cached. "auto" means the
    classifier if the data has classes that it recognizes (`recognizes_classes`), else "self"; and
    pixels if the data are no images for such networks.

    Args:
        options: of the run.
        data: the `DataSpec` of the images.
        train: the `Split` that a network is trained on.

    Raises:
        UsageError: there is no such run, or the data is not for the network.
    """
    word, count = options.features, 0 if train is None else len(train)
    is_image = len(data.shape) == 3 and min(data.shape[:2]) >= MIN_SIDE
    has_classes = is_image and data.num_classes > 1 and count > 0 and train.labels is not None
    needs = {
        "classifier": (has_classes, "images of two classes or more"),
        "self": (is_image and count >= MIN_IMAGES, f"{MIN_IMAGES} images or more"),
    }
    if word == "auto":
        return [kind for kind, (is_met, _) in needs.items() if is_met] + ["pixels"]
    if word in needs and not needs[word][0]:
        raise UsageError(
            f"The features '{word}' need {needs[word][1]}, {MIN_SIDE} pixels or more on each side, "
            f"and the data has {count} examples {list(data.shape)} of {data.num_classes} classes.",
            hint="Set --features auto, or pixels.",
        )
    if word not in WORDS and not os.path.isdir(word):
        raise UsageError(
            f"There is no run at '{word}' to take features from.",
            hint="Give the folder of a classifier's run, or one of: " + ", ".join(WORDS) + ".",
        )
    return [word]


def open_features(options: Any, data: Any, train: Any = None) -> Features:
    """Open the features that `options.features` names; see `list_kinds`.

    Raises:
        UsageError: as `list_kinds`.
        DataError: the run's images have another shape.
    """
    kind, *others = list_kinds(options, data, train)
    if kind == "classifier":
        features = train_classifier(options, train)
        if not others or recognizes_classes(features.trained, train):
            return features
        features.close()
        kind = others[0]
    if kind == "self":
        trained = train_once(options, train)
        return NetworkFeatures(trained, f"self-supervised, of {options.data}")
    if kind == "pixels":
        return PixelFeatures(data.shape)
    trained = toolkit.open_trained(kind)
    try:
        check_shape(trained.data.shape, data.shape, kind)
        return NetworkFeatures(trained)
    except BaseException:
        trained.close()
        raise


def recognizes_classes(trained: Any, train: Any) -> bool:
    """Whether a classifier is right so often that its features tell what an image shows.

    Chance is the share of the most frequent class. Of what lies between chance and 1, the accuracy
    has to cover `GOOD_SHARE`, and so has the lower end of its 95 % interval: the fewer test images
    there are, the more of them have to be right. Without test images, those of the validation
    count.

    Args:
        trained: the classifier's run.
        train: the `Split` that it was trained on.
    """
    results = [(trained.summary or {}).get("test"), trained.validation]
    measured = [each for each in results if each and "accuracy" in each.get("metrics", {})]
    if not measured:
        return False
    low, num_images = measured[0]["metrics"]["accuracy"], measured[0].get("examples")
    if num_images:
        low = statistics.wilson(round(low * num_images), num_images).low
    counts = np.bincount(np.asarray(train.labels).ravel())
    chance = float(counts.max() / counts.sum())
    return bool(low >= chance + GOOD_SHARE * (1 - chance))


def train_classifier(options: Any, train: Any) -> NetworkFeatures:
    """The features of a classifier, trained on a split or from the cache.

    Its options do not depend on the generator's method or seed.
    """
    values = {"steps": NUM_STEPS, "batch_size": min(BATCH_SIZE, len(train)), "seed": 1}
    trained = toolkit.cached_run(
        "classifier",
        dict(toolkit.data_options(options), **values),
        key=train.sha256(),
        text=f"Training a classifier on {options.data} for the scores (once, then cached)",
    )
    return NetworkFeatures(trained, f"classifier of {options.data}")
