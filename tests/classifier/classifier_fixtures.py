"""Helpers for tests of the classifier: its options, and runs on data of any shape."""

from toolkit_classifier.options import ClassifierOptions

from toolkit import DataSpec
from toolkit.graph.run import Run
from toolkit.options import resolve

PLAIN = {"shift": 0, "rotate": 0.0, "zoom": 0.0, "elastic": 0.0, "mixup": 0.0, "dropout": 0.0}


def make_data(shape=(28, 28, 1), num_classes=10, class_names=(), class_counts=()):
    return DataSpec(shape, "uint8", num_classes, class_names, class_counts)


def options(**values):
    """Resolved options, without augmentation and dropout unless `values` set them."""
    layer = ("test", dict(PLAIN, **values))
    return resolve([("classifier", ClassifierOptions)], [layer]).options


def make_run(mode="train", data=None, **values):
    return Run(mode, options(**values), data or make_data(), total_steps=100)
