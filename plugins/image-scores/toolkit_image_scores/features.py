"""The features that scores use: of a classifier, of a network trained without labels, or pixels.

Legend: N images, H height, W width, C channels, F features.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from toolkit_agreement import MIN_IMAGES, train_once

import toolkit
from toolkit import DataError, UsageError, statistics

from .options import WORDS

CELLS = 8  # per side, of the pixel features
CHUNK = 1000  # images that are floats at a time
MIN_SIDE = 8  # pixels: the smallest side of an image for a convolutional network
NUM_STEPS, BATCH_SIZE = 150, 64  # of a training: less than a tenth of the time of a GAN's
# The share of what lies between chance and 1 that the accuracy of a good classifier covers. Below
# it, classes that it confuses are near each other, and samples between two classes look real.
GOOD_SHARE = 0.8

# Images uint8 [N, H, W, C] -> features float32 [N, F], and predicted classes int [N] or None.
Compute = Callable[[np.ndarray], Tuple[np.ndarray, Optional[np.ndarray]]]


class Features(NamedTuple):
    """How images become features."""

    name: str  # for a person to read
    sha256: str  # of what computes the features, 64 hex digits
    size: int  # F
    compute: Compute
    knows_classes: bool = False  # whether it predicts classes, too
    class_names: Sequence[str] = ()  # of these, if they have names
    close: Callable[[], None] = lambda: None


def pixel_features(shape: Sequence[int]) -> Features:
    """Means over the cells of a grid, of each channel by itself, in [0, 1]. Where the shape is not
    (H, W, C), the features are the numbers themselves.
    """
    weights = [cell_weights(side) for side in shape[:2]] if len(shape) == 3 else []
    size = int(np.prod([*map(len, weights), *shape[len(weights) :]]))

    def compute(images: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        parts = []
        for start in range(0, len(images), CHUNK):
            means = images[start : start + CHUNK].astype(np.float32) / 255
            for axis, cells in zip((2, 1), reversed(weights)):
                means = np.tensordot(means, cells, axes=(axis, 1))  # last [N, C, cells, cells]
            parts.append(means)
        return np.concatenate(parts).reshape(len(images), size), None

    description = f"pixels: {size} features of {list(shape)}"
    return Features("pixels", hashlib.sha256(description.encode()).hexdigest(), size, compute)


def cell_weights(size: int) -> np.ndarray:
    """float32 [cells, size]: the weight of each pixel of a side in each cell; a row sums to 1."""
    cells, starts = min(CELLS, size), np.arange(size)
    bounds = np.linspace(0, size, cells + 1)
    upper, lower = np.minimum(bounds[1:, None], starts + 1), np.maximum(bounds[:-1, None], starts)
    return (np.maximum(upper - lower, 0) * cells / size).astype(np.float32)


def network_features(trained: Any, name: str = "") -> Features:
    """The features that a trained run predicts, which is closed with them. The name, for a person
    to read, is by default plugin, folder and step. Raises UsageError if its plugin predicts none.
    """
    name = name or f"{trained.plugin} {trained.folder}, step {trained.step}"

    def predict(images: np.ndarray) -> Dict[str, np.ndarray]:
        is_bytes = trained.data.dtype == "uint8"
        return trained.predict(images if is_bytes else images.astype(np.float32) / 255)

    def compute(images: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        columns = predict(images)
        return columns["features"].reshape(len(images), -1), columns.get("label")

    try:
        columns = predict(np.zeros((1, *trained.data.shape), np.uint8))  # a black image
    except DataError:  # a generator predicts from other inputs
        columns = {}
    if columns.get("features") is None:
        raise UsageError(
            f"{trained.folder}: plugin '{trained.plugin}' predicts no features of images.",
            hint="Name a classifier's run with --features, or use --features pixels.",
        )
    knows_classes, size = columns.get("label") is not None, int(columns["features"].size)
    names = trained.data.class_names
    return Features(name, trained.sha256, size, compute, knows_classes, names, trained.close)


# ------------------------------------------------------------------------------------------- choice


def list_kinds(options: Any, data: Any, train: Any = None) -> List[str]:
    """What the option `features` stands for: words of `WORDS`, the best first, or a run's folder.

    "classifier" and "self" are networks that are trained once, on the split `train`, and cached.
    "auto" means the classifier if the data has classes that it recognizes, else "self"; and pixels
    if the data are no images for such networks. Raises UsageError if there is no such run, or the
    data is not for the network.
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
    """Open the features that `options.features` names; see `list_kinds`. A classifier's options do
    not depend on the generator's method or seed. Raises UsageError as `list_kinds`, DataError if
    the run's images have another shape.
    """
    kind, *others = list_kinds(options, data, train)
    if kind == "classifier":
        values = {"steps": NUM_STEPS, "batch_size": min(BATCH_SIZE, len(train)), "seed": 1}
        trained = toolkit.cached_run(
            "classifier",
            dict(toolkit.data_options(options), **values),
            key=train.sha256(),
            text=f"Training a classifier on {options.data} for the scores (once, then cached)",
        )
        if not others or recognizes_classes(trained, train):
            return network_features(trained, f"classifier of {options.data}")
        trained.close()
        kind = others[0]
    if kind == "self":
        return network_features(train_once(options, train), f"self-supervised, of {options.data}")
    if kind == "pixels":
        return pixel_features(data.shape)
    trained = toolkit.open_trained(kind)
    own, shape = (list(each.shape) for each in (trained.data, data))
    if own != shape:
        trained.close()
        raise DataError(
            f"The features ({kind}) are of images {own}, but these are {shape}.",
            hint="Use features of a run with the same image_size and channels, or auto.",
        )
    return network_features(trained)


def recognizes_classes(trained: Any, train: Any) -> bool:
    """Whether a classifier is right so often that its features tell what an image shows.

    Chance is the share of the most frequent class. Of what lies between chance and 1, the accuracy
    has to cover `GOOD_SHARE`, and so has the lower end of its 95 % interval: the fewer test images
    there are, the more of them have to be right. Without test images, those of the validation
    count.
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
