"""The features that scores use: of a classifier, of a network trained without labels, or pixels.

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
from toolkit import (
    CheckpointError,
    DataError,
    InterruptedRun,
    RetryError,
    UsageError,
    statistics,
)

CELLS = 8  # per side, of the pixel features
MIN_SIDE = 8  # pixels: the smallest side of an image for a convolutional classifier
# A classifier trains for at least so many steps and so many epochs ...
MIN_STEPS = 1600
MIN_EPOCHS = 3
# The classifier trains on the training split of the GAN's run, and on nothing else.
PLAIN_OPTIONS = (
    *("data", "image_size", "channels", "fit", "background"),
    *("validation_share", "test_share", "folds", "fold", "split_seed"),
)
COLUMN_OPTIONS: Dict[str, Any] = {  # of tables and records, with their defaults
    **{"label_column": [], "label_kind": "auto", "image_column": None, "feature_columns": []},
    **{"ignore_columns": [], "split_column": "split", "missing": "refuse", "categories": "index"},
}
DATA_OPTIONS = (*PLAIN_OPTIONS, *COLUMN_OPTIONS)
# ... but on no more than three times so many examples.
MAX_EXAMPLES = 60000
BATCH_SIZE = 64
WORDS = ("auto", "self", "classifier", "pixels")  # of the option `features`
DEFAULT_PLUGIN = "classifier"  # of the option `features_plugin`
# The share of what lies between chance and 1 that the accuracy of a good classifier covers. Below
# it, classes that it confuses are near each other, and samples between two classes look real.
GOOD_SHARE = 0.8
AGREEMENT = "toolkit_gan.agreement:"  # the plugin that learns without labels
MIN_IMAGES_WITHOUT_LABELS = 32  # of which batches differ enough
# What it changes in each view of an image, and in colour images besides.
AGREEMENT_CHANGES = {
    "augment": "icons",
    **{"crop": 0.1, "rotate": 15.0, "zoom": 0.2, "elastic": 0.7},
    **{"brightness": 0.2, "contrast": 0.2, "saturation": 0.0, "hue": 0.0},
}
AGREEMENT_COLOURS = {"saturation": 0.3, "hue": 0.03}
PIXELS_OF_ALL_STEPS = 40 * 40  # larger images get fewer steps, in inverse proportion ...
MIN_SHARE_OF_STEPS = 0.25  # ... but at least this share
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
        num_test_images: of the accuracy; 0 if it is unknown.
        validation_accuracy: of `labels` on validation images, likewise.
        num_validation_images: of that; likewise.
    """

    name = ""
    sha256 = ""
    size = 0
    knows_classes = False
    accuracy: Optional[float] = None
    num_test_images = 0
    validation_accuracy: Optional[float] = None
    num_validation_images = 0

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


# ------------------------------------------------------------------------------------ of a network


