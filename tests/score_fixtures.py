"""Data and a classifier for the tests of the scores: grey noise with one bright quarter."""

import types

import numpy as np

from toolkit import DataSpec, Split

SHAPE, CLASSES = (8, 8, 1), 4
SPEC = DataSpec(SHAPE, "uint8", CLASSES, ("north", "east", "south", "west"))


def make_images(labels, seed=0):
    """uint8 [N, 8, 8, 1]: grey noise with one bright quarter, which is the class."""
    random = np.random.RandomState(seed)
    images = random.randint(20, 60, (len(labels),) + SHAPE)
    for image, label in zip(images, labels):
        row, column = divmod(int(label), 2)
        image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += random.randint(100, 160)
    return images.astype(np.uint8)


def make_split(count, seed=0):
    """A `Split` of images with their classes."""
    labels = np.arange(count) % CLASSES
    return Split(make_images(labels, seed), labels)


SPLITS = {"train": make_split(400), "test": make_split(300, seed=1)}


class QuarterClassifier:
    """As `toolkit.open_trained` returns it: it finds the bright quarter; its features are means."""

    folder, plugin, step, sha256 = "runs/quarters", "classifier", 700, "ab" * 32
    summary = {"test": {"metrics": {"accuracy": 0.994}}}
    validation = None

    def __init__(self, data=SPEC, labels=True, features=True):
        self.data, self.is_closed = data, False
        self.num_inputs, self._labels, self._features = 0, labels, features

    def predict(self, inputs, batch_size=None):
        self.num_inputs += len(inputs)
        scale = 255 if self.data.dtype == "uint8" else 1
        quarters = inputs.reshape(-1, 2, 4, 2, 4, inputs.shape[-1]).mean((2, 4, 5)) / scale
        columns = {"probability": np.ones(len(inputs))}
        if self._features:
            columns["features"] = quarters.reshape(-1, 4).astype(np.float32)
        if self._labels:
            columns["label"] = quarters.reshape(-1, 4).argmax(1)
        return columns

    def close(self):
        self.is_closed = True


def make_options(**changes):
    """The options that the scores read."""
    scores = {"features": "auto", "quick_samples": 200, "score_samples": 300, "two_sample": False}
    values = {"data": "mnist5k", "evaluate": True, "best_metric": None, **scores, **changes}
    return types.SimpleNamespace(**values)
