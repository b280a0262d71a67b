"""Read files to predict on, and select the columns of a prediction to show.

Examples are converted as the training data was. An image of another size is cropped to its central
square and scaled, as `--data images:` does. An image with dark ink on light paper is inverted if
the training images have light ink on dark paper, and vice versa. Both are logged.

Legend: N examples, H height, W width, C channels.
"""

from __future__ import annotations

import os
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from ..data.examples import DataSpec, Split
from ..data.idx import read_idx
from ..data.images import decode_image
from ..data.named_arrays import ArraySpecs, check_arrays, describe_specs
from ..data.npz import read_arrays
from ..data.prepare import Convert, ExampleHooks, prepare
from ..errors import DataError, UsageError
from ..run_data import border_mean
from .evaluator import ModelInputs

ARRAY_KEYS = ("features", "images", "x", "x_test", "x_train")
_MIN_CONTRAST = 0.05  # between paper and mean, below which training images have no clear paper
_MIN_GAIN = 0.2  # by which inverting has to bring an image's paper closer to the training images'


class Examples(NamedTuple):
    """The examples in some files."""

    inputs: ModelInputs  # [N, ...], or a dict of such arrays
    names: List[str]  # [N], for example "FILE" or "FILE[3]"


class ImageReader(NamedTuple):
    """How image files are converted to examples.

    Attributes:
        spec: the `DataSpec` of the training data as stored, before the hook `convert`.
        brightness: the "border" and "mean" of the training images in [0, 1], or None; see
            `toolkit.run_data.Brightness`.
        invert: "yes", "no", or "auto" to compare with the training images.
        log: called with a line of text for each image that is scaled or inverted.
    """

    spec: DataSpec
    brightness: Optional[Dict[str, float]]
    invert: str
    log: Callable[[str], None]

    def read(self, path: str) -> np.ndarray:
        """Read an image file as uint8 [1, H, W, C] of the training images' size."""
        if len(self.spec.shape) != 3 or self.spec.dtype != "uint8":
            raise DataError(
                f"{path}: the model was trained on examples {list(self.spec.shape)} "
                f"{self.spec.dtype}, not on images.",
                hint="Give an .npz file.",
            )
        image = self._scale(path)[np.newaxis]  # [1, H, W, C]
        if not _is_inverted(image, self.brightness, self.invert):
            return image
        if self.invert == "auto":
            self.log(f"note: {path} is inverted to match the training images")
        return 255 - image

    def _scale(self, path: str) -> np.ndarray:
        height, width, channels = self.spec.shape
        image = decode_image(path, None, channels)
        if image.shape[:2] == (height, width):
            return image
        self.log(f"note: {path} is {image.shape[1]}x{image.shape[0]}, scaled to {width}x{height}")
        return decode_image(path, (width, height), channels)


def read_examples(
    paths: List[str],
    spec: DataSpec,
    brightness: Optional[Dict[str, float]],
    invert: str = "auto",
    convert: Optional[Convert] = None,
    log: Callable[[str], None] = lambda text: None,
) -> Examples:
    """Read image files, .npz files and IDX files.

    Args:
        paths: of the files.
        spec: as in `ImageReader`; so are `brightness`, `invert` and `log`.
        brightness: of the training images.
        invert: whether to invert image files: "auto", "yes" or "no".
        convert: the hook of that name as a function of one example, or None.
        log: called with notes on single files.

    Raises:
        DataError: a file cannot be read, or has another shape or type.
    """
    images = ImageReader(spec, brightness, invert, log)
    arrays: List[np.ndarray] = []
    names: List[str] = []
    for path in paths:
        array = _read(path, images)
        arrays.append(array)
        names += _example_names(path, len(array))
    features = np.concatenate(arrays)
    if convert is not None:
        features = prepare(Split(features), ExampleHooks(convert=convert)).features
    return Examples(features, names)


