"""Files in, predictions out: what is predicted on is converted as the training data was.

An image of another size is cut to its middle square and scaled, as `images:` does; one with dark
ink on light paper is inverted where the training images have light ink on dark, and the reverse.
Each is told.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from ..data.examples import DataSpec, Split
from ..data.idx import read_idx
from ..data.images import decode
from ..data.named import Wanted, checked, told
from ..data.npz import read_arrays
from ..data.prepare import Convert, prepare
from ..errors import DataError, UsageError
from ..inputs import border_mean

ARRAY_KEYS = ("features", "images", "x", "x_test", "x_train")


class Examples(NamedTuple):
    """inputs: what the model is fed, [N, ...] or a dict of these. names: of the N examples."""

    inputs: Any
    names: List[str]


def read_examples(
    paths: List[str],
    stored: DataSpec,
    ink: Optional[Dict[str, float]],
    invert: str = "auto",
    convert: Optional[Convert] = None,
    say: Callable[[str], None] = lambda text: None,
) -> Examples:
    """Read image files, .npz files and IDX files.

    stored: the spec of the training data before `convert`. ink: the brightness of its images, see
    `toolkit.inputs.ink`. invert: "auto", "yes" or "no", for image files. Raises DataError for a
    file that cannot be read or has another shape.
    """
    rows: List[np.ndarray] = []
    names: List[str] = []
    for path in paths:
        found = _read(path, stored, ink, invert, say)
        rows.append(found)
        names += _named(path, len(found))
    features = np.concatenate(rows)
    if convert is not None:
        features = prepare(Split(features), None, convert).take(slice(None))[0]
    return Examples(features, names)


def read_inputs(paths: List[str], wanted: Wanted) -> Examples:
    """Read .npz files that hold an array of each wanted name, with a row per example.

    For a model that is fed something else than examples of the data. Raises DataError.
    """
    parts: List[Dict[str, np.ndarray]] = []
    names: List[str] = []
    for path in paths:
        _check_is_file(path)
        if not path.endswith(".npz"):
            raise DataError(
                f"{path}: the model is fed {told(wanted)}, not examples.",
                hint="Give an .npz file with arrays of these names.",
            )
        arrays = read_arrays(path)
        parts.append(checked(arrays, wanted, path))
        names += _named(path, min(map(len, parts[-1].values())))
    return Examples({n: np.concatenate([part[n] for part in parts]) for n in wanted}, names)


def _named(path: str, count: int) -> List[str]:
    return [path] if count == 1 else [f"{path}[{i}]" for i in range(count)]


def _check_is_file(path: str) -> None:
    if not os.path.isfile(path):
        raise DataError(f"{path}: no such file.")


def _read(path: str, stored: DataSpec, ink, invert: str, say) -> np.ndarray:
    _check_is_file(path)
    if path.endswith(".npz"):
        arrays = read_arrays(path)
        key = next((k for k in ARRAY_KEYS if k in arrays), None)
        if key is None:
            raise DataError(
                f"{path}: expected an array {' or '.join(ARRAY_KEYS)}, found "
                f"{', '.join(sorted(arrays)) or 'none'}."
            )
        return _shaped(path, arrays[key], stored)
    if _is_idx(path):
        return _shaped(path, read_idx(path), stored)
    return _image(path, stored, ink, invert, say)


def _is_idx(path: str) -> bool:
    name = os.path.basename(path)
    return "idx" in name or name.replace(".gz", "").endswith("ubyte")


def _shaped(path: str, array: np.ndarray, stored: DataSpec) -> np.ndarray:
    """[N, ...] of the training data's shape and dtype; a lone example, or one without a channel
    axis, gets its axis.
    """
    shape = tuple(stored.shape)
    if array.shape == shape or (shape[-1:] == (1,) and array.shape == shape[:-1]):
        array = array[np.newaxis]
    if shape[-1:] == (1,) and array.shape[1:] == shape[:-1]:
        array = array[..., np.newaxis]
    if array.shape[1:] != shape or (stored.dtype == "uint8") != (array.dtype == np.uint8):
        raise DataError(
            f"{path}: expected examples {list(shape)} {stored.dtype}, found "
            f"{list(array.shape[1:])} {array.dtype}.",
            hint="Give image files to have them scaled.",
        )
    return np.asarray(array, stored.dtype)


def _image(path: str, stored: DataSpec, ink, invert: str, say) -> np.ndarray:
    if len(stored.shape) != 3 or stored.dtype != "uint8":
        raise DataError(
            f"{path}: the model was trained on examples {list(stored.shape)} "
            f"{stored.dtype}, not on images.",
            hint="Give an .npz file.",
        )
    height, width, channels = stored.shape
    found = decode(path, None, channels)
    if found.shape[:2] != (height, width):
        say(f"note: {path} is {found.shape[1]}x{found.shape[0]}, scaled to {width}x{height}")
        found = decode(path, (width, height), channels)
    image = found[np.newaxis]  # [1, H, W, C]
    if _is_inverted(image, ink, invert):
        if invert == "auto":
            say(f"note: {path} has its ink inverted, as in the training images")
        image = 255 - image
    return image


def _is_inverted(image: np.ndarray, ink, invert: str) -> bool:
    """Whether paper and ink are the other way round than in the training images."""
    if invert != "auto":
        return invert == "yes"
    if not ink or abs(ink["border"] - ink["mean"]) < 0.05:
        return False  # the training images have no paper to tell from ink
    border = border_mean(image / 255.0)
    return abs(1 - border - ink["border"]) + 0.2 < abs(border - ink["border"])


def columns(predictions: Dict[str, np.ndarray], class_names, with_features: bool) -> Dict[str, Any]:
    """What to show: `features` on request, and the class's name beside `label`."""
    shown = {n: v for n, v in predictions.items() if with_features or n != "features"}
    if with_features and "features" not in predictions:
        raise UsageError(
            "The plugin predicts no 'features'.",
            hint=f"It predicts {', '.join(sorted(predictions))}.",
        )
    label = shown.get("label")
    if label is not None and class_names and label.ndim == 1:
        names = [class_names[int(i)] for i in label]
        if names != [str(i) for i in label]:
            shown["class"] = np.array(names)
    return shown
