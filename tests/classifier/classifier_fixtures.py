"""Helpers for tests of the classifier: its runs, on data of any shape."""

from toolkit import DataSpec, testing

PLAIN = {"shift": 0, "rotate": 0.0, "zoom": 0.0, "elastic": 0.0, "mixup": 0.0, "dropout": 0.0}


def make_data(shape=(28, 28, 1), num_classes=10, class_names=(), class_counts=()):
    return DataSpec(shape, "uint8", num_classes, class_names, class_counts)


def make_run(mode="train", data=None, **values):
    """A run without augmentation and dropout unless `values` set them."""
    return testing.make_run("classifier", mode, data or make_data(), **dict(PLAIN, **values))
