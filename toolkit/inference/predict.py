"""Read files to predict on, and select the columns of a prediction to show.

Examples are converted as the training data was. An image of another size is scaled as `--data
images:` scaled the training images, with one note for all. Pixels are inverted on request alone.
Images that look inverted in comparison with the training images give one warning. An image that
cannot be read is left out where others can.

Legend: N examples, H height, W width, C channels.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..data.arrays.idx import read_idx, starts_as_idx
from ..data.arrays.npz import read_arrays
from ..data.column import TEXT, Component
from ..data.examples import LENGTH, Split
from ..data.images.folder import list_image_files
from ..data.images.image_file import ImageForm, ImageReader
from ..data.named_arrays import ArraySpecs, check_arrays, describe_specs
from ..data.prepare import Convert, ExampleHooks, prepare
from ..data.spec import DataSpec
from ..errors import DataError, UsageError
from ..run_data import border_means, is_images
from .evaluator import ModelInputs

ARRAY_KEYS = ("features", "images", "x", "x_test", "x_train")
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_IDX_NAME = re.compile(r"([-.]ubyte|\.idx\d?)(\.gz)?$")
_MIN_CONTRAST = 0.05  # between paper and mean, below which training images have no clear paper
_MIN_GAIN = 0.2  # by which inverting has to bring an image's paper closer to the training images'


_DEFAULT_FORM = ImageForm()


class Examples(NamedTuple):
    """The examples in some files."""

    inputs: ModelInputs  # [N, ...], or a dict of such arrays
    names: List[str]  # [N], for example "FILE" or "FILE[3]"
    num_damaged: int = 0  # images that cannot be read, which are left out


class ExampleReader(NamedTuple):
    """How files are converted to examples.

    Attributes:
        spec: the `DataSpec` of the training data as stored, before the hook `convert`.
        form: how image files were read for the training; its size and channels are not used.
        scaled: gets the path and the size of each image that is scaled.
    """

    spec: DataSpec
    form: ImageForm
    scaled: List[Tuple[str, str]]

    def read(self, path: str, kind: str) -> np.ndarray:
        """Read a file of a kind as examples [N, ...] of the training data's shape and dtype."""
        if kind == "npz":
            return _fit_shape(path, _choose_array(path), self.spec)
        if kind == "idx":
            return _fit_shape(path, read_idx(path), self.spec)
        return self._read_image(path)[np.newaxis]

    def _read_image(self, path: str) -> np.ndarray:
        """Read an image file as uint8 [H, W, C] of the training images' size."""
        if not is_images(self.spec):
            raise DataError(
                f"{path}: the model was trained on examples {list(self.spec.shape)} "
                f"{self.spec.dtype}, not on images.",
                hint="Give an .npz file.",
            )
        height, width, channels = self.spec.shape
        form = self.form._replace(size=None, channels=channels)
        image = ImageReader(form).read(path)
        if image.shape[:2] == (height, width):
            return image
        self.scaled.append((path, f"{image.shape[1]}x{image.shape[0]}"))
        return ImageReader(form._replace(size=(width, height))).read(path)


def read_examples(
    paths: List[str],
    spec: DataSpec,
    is_inverted: bool = False,
    convert: Optional[Convert] = None,
    log: Callable[[str], None] = lambda text: None,
    brightness: Optional[Mapping[str, float]] = None,
    form: ImageForm = _DEFAULT_FORM,
) -> Examples:
    """Read image files, .npz files and IDX files.

    Args:
        paths: of the files.
        spec: as in `ExampleReader`; so is `form`.
        is_inverted: whether the files have ink and paper swapped; their pixels are then inverted.
        convert: the hook of that name as a function of one example, or None.
        log: called with a line for each image that cannot be read, with at most one note on those
            that are scaled, and with at most one warning on inverted images.
        brightness: the "border" and "mean" of the training images in [0, 1], to warn of images that
            look inverted; see `toolkit.run_data.Brightness`.

    Raises:
        DataError: a file is missing, has another shape or type, or is no image and cannot be read;
            or no image can be read.
        UsageError: examples that are no images cannot be inverted.
    """
    if is_inverted:
        _check_can_invert(spec)
    reader = ExampleReader(spec, form, scaled=[])
    kinds = [_file_kind(path) for path in paths]
    arrays: List[np.ndarray] = []
    names: List[str] = []
    damaged: List[DataError] = []
    for path, kind in zip(paths, kinds):
        try:
            array = reader.read(path, kind)
        except DataError as error:
            if kind != "image":
                raise
            damaged.append(error)
            continue
        arrays.append(array)
        names += example_names(path, len(array))
    if not arrays:
        raise damaged[0]
    for fault in damaged:
        log(f"left out: {fault.message}")
    if reader.scaled:
        log(f"note: {_scaling_note(reader.scaled, spec)}")
    features = np.concatenate(arrays)
    if is_inverted:
        features = invert(features)
    if is_images(spec) and look_inverted(features, brightness):
        log(f"warning: {_inversion_warning(paths, is_inverted)}")
    if convert is not None:
        features = prepare(Split(features), ExampleHooks(convert=convert)).features
    return Examples(features, names, len(damaged))