class NetworkFeatures(Features):
    """The features that a trained run predicts.

    Attributes:
        trained: the open run.
        is_finished: whether the run trained to its end.

    Args:
        trained: of `toolkit.open_trained`.
        name: for a person to read; by default plugin, folder and step.

    Raises:
        UsageError: the run's plugin predicts no features.
    """

    def __init__(self, trained: Any, name: str = ""):
        self.trained = trained
        self.name = name or f"{trained.plugin} {trained.folder}, step {trained.step}"
        self.sha256 = trained.sha256
        self.size = self._find_size()
        summary = trained.summary or {}
        self.is_finished = bool(summary.get("finished"))
        self.accuracy, self.num_test_images = read_accuracy(summary.get("test"))
        self.validation_accuracy, self.num_validation_images = read_accuracy(trained.validation)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return self.features_and_labels(images)[0]

    def labels(self, images: np.ndarray) -> Optional[np.ndarray]:
        return self.features_and_labels(images)[1]

    def features_and_labels(self, images: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        columns = self._predict(images)
        return flatten(columns["features"]), columns.get("label")

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
        return flatten(columns["features"]).shape[1]

    def _predict(self, images: np.ndarray) -> Dict[str, np.ndarray]:
        check_shape(self.trained.data.shape, images.shape[1:], self.name)
        if self.trained.data.dtype != "uint8":
            images = images.astype(np.float32) / 255
        return self.trained.predict(images)


def read_accuracy(result: Optional[Dict[str, Any]]) -> Tuple[Optional[float], int]:
    """The accuracy of an evaluation and its number of images; None and 0 if they are unknown."""
    result = result or {}
    return (result.get("metrics") or {}).get("accuracy"), int(result.get("examples") or 0)


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
    """Open the features that `options.features` names: a word of `WORDS`, or a run's folder.

    "classifier" and "self" are networks that are trained once and cached. "auto" means the
    classifier if the data has classes that it recognizes (`recognizes_classes`), else "self"; and
    pixels if the data are no images for such networks.

    Args:
        options: of the run.
        data: the `DataSpec` of the images.
        train: the `Split` that a network is trained on.
        log: called with a text if a network is trained; by default it goes to stderr.

    Raises:
        UsageError: there is no such run, or the data is not for the network.
    """
    log = log or log_to_stderr
    if options.features == "auto":
        return open_best_features(options, data, train, log)
    if options.features == "pixels":
        return PixelFeatures(data.shape)
    if options.features == "self":
        check_trainable("self", data, train)
        return cached_agreement(options, data, train, log)
    if options.features == "classifier":
        check_trainable("classifier", data, train)
        return cached_classifier(options, data, train, log)
    if not os.path.isdir(options.features):
        raise UsageError(
            f"There is no run at '{options.features}' to take features from.",
            hint="Give the folder of a classifier's run, or one of: " + ", ".join(WORDS) + ".",
        )
    return open_network(options.features, data)


def open_best_features(options: Any, data: Any, train: Any, log: Callable[[str], None]) -> Features:
    """The features of "auto", see `open_features`."""
    if has_learnable_classes(data, train):
        features = cached_classifier(options, data, train, log)
        is_chosen = options.features_plugin != DEFAULT_PLUGIN
        if recognizes_classes(features, train, is_chosen):
            return features
        features.close()
    if are_trainable_images(data, train):
        return cached_agreement(options, data, train, log)
    return PixelFeatures(data.shape)


def has_learnable_classes(data: Any, train: Any) -> bool:
    """Whether a classifier can be trained on the data."""
    is_image = len(data.shape) == 3 and min(data.shape[:2]) >= MIN_SIDE
    return is_image and data.num_classes > 1 and train is not None and train.labels is not None


def are_trainable_images(data: Any, train: Any) -> bool:
    """Whether a network can be trained on the data without labels."""
    is_image = len(data.shape) == 3 and min(data.shape[:2]) >= MIN_SIDE
    return is_image and train is not None and len(train) >= MIN_IMAGES_WITHOUT_LABELS


def check_trainable(name: str, data: Any, train: Any) -> None:
    """Raise UsageError unless the network of the features "self" or "classifier" can be trained."""
    if name == "self":
        is_trainable = are_trainable_images(data, train)
        needs = f"{MIN_IMAGES_WITHOUT_LABELS} images or more"
    else:
        is_trainable, needs = has_learnable_classes(data, train), "images of two classes or more"
    if not is_trainable:
        count = 0 if train is None else len(train)
        raise UsageError(
            f"The features '{name}' need {needs}, {MIN_SIDE} pixels or more on each side, and the "
            f"data has {count} examples {list(data.shape)} of {data.num_classes} classes.",
            hint="Set --features auto, or pixels.",
        )


def recognizes_classes(features: Features, train: Any, is_chosen: bool = False) -> bool:
    """Whether a classifier is right so often that its features tell what an image shows.

    Chance is the share of the most frequent class. Of what lies between chance and 1, the accuracy
    has to cover `GOOD_SHARE`, and so has the lower end of its 95 % interval: the fewer test images
    there are, the more of them have to be right. Without test images, those of the validation
    count.

    Args:
        features: of the classifier.
        train: the `Split` that it was trained on.
        is_chosen: whether the user chose its plugin, which may measure no accuracy.
    """
    accuracy, num_images = features.accuracy, features.num_test_images
    if accuracy is None:
        accuracy, num_images = features.validation_accuracy, features.num_validation_images
    if accuracy is None:
        return is_chosen
    counts = np.bincount(np.asarray(train.labels).ravel())
    chance = float(counts.max() / counts.sum())
    low = accuracy
    if num_images:
        low = statistics.wilson(round(accuracy * num_images), num_images).low
    return low >= chance + GOOD_SHARE * (1 - chance)


def open_network(folder: str, data: Any, name: str = "", trust: bool = False) -> NetworkFeatures:
    """Open the features of a run. Raises DataError if its images have another shape than `data`.

    Args:
        folder: of the run.
        data: the `DataSpec` of the images.
        name: of the features.
        trust: see `toolkit.open_trained`.
    """
    trained = toolkit.open_trained(folder, trust=True) if trust else toolkit.open_trained(folder)
    try:
        check_shape(trained.data.shape, data.shape, name or folder)
        return NetworkFeatures(trained, name)
    except BaseException:
        trained.close()
        raise


# -------------------------------------------------------------------------------------------- cache


def cached_classifier(
    options: Any, data: Any, train: Any, log: Callable[[str], None]
) -> NetworkFeatures:
    """Open the classifier of this data from the cache; train it first if it is not there."""
    plugin = options.features_plugin
    run_options = training_options(options, len(train))
    folder = cache_path(plugin, run_options, train)
    if not os.path.isdir(folder):
        log(f"Training a {plugin} on {options.data} for the scores (once, then cached).")
        train_into_cache(folder, plugin, run_options)
    return open_cached(folder, data, f"{plugin} of {options.data}")


def cached_agreement(
    options: Any, data: Any, train: Any, log: Callable[[str], None]
) -> NetworkFeatures:
    """Open the network that learned without labels from the cache; train it first if need be.

    The run is one of the plugin `AGREEMENT`, see `toolkit_gan.agreement`.
    """
    run_options = agreement_options(options, data.shape, len(train))
    folder = cache_path(AGREEMENT, run_options, train)
    if not os.path.isdir(folder):
        log(
            f"Training a network without labels on {options.data} for features of its images "
            "(once, then cached)."
        )
        train_into_cache(folder, AGREEMENT, run_options)
    # A cache may come from another machine. The reference names this package's own code.
    is_own = read_plugin(folder) == AGREEMENT
    return open_cached(folder, data, f"self-supervised, of {options.data}", trust=is_own)


def read_plugin(folder: str) -> str:
    """What config.json of a run names as its only plugin; "" if there are more or it is damaged."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        return "" if config.get("with") else str(config.get("plugin"))
    return ""


def open_cached(folder: str, data: Any, name: str, trust: bool = False) -> NetworkFeatures:
    """Open a run of the cache. Raises CheckpointError if it is damaged, with a hint."""
    try:
        return open_finished(folder, data, name, trust)
    except CheckpointError as error:
        hint = f"Delete {folder}; it will be trained again."
        raise CheckpointError(error.message, hint=hint) from error


def open_finished(folder: str, data: Any, name: str, trust: bool) -> NetworkFeatures:
    """Open a run of the cache. Raises CheckpointError if it is not trained to its end."""
    features = open_network(folder, data, name, trust)
    if (
        not features.is_finished
    ):  # copied from elsewhere; a training here appears when it is finished
        features.close()
        raise CheckpointError(f"The network in {folder} is not trained to its end.")
    return features


def cache_path(plugin: str, run_options: Dict[str, Any], train: Any) -> str:
    """The folder in the cache for the network that a plugin trains with these options."""
    key = cache_key(plugin, run_options, train)
    name = "self" if plugin == AGREEMENT else os.path.basename(plugin)
    name = re.sub(r"[^\w.-]+", "-", name)  # a path would leave the cache
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
    batch_size = min(BATCH_SIZE, num_examples)
    return dict(data_options(options), batch_size=batch_size, epochs=round(epochs, 3), seed=1)


def data_options(options: Any) -> Dict[str, Any]:
    """Return the options of a run that say which examples there are.

    Args:
        options: of the GAN's run.
    """
    result = {name: getattr(options, name, None) for name in PLAIN_OPTIONS}
    for name, default in COLUMN_OPTIONS.items():  # at their defaults, they change no key
        value = getattr(options, name, default)
        result[name] = None if value == default else value
    return {name: value for name, value in result.items() if value is not None}


def agreement_options(options: Any, shape: Sequence[int], num_examples: int) -> Dict[str, Any]:
    """The options of the run that learns without labels.

    Images are moved, turned, zoomed, bent and made brighter, none of which changes what a digit, a
    letter or an icon shows; none is mirrored. Only images in colour change theirs, and little: a
    red light is no green one. Large images, of which a step takes longer, get fewer steps.

    Args:
        options: of the GAN's run.
        shape: (H, W, C) of the images.
        num_examples: of the training split.
    """
    result = training_options(options, num_examples)
    height, width, channels = shape
    share = min(1.0, max(MIN_SHARE_OF_STEPS, PIXELS_OF_ALL_STEPS / (height * width)))
    result.update(AGREEMENT_CHANGES, epochs=round(share * result["epochs"], 3))
    if channels == 3:
        result.update(AGREEMENT_COLOURS)
    return result


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
    if plugin != AGREEMENT and not (plugin.endswith(".py") or os.sep in plugin):
        return [plugin]
    path = os.path.realpath(plugin)
    if plugin == AGREEMENT:
        path = os.path.join(
            os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "agreement.py"
        )
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
            hint="Set TOOLKIT_CACHE to a folder that can be written, or take pixels for --features "
            "and --cluster-features.",
        ) from error
    try:
        run_folder = os.path.join(temporary, "run")
        # The plugin may come from the configuration of a stranger's run.
        named_by = "" if plugin == AGREEMENT else "option features_plugin"
        toolkit.train(plugin, run_folder, run_options, say=False, named_by=named_by)
        with contextlib.suppress(OSError):
            os.rename(run_folder, folder)
        if not os.path.isdir(folder):
            os.rename(run_folder, folder)  # raises the error that was suppressed
    except InterruptedRun as error:
        raise InterruptedRun(
            "Interrupted while the network of the features was trained; it is not saved.",
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