def read_inputs(paths: List[str], specs: ArraySpecs) -> Examples:
    """Read .npz files for a model with the hook `inputs`.

    Args:
        paths: of files that contain an array of each name, with one row per example.
        specs: name -> (dtype, shape of one row).

    Raises:
        DataError: a file is no .npz file, or its arrays do not fit.
    """
    files: List[Dict[str, np.ndarray]] = []
    names: List[str] = []
    for path in paths:
        _check_is_file(path)
        if not path.endswith(".npz"):
            raise DataError(
                f"{path}: the model is fed {describe_specs(specs)}, not examples.",
                hint="Give an .npz file with arrays of these names.",
            )
        arrays = check_arrays(read_arrays(path), specs, path)
        files.append(arrays)
        names += _example_names(path, min(map(len, arrays.values())))
    return Examples({n: np.concatenate([arrays[n] for arrays in files]) for n in specs}, names)


def _example_names(path: str, count: int) -> List[str]:
    return [path] if count == 1 else [f"{path}[{i}]" for i in range(count)]


def _check_is_file(path: str) -> None:
    if not os.path.isfile(path):
        raise DataError(f"{path}: no such file.")


def _read(path: str, images: ImageReader) -> np.ndarray:
    _check_is_file(path)
    if path.endswith(".npz"):
        arrays = read_arrays(path)
        key = next((k for k in ARRAY_KEYS if k in arrays), None)
        if key is None:
            raise DataError(
                f"{path}: expected an array {' or '.join(ARRAY_KEYS)}, found "
                f"{', '.join(sorted(arrays)) or 'none'}."
            )
        return _fit_shape(path, arrays[key], images.spec)
    if _is_idx(path):
        return _fit_shape(path, read_idx(path), images.spec)
    return images.read(path)


def _is_idx(path: str) -> bool:
    name = os.path.basename(path)
    return "idx" in name or name.replace(".gz", "").endswith("ubyte")


def _fit_shape(path: str, array: np.ndarray, spec: DataSpec) -> np.ndarray:
    """Check an array's shape and dtype, and add a missing batch or channel axis.

    Returns:
        [N, ...] of the training data's shape and dtype.
    """
    shape = tuple(spec.shape)
    if array.shape == shape or (shape[-1:] == (1,) and array.shape == shape[:-1]):
        array = array[np.newaxis]  # [1, ...]
    if shape[-1:] == (1,) and array.shape[1:] == shape[:-1]:
        array = array[..., np.newaxis]  # [N, ..., 1]
    if array.shape[1:] != shape or (spec.dtype == "uint8") != (array.dtype == np.uint8):
        raise DataError(
            f"{path}: expected examples {list(shape)} {spec.dtype}, found "
            f"{list(array.shape[1:])} {array.dtype}.",
            hint="Give image files to have them scaled.",
        )
    return np.asarray(array, spec.dtype)


def _is_inverted(image: np.ndarray, brightness: Optional[Dict[str, float]], invert: str) -> bool:
    """Whether ink and paper are swapped in comparison with the training images."""
    if invert != "auto":
        return invert == "yes"
    if not brightness or abs(brightness["border"] - brightness["mean"]) < _MIN_CONTRAST:
        return False  # the training images have no paper that differs from the ink
    border = border_mean(image / 255.0)
    paper = brightness["border"]
    return abs(1 - border - paper) + _MIN_GAIN < abs(border - paper)


def columns(
    predictions: Dict[str, np.ndarray], class_names: Sequence[str], with_features: bool
) -> Dict[str, np.ndarray]:
    """The columns of a prediction to show, by name.

    Args:
        predictions: arrays [N, ...] by name.
        class_names: names of the classes; they appear as the column "class" beside "label".
        with_features: whether to show "features".

    Raises:
        UsageError: there are no features to show.
    """
    by_name = {n: v for n, v in predictions.items() if with_features or n != "features"}
    if with_features and "features" not in predictions:
        raise UsageError(
            "The plugin predicts no 'features'.",
            hint=f"It predicts {', '.join(sorted(predictions))}.",
        )
    label = by_name.get("label")
    if label is not None and class_names and label.ndim == 1:
        names = [class_names[int(i)] for i in label]
        if names != [str(i) for i in label]:
            by_name["class"] = np.array(names)
    return by_name
