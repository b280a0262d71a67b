"""Small helpers for plugins: imports on first use, and checks of features."""

from __future__ import annotations

import importlib
from typing import Any, Sequence

from .errors import DataError, UsageError


class LazyModules:
    """The submodules of a package as attributes, each imported when it is first used.

    A plugin's `__init__` then names its modules without importing TensorFlow:

        modules = LazyModules(__name__)

        @hookimpl
        def build(run):
            return modules.networks.build(run)
    """

    def __init__(self, package: str):
        self._package = package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by `inspect` and `copy`, not by a plugin
            raise AttributeError(name)
        module = importlib.import_module(f"{self._package}.{name}")
        setattr(self, name, module)
        return module


def check_features(data: Any, subject: str) -> None:
    """Check that examples are one array of images or of floats.

    Float images need values from 0 to 1, as images of bytes have in the graph: changes of colour
    clip training images to that range. Other float features may have any values.

    Args:
        data: the `DataSpec` of the data.
        subject: what is fed the examples, for the message: "A network".

    Raises:
        DataError: the features have names, or are whole numbers or texts; or training images have
            values outside of [0, 1], or NaN.
    """
    names = data.feature_names
    if names:
        raise DataError(
            f"{subject} needs one array of features, and the data has the features "
            f"{', '.join(names)}.",
            hint="Of a table, --categories one-hot makes one array of numbers and categories, and "
            "--ignore-columns leaves columns out; or choose a plugin for named features.",
        )
    if data.dtype not in ("uint8", "float32"):
        raise DataError(
            f"{subject} needs images or floats, and the features of the data are "
            f"{data.features.describe()}.",
            hint="Store images as uint8, from 0 to 255, and other numbers as float32, or choose a "
            "plugin for such features.",
        )
    check_value_range(data, subject)


def check_value_range(data: Any, subject: str) -> None:
    """Check that float training images have values from 0 to 1, as `check_features` does, whatever
    the other features are.

    Args:
        data: the `DataSpec` of the data.
        subject: what is fed the examples, for the message: "A network".

    Raises:
        DataError: they have values outside of [0, 1], or NaN.
    """
    low, high = data.value_range or (0, 1)  # of float images alone
    if not 0 <= low <= high <= 1:  # as NaN is not
        raise DataError(
            f"{subject} needs float images with values from 0 to 1, and the training images have "
            f"values from {low:g} to {high:g}.",
            hint="Scale them to 0 to 1 before you save them (divide 0 to 255 by 255), or save "
            "uint8 from 0 to 255; 'toolkit data check' says where NaN is.",
        )


def check_image_size(shape: Sequence[int], min_side: int, subject: str, remedy: str) -> None:
    """Check that examples are images, and large enough.

    Args:
        shape: the shape of one example; [H, W, C] for images.
        min_side: the least height and width, in pixels.
        subject: what needs the images, for the message: "Network 'cnn'".
        remedy: how to avoid that, for the hint: "Set network=mlp".

    Raises:
        UsageError: the examples are no images, or too small.
    """
    if len(shape) != 3:
        raise UsageError(
            f"{subject} needs images [H, W, C], but an example of the data has shape "
            f"{list(shape)}.",
            hint=f"{remedy} for data that are not images.",
        )
    height, width = shape[:2]
    if min(height, width) < min_side:
        raise UsageError(
            f"{subject} needs images of {min_side} x {min_side} pixels or more, but the data has "
            f"{height} x {width}.",
            hint=f"{remedy}, or a larger image_size.",
        )