def _scaling_note(scaled: Sequence[Tuple[str, str]], spec: DataSpec) -> str:
    path, size = scaled[0]
    height, width, _ = spec.shape
    if len(scaled) == 1:
        return f"{path} is {size}, scaled to {width}x{height}"
    return f"{len(scaled)} images are scaled to {width}x{height}, the first, {path}, from {size}"


def _check_can_invert(spec: DataSpec) -> None:
    if not is_images(spec):
        raise UsageError(
            f"The examples are {list(spec.shape)} {spec.dtype}; only images of bytes can be "
            "inverted.",
            hint="Omit --invert.",
        )


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
        names += example_names(path, min(map(len, arrays.values())))
    return Examples({n: np.concatenate([arrays[n] for arrays in files]) for n in specs}, names)


def read_named_examples(
    paths: List[str], spec: DataSpec, convert: Optional[Convert] = None
) -> Examples:
    """Read .npz files of examples whose features have names.

    Args:
        paths: of files with an array [N, ...] of each feature. A sequence NAME is padded, and an
            array NAME_length has the lengths.
        spec: the `DataSpec` of the training data as stored, before the hook `convert`.
        convert: the hook of that name as a function of one example, or None.

    Raises:
        DataError: a file is no .npz file, or its arrays do not fit.
    """
    components = spec.features
    specs = {name: (component.dtype, component.shape) for name, component in components.items()}
    files: List[Dict[str, Any]] = []
    names: List[str] = []
    for path in paths:
        _check_is_file(path)
        if not path.endswith(".npz"):
            raise DataError(
                f"{path}: the model was trained on {spec.describe_features()}.",
                hint="Give an .npz file with an array of each name.",
            )
        arrays = read_arrays(path)
        arrays = {n: _add_channel(arrays[n], specs[n][1]) for n in arrays if n in specs}
        arrays = check_arrays(arrays, specs, path)
        names += example_names(path, len(next(iter(arrays.values()))))
        files.append(_cut_sequences(arrays, components))
    features: Dict[str, Any] = {
        name: [row for arrays in files for row in arrays[name]]
        if components[name].is_sequence
        else np.concatenate([arrays[name] for arrays in files])
        for name in files[0]
    }
    if convert is not None:
        features = prepare(Split(features), ExampleHooks(convert=convert)).features
    return Examples(features, names)


def _add_channel(array: np.ndarray, shape: Sequence[Optional[int]]) -> np.ndarray:
    """Images [N, H, W] as [N, H, W, 1] if examples have this shape."""
    lacks_channel = shape[-1:] == (1,) and array.shape[1:] == tuple(shape[:-1])
    return array[..., np.newaxis] if lacks_channel else array


def _cut_sequences(
    arrays: Mapping[str, np.ndarray], components: Mapping[str, Component]
) -> Dict[str, Any]:
    """Arrays by name, with a list of rows without padding for each sequence, and no lengths."""
    cut: Dict[str, Any] = dict(arrays)
    for name, component in components.items():
        if component.is_sequence:
            cut[name] = [row[:length] for row, length in zip(arrays[name], cut.pop(name + LENGTH))]
    return cut


def example_names(path: str, count: int) -> List[str]:
    """The name of each example in a file: `FILE[3]`, or `FILE` of a single one."""
    return [path] if count == 1 else [f"{path}[{i}]" for i in range(count)]


def expand_paths(paths: Sequence[str]) -> List[str]:
    """The files that arguments name: the images in a folder and below it, and what a pattern fits.

    Args:
        paths: files, folders, and patterns as `photos/*.png`.

    Raises:
        DataError: nothing fits a pattern, or a folder has no image.
    """
    files: List[str] = []
    for path in paths:
        if os.path.isdir(path):
            matches = _list_folder(path)
        elif not os.path.lexists(path) and glob.has_magic(path):
            matches = sorted(glob.glob(path, recursive=True))
        else:
            matches = [path]
        if not matches:
            raise DataError(f"{path}: no file fits this pattern.")
        files += matches
    return files


def _list_folder(path: str) -> List[str]:
    try:
        return list_image_files(path)
    except DataError:
        raise DataError(f"{path} is a folder without images.", hint="Name other files.") from None


