"""The features that scores use: a trained classifier's, or means of pixels without one.

Legend: N images, H height, W width, C channels, F features.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

import toolkit
from toolkit import CheckpointError, DataError, InterruptedRun, RetryError, UsageError

CELLS = 8  # per side, of the pixel features
MIN_SIDE = 8  # pixels: the smallest side of an image for a convolutional classifier
# A classifier trains for at least so many steps and so many epochs ...
MIN_STEPS = 1600
MIN_EPOCHS = 3
# The classifier trains on the training split of the GAN's run, and on nothing else.
DATA_OPTIONS = (
    *("data", "image_size", "channels", "fit", "background"),
    *("validation_share", "test_share", "folds", "fold", "split_seed"),
)
# ... but on no more than three times so many examples.
MAX_EXAMPLES = 60000
BATCH_SIZE = 64
CHUNK = 1000  # images that are floats at a time
# In the cache, this marks the folder of a training under way ...
TEMPORARY_PREFIX = ".making-"
ABANDONED_SECS = 24 * 3600  # ... which was killed if it is older than this


class Features:
    """Computes the features of images.

    Attributes:
        name: for a person to read.
        sha256: of what computes the features, 64 hex digits.
        size: F.
        knows_classes: whether `labels` returns any.
        accuracy: of `labels` on test images, in [0, 1], or None if it is unknown.
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
        """int [N]: the predicted class of each image, or None without a classifier."""
        return None

    def features_and_labels(self, images: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """Both, computed together."""
        return self(images), self.labels(images)

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

    def __call__(self, images: np.ndarray) -> np.ndarray:
        check_shape(self._shape, images.shape[1:], "pixels")
        starts = range(0, len(images), CHUNK)
        means = [self._means(images[start : start + CHUNK]) for start in starts]
        return np.concatenate(means).reshape(len(images), self.size)

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


# ---------------------------------------------------------------------------------- of a classifier


class ClassifierFeatures(Features):
    """The features that a trained run predicts.

    Attributes:
        is_finished: whether the run trained to its end.

    Args:
        trained: of `toolkit.open_trained`.
        name: for a person to read; by default plugin, folder and step.

    Raises:
        UsageError: the run's plugin predicts no features.
    """

    def __init__(self, trained: Any, name: str = ""):
        self._trained = trained
        self.name = name or f"{trained.plugin} {trained.folder}, step {trained.step}"
        self.sha256 = trained.sha256
        self.size = self._find_size()
        summary = trained.summary or {}
        self.is_finished = bool(summary.get("finished"))
        test = summary.get("test") or {}
        self.accuracy = test.get("metrics", {}).get("accuracy")

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return self.features_and_labels(images)[0]

    def labels(self, images: np.ndarray) -> Optional[np.ndarray]:
        return self.features_and_labels(images)[1]

    def features_and_labels(self, images: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        columns = self._predict(images)
        return flatten(columns["features"]), columns.get("label")

    def close(self) -> None:
        self._trained.close()

    def _find_size(self) -> int:
        """F, from the prediction for one black image."""
        plugin = f"{self._trained.folder}: plugin '{self._trained.plugin}'"
        hint = "Name a classifier's run with --features, or use --features pixels."
        try:
            columns = self._predict(np.zeros((1,) + tuple(self._trained.data.shape), np.uint8))
        except DataError as error:  # a generator, for example
            raise UsageError(
                f"{plugin} predicts from other inputs than images, and has no features.", hint=hint
            ) from error
        if columns.get("features") is None:
            names = ", ".join(sorted(columns))
            raise UsageError(f"{plugin} predicts {names}, and no features.", hint=hint)
        self.knows_classes = columns.get("label") is not None
        return flatten(columns["features"]).shape[1]

    def _predict(self, images: np.ndarray) -> Dict[str, np.ndarray]:
        check_shape(self._trained.data.shape, images.shape[1:], self.name)
        if self._trained.data.dtype != "uint8":
            images = images.astype(np.float32) / 255
        return self._trained.predict(images)


def flatten(features: np.ndarray) -> np.ndarray:
    """Features as [N, F]."""
    return features.reshape(len(features), -1)


def check_shape(expected: Sequence[int], shape: Sequence[int], name: str) -> None:
    """Check the shape of images against that of the features' images. Raises DataError."""
    if tuple(shape) != tuple(expected):
        raise DataError(
            f"The features ({name}) are of images {list(expected)}, but these are {list(shape)}.",
            hint="Use features of a run with the same image_size and channels, or auto.",
        )


# ------------------------------------------------------------------------------------------- choice


def open_features(
    options: Any, data: Any, train: Any = None, log: Optional[Callable[[str], None]] = None
) -> Features:
    """Open the features that `options.features` names: "pixels", a run's folder, or "auto".

    "auto" means a classifier, or pixels if the data are no images or have no classes to learn.

    Args:
        options: of the run.
        data: the `DataSpec` of the images.
        train: the `Split` that the classifier of "auto" is trained on.
        log: called with a text if a classifier is trained; by default it goes to stderr.
    """
    if options.features == "auto" and not has_learnable_classes(data, train):
        return PixelFeatures(data.shape)
    if options.features == "pixels":
        return PixelFeatures(data.shape)
    if options.features == "auto":
        return cached_classifier(options, data, train, log or log_to_stderr)
    if not os.path.isdir(options.features):
        raise UsageError(
            f"There is no run at '{options.features}' to take features from.",
            hint="Give the folder of a classifier's run, auto, or pixels.",
        )
    return open_classifier(options.features, data)


def has_learnable_classes(data: Any, train: Any) -> bool:
    """Whether a classifier can be trained on the data."""
    is_image = len(data.shape) == 3 and min(data.shape[:2]) >= MIN_SIDE
    return is_image and data.num_classes > 1 and train is not None and train.labels is not None


def open_classifier(folder: str, data: Any, name: str = "") -> ClassifierFeatures:
    """Open the features of a run. Raises DataError if its images have another shape than `data`."""
    trained = toolkit.open_trained(folder)
    try:
        check_shape(trained.data.shape, data.shape, name or folder)
        return ClassifierFeatures(trained, name)
    except BaseException:
        trained.close()
        raise


# -------------------------------------------------------------------------------------------- cache


def cached_classifier(
    options: Any, data: Any, train: Any, log: Callable[[str], None]
) -> ClassifierFeatures:
    """Open the classifier of this data from the cache; train it first if it is not there."""
    folder, plugin = cache_path(options, train), options.features_plugin
    if not os.path.isdir(folder):
        log(f"Training a {plugin} on {options.data} for the scores (once, then cached).")
        train_into_cache(folder, plugin, training_options(options, len(train)))
    try:
        return open_finished(folder, data, f"{plugin} of {options.data}")
    except CheckpointError as error:
        hint = f"Delete {folder}; it will be trained again."
        raise CheckpointError(error.message, hint=hint) from error


def open_finished(folder: str, data: Any, name: str) -> ClassifierFeatures:
    """Open a run of the cache. Raises CheckpointError if it is not trained to its end."""
    features = open_classifier(folder, data, name)
    if (
        not features.is_finished
    ):  # copied from elsewhere; a training here appears when it is finished
        features.close()
        raise CheckpointError(f"The classifier in {folder} is not trained to its end.")
    return features


def cache_path(options: Any, train: Any) -> str:
    """The folder in the cache for the classifier of this data."""
    plugin = options.features_plugin
    key = cache_key(plugin, training_options(options, len(train)), train)
    name = re.sub(r"[^\w.-]+", "-", os.path.basename(plugin))  # a path would leave the cache
    return os.path.join(toolkit.cache_folder(), "features", f"{name}-{key}")


def log_to_stderr(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def training_options(options: Any, num_examples: int) -> Dict[str, Any]:
    """The options of the classifier's run; they do not depend on the GAN's method or seed.

    Args:
        options: of the GAN's run.
        num_examples: of the training split.
    """
    epochs = max(MIN_EPOCHS, MIN_STEPS * BATCH_SIZE / num_examples)
    if num_examples > MAX_EXAMPLES:
        epochs = MIN_EPOCHS * MAX_EXAMPLES / num_examples
    data_options = {
        name: getattr(options, name)
        for name in DATA_OPTIONS
        if getattr(options, name, None) is not None
    }
    batch_size = min(BATCH_SIZE, num_examples)
    return dict(data_options, batch_size=batch_size, epochs=round(epochs, 3), seed=1)


def cache_key(plugin: str, run_options: Dict[str, Any], train: Any) -> str:
    """16 hex digits, a hash of everything that the classifier depends on.

    The data counts by its contents, and a plugin's file by its place and contents: their paths are
    other texts where a run is resumed or moved.
    """
    run_options = {name: value for name, value in run_options.items() if name != "data"}
    parts = [plugin_identity(plugin), run_options, train.sha256(), toolkit.__version__]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8")).hexdigest()[:16]


def plugin_identity(plugin: str) -> List[str]:
    """The name of a plugin, or the real path and the SHA-256 of the file that it is."""
    if not (plugin.endswith(".py") or os.sep in plugin):
        return [plugin]
    path = os.path.realpath(plugin)
    with contextlib.suppress(OSError), open(path, "rb") as file:  # the training reports it
        return [path, hashlib.sha256(file.read()).hexdigest()]
    return [path]


def train_into_cache(folder: str, plugin: str, run_options: Dict[str, Any]) -> None:
    """Train a run that appears at `folder` when it is complete.

    If two processes do this at once, both use the run that is complete first.
    """
    parent = os.path.dirname(folder)
    try:
        os.makedirs(parent, exist_ok=True)
        remove_abandoned(parent)
        temporary = tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=parent)
    except OSError as error:
        raise RetryError(
            f"The cache cannot be written: {error.filename}: {error.strerror}.",
            hint="Set TOOLKIT_CACHE to a folder that can be written, or --features pixels.",
        ) from error
    try:
        run_folder = os.path.join(temporary, "run")
        # The plugin may come from the configuration of a stranger's run.
        toolkit.train(plugin, run_folder, dict(run_options), named_by="option features_plugin")
        with contextlib.suppress(OSError):
            os.rename(run_folder, folder)
        if not os.path.isdir(folder):
            os.rename(run_folder, folder)  # raises the error that was suppressed
    except InterruptedRun as error:
        raise InterruptedRun(
            "Interrupted while a classifier was trained for the scores; it is not saved.",
            hint="The same command trains it from the start.",
            signum=error.exit_code - 128,
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_abandoned(parent: str) -> None:
    """Delete what a killed process left behind long ago."""
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        with contextlib.suppress(OSError):
            age = time.time() - os.path.getmtime(path)
            if name.startswith(TEMPORARY_PREFIX) and age > ABANDONED_SECS:
                shutil.rmtree(path, ignore_errors=True)
