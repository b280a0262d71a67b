"""What scores see by: the features of a trained classifier, or means of pixels where there is none.

Legend: N images, H height, W width, C channels, F features.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Optional

import numpy as np

import toolkit
from toolkit import CheckpointError, DataError, UsageError

CELLS = 8  # per side, of the pixel features
SMALLEST = 8  # pixels a side; a convolutional classifier takes no less
STEPS = 1600  # that a classifier of small data is trained for at least
EPOCHS = 3  # and of larger data
LARGEST = 60000  # examples; of more data fewer epochs are made
BATCH = 64
CHUNK = 1000  # images that are floats at a time
ABANDONED = 24 * 3600  # seconds, after which a training that was killed is tidied away


class Features:
    """What scores see by.

    name: for a person. sha256: of what computes the features, 64 hex digits. size: F.
    knows_classes: whether `labels` tells any. accuracy: the share of test images whose label it
    tells, where that is known.
    """

    name = ""
    sha256 = ""
    size = 0
    knows_classes = False
    accuracy: Optional[float] = None

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """float32 [N, F] of images uint8 [N, H, W, C]."""
        raise NotImplementedError

    def labels(self, images: np.ndarray) -> Optional[np.ndarray]:
        """int [N]: the class that each image is taken for, or None where none is known."""
        return None

    def both(self, images: np.ndarray):
        """The features and the labels, computed together."""
        return self(images), self.labels(images)

    def close(self) -> None:
        """Give back what is held."""


# ------------------------------------------------------------------------------------------ pixels


class PixelFeatures(Features):
    """Means over the cells of a grid, of each channel by itself, in [0, 1]. Knows no classes.

    shape: (H, W, C); other shapes are taken as they are, number by number.
    """

    name = "pixels"

    def __init__(self, shape):
        self._shape = tuple(shape)
        self._rows = self._columns = None
        self.size = int(np.prod(self._shape))
        if len(self._shape) == 3:
            self._rows, self._columns = shares(self._shape[0]), shares(self._shape[1])
            self.size = len(self._rows) * len(self._columns) * self._shape[2]
        told = f"pixels: {self.size} features of {list(self._shape)}"
        self.sha256 = hashlib.sha256(told.encode("utf-8")).hexdigest()

    def __call__(self, images):
        check_shape(self._shape, images.shape[1:], "pixels")
        parts = [self._means(images[at : at + CHUNK]) for at in range(0, len(images), CHUNK)]
        return np.concatenate(parts).reshape(len(images), self.size)

    def _means(self, images):
        scaled = images.astype(np.float32) / 255
        if self._rows is None:
            return scaled
        narrow = np.tensordot(scaled, self._columns, axes=(2, 1))  # [N, H, C, cells]
        return np.tensordot(narrow, self._rows, axes=(1, 1))  # [N, C, cells, cells]


def shares(size: int) -> np.ndarray:
    """float32 [cells, size]: how much each pixel of a side has in each cell; a row sums to 1."""
    cells = min(CELLS, size)
    bounds = np.linspace(0, size, cells + 1)
    starts = np.arange(size)
    upper = np.minimum(bounds[1:, None], starts + 1)
    lower = np.maximum(bounds[:-1, None], starts)
    return (np.maximum(upper - lower, 0) * cells / size).astype(np.float32)


# ---------------------------------------------------------------------------------- of a classifier


class ClassifierFeatures(Features):
    """The features that a trained run predicts, as `toolkit.open_trained` gives it.

    Raises UsageError where the run's plugin predicts no `features`.
    """

    def __init__(self, trained: Any, name: str = ""):
        self._trained = trained
        self.name = name or f"{trained.plugin} {trained.folder}, step {trained.step}"
        self.sha256 = trained.sha256
        self.size = self._probe()
        test = (trained.summary or {}).get("test") or {}
        self.accuracy = test.get("metrics", {}).get("accuracy")

    def __call__(self, images):
        return self.both(images)[0]

    def labels(self, images):
        return self.both(images)[1]

    def both(self, images):
        found = self._predict(images)
        return as_rows(found["features"]), found.get("label")

    def close(self):
        self._trained.close()

    def _probe(self) -> int:
        """F, from one black image."""
        try:
            found = self._predict(np.zeros((1,) + tuple(self._trained.data.shape), np.uint8))
        except DataError as error:  # a generator, say
            raise UsageError(
                f"{self._trained.folder}: plugin '{self._trained.plugin}' predicts from "
                "other inputs than images, and has no"
                " features.",
                hint="Take a classifier's run for --features, or pixels.",
            ) from error
        if found.get("features") is None:
            raise UsageError(
                f"{self._trained.folder}: plugin '{self._trained.plugin}' predicts "
                f"{', '.join(sorted(found))}, and no features.",
                hint="Take a classifier's run for --features, or pixels.",
            )
        self.knows_classes = found.get("label") is not None
        return as_rows(found["features"]).shape[1]

    def _predict(self, images) -> Dict[str, np.ndarray]:
        check_shape(self._trained.data.shape, images.shape[1:], self.name)
        if self._trained.data.dtype != "uint8":
            images = images.astype(np.float32) / 255
        return self._trained.predict(images)


def as_rows(features: np.ndarray) -> np.ndarray:
    return features.reshape(len(features), -1)  # [N, F]


def check_shape(known, shape, name: str) -> None:
    """Raise DataError where images of `shape` come to features of images of shape `known`."""
    if tuple(shape) != tuple(known):
        raise DataError(
            f"The features ({name}) are of images {list(known)}, but these are {list(shape)}.",
            hint="Take features of a run with the same image_size and channels, or auto.",
        )


# ------------------------------------------------------------------------------------------- choice


def open_features(
    options: Any, data: Any, train: Any = None, say: Optional[Callable[[str], None]] = None
) -> Features:
    """What `options.features` names: "pixels", a run's folder, or "auto".

    data: the DataSpec of the images. train: the `Split` that "auto" trains on, which tells one data
    set from another. say: told when a classifier is trained. "auto" is pixels where the data has no
    classes to learn, or is no images.
    """
    if options.features == "auto" and not learnable(data, train):
        return PixelFeatures(data.shape)
    if options.features == "pixels":
        return PixelFeatures(data.shape)
    if options.features == "auto":
        return cached_classifier(options, data, train, say or say_on_stderr)
    if not os.path.isdir(options.features):
        raise UsageError(
            f"There is no run at '{options.features}' to take features from.",
            hint="Give the folder of a classifier's run, auto, or pixels.",
        )
    return opened(options.features, data)


def at_hand(options: Any, data: Any, train: Any) -> Optional[Features]:
    """What `open_features` gives where it knows classes and nothing needs to be trained first."""
    if options.features == "pixels":
        return None
    known = options.features != "auto" or learnable(data, train)
    if not known or (options.features == "auto" and not os.path.isdir(place_of(options, train))):
        return None
    found = open_features(options, data, train)
    if found.knows_classes:
        return found
    found.close()
    return None


def learnable(data: Any, train: Any) -> bool:
    images = len(data.shape) == 3 and min(data.shape[:2]) >= SMALLEST
    return images and data.num_classes > 1 and train is not None and train.labels is not None


def opened(folder: str, data: Any, name: str = "") -> ClassifierFeatures:
    """The features of a run. Raises DataError where its images have another shape than `data`."""
    trained = toolkit.open_trained(folder)
    try:
        check_shape(trained.data.shape, data.shape, name or folder)
        return ClassifierFeatures(trained, name)
    except BaseException:
        trained.close()
        raise


# -------------------------------------------------------------------------------------------- cache


def cached_classifier(options, data, train, say) -> ClassifierFeatures:
    """The classifier of this data from the cache; trained first where it is not there."""
    folder, plugin = place_of(options, train), options.features_plugin
    if not os.path.isdir(folder):
        say(f"Training a {plugin} on {options.data}, once: scores see by its features.")
        train_into(folder, plugin, training_settings(options, len(train)))
    try:
        return opened(folder, data, f"{plugin} of {options.data}")
    except CheckpointError as error:
        raise CheckpointError(error.message, hint=f"Delete {folder}: it is made anew.")


def place_of(options, train) -> str:
    """The folder of the cache that is for the classifier of this data."""
    plugin, settings = options.features_plugin, training_settings(options, len(train))
    name = f"{plugin}-{key_of(plugin, settings, train)}"
    return os.path.join(toolkit.cache_folder(), "features", name)


def say_on_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def training_settings(options: Any, examples: int) -> Dict[str, Any]:
    """The options of the classifier's run. They say nothing of the GAN's method or seed."""
    epochs = max(EPOCHS, STEPS * BATCH / examples)
    if examples > LARGEST:
        epochs = EPOCHS * LARGEST / examples
    settings = {
        name: getattr(options, name)
        for name in ("data", "image_size", "channels", "validation_share")
        if getattr(options, name, None) is not None
    }
    batch = min(BATCH, examples)
    return dict(settings, batch_size=batch, epochs=round(epochs, 3), seed=1)


def key_of(plugin: str, settings: Dict[str, Any], train: Any) -> str:
    """16 hex digits that change with anything that the classifier depends on."""
    told = [plugin, settings, digest_of(train), toolkit.__version__]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8")).hexdigest()[:16]


def digest_of(split: Any) -> str:
    """The SHA-256 of a split's examples with their labels and shape."""
    digest = hashlib.sha256(repr((len(split), tuple(split.shape), split.dtype)).encode("utf-8"))
    for start in range(0, len(split), CHUNK):
        features, labels = split.take(slice(start, start + CHUNK))
        digest.update(np.ascontiguousarray(features).tobytes())
        digest.update(b"" if labels is None else np.asarray(labels, "<i4").tobytes())
    return digest.hexdigest()


def train_into(folder: str, plugin: str, settings: Dict[str, Any]) -> None:
    """Train a run that appears at `folder` when it is whole.

    Of two processes that do so at once, the first to end is taken by both.
    """
    parent = os.path.dirname(folder)
    os.makedirs(parent, exist_ok=True)
    tidy(parent)
    temporary = tempfile.mkdtemp(prefix=".making-", dir=parent)
    try:
        made = os.path.join(temporary, "run")
        toolkit.train(plugin, made, dict(settings))
        with contextlib.suppress(OSError):
            os.rename(made, folder)
        if not os.path.isdir(folder):
            os.rename(made, folder)  # for its message
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def tidy(parent: str) -> None:
    """Delete what a killed process left behind long ago."""
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        with contextlib.suppress(OSError):
            if name.startswith(".making-") and time.time() - os.path.getmtime(path) > ABANDONED:
                shutil.rmtree(path, ignore_errors=True)