def _check_is_file(path: str) -> None:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder.", hint="Name the files in it.")
    if not os.path.isfile(path):
        problem = "is not a regular file" if os.path.exists(path) else "no such file"
        raise DataError(f"{path}: {problem}.")


def _file_kind(path: str) -> str:
    """The kind of a file by its ending or else by its content: "npz", "idx" or "image"."""
    _check_is_file(path)
    name = os.path.basename(path).lower()
    if name.endswith(IMAGE_ENDINGS):
        return "image"
    if name.endswith(".npz"):
        return "npz"
    return "idx" if _IDX_NAME.search(name) or starts_as_idx(path) else "image"


def _choose_array(path: str) -> np.ndarray:
    """The first of ARRAY_KEYS in an .npz file. Raises DataError if it has none of them."""
    arrays = read_arrays(path)
    for key in ARRAY_KEYS:
        if key in arrays:
            return arrays[key]
    raise DataError(
        f"{path}: expected an array {' or '.join(ARRAY_KEYS)}, found "
        f"{', '.join(sorted(arrays)) or 'none'}."
    )


def _fit_shape(path: str, array: np.ndarray, spec: DataSpec) -> np.ndarray:
    """Check an array's shape and dtype, and add a missing batch or channel axis.

    Returns:
        [N, ...] of the training data's shape and dtype.
    """
    shape = tuple(spec.shape)
    array = add_axes(array, shape)
    is_other_kind = (spec.dtype == "uint8") != (array.dtype == np.uint8)
    is_other_kind |= (spec.dtype == TEXT) != (array.dtype.kind in "OSU")
    if array.shape[1:] != shape or is_other_kind:
        raise DataError(
            f"{path}: expected examples {list(shape)} {spec.dtype}, found "
            f"{list(array.shape[1:])} {array.dtype}.",
            hint="" if spec.dtype == TEXT else "Give image files to have them scaled.",
        )
    return np.asarray(array, object if spec.dtype == TEXT else spec.dtype)


def add_axes(array: np.ndarray, shape: Sequence[Optional[int]]) -> np.ndarray:
    """Examples [N, ...] from an array that may lack the axis of the examples or of one channel.

    Args:
        array: of examples, or one of them.
        shape: of one example.
    """
    shape = tuple(shape)
    if array.shape == shape or (shape[-1:] == (1,) and array.shape == shape[:-1]):
        array = array[np.newaxis]  # [1, ...]
    return _add_channel(array, shape)


def invert(images: np.ndarray) -> np.ndarray:
    """The images uint8 [N, H, W, C] with light and dark swapped; the alpha of RGBA stays."""
    inverted = 255 - images
    if images.shape[-1] == 4:
        inverted[..., 3] = images[..., 3]
    return inverted


def look_inverted(images: np.ndarray, brightness: Optional[Mapping[str, float]]) -> bool:
    """Whether most images have ink and paper swapped in comparison with the training images.

    Args:
        images: uint8 [N, H, W, C].
        brightness: the "border" and "mean" of the training images; None if they have none.
    """
    if not brightness or abs(brightness["border"] - brightness["mean"]) < _MIN_CONTRAST:
        return False  # the training images have no paper that differs from the ink
    paper = brightness["border"]
    borders = border_means(images) / 255.0
    has_swapped = np.abs(1 - borders - paper) + _MIN_GAIN < np.abs(borders - paper)
    return bool(has_swapped.mean() > 0.5)


def _inversion_warning(paths: List[str], is_inverted: bool) -> str:
    subject = paths[0] if len(paths) == 1 else f"most images ({paths[0]}, ...)"
    now = " after --invert" if is_inverted else ""
    way_out = "omit --invert" if is_inverted else "add --invert to swap them"
    return (
        f"light and dark look swapped{now} in {subject} in comparison with the training images; "
        f"{way_out}"
    )


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


def best_classes(
    predictions: Mapping[str, np.ndarray], class_names: Sequence[str], count: int = 3
) -> Optional[List[List[Tuple[str, float]]]]:
    """The most probable classes of each example, with their probabilities, best first.

    Args:
        predictions: arrays by name: integer "label" [N] and "probabilities" [N, K].
        class_names: K names; the numbers of the classes by default.
        count: how many of each.

    Returns:
        A list for each example; None if the predictions have no probabilities of classes.
    """
    label, shares = predictions.get("label"), predictions.get("probabilities")
    if label is None or shares is None or label.ndim != 1 or shares.ndim != 2:
        return None
    names = class_names or [str(number) for number in range(shares.shape[1])]
    order = np.argsort(-shares, axis=1, kind="stable")[:, :count]
    return [
        [(names[k], float(row[k])) for k in best if k < len(names)]
        for row, best in zip(shares, order)
    ]
