"""What a trained model predicts on: examples in files, pictures, and arrays in memory; and which
columns of a prediction are shown.

For each kind of file one function reads a file as examples, flat by key. `read_examples` chooses
it, joins the files, and converts their examples as the training data was.

Legend: N examples, H height, W width, C channels.
"""

from __future__ import annotations

import csv
import functools
import glob
import itertools
import os
import re
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..data.arrays.idx import read_idx, starts_as_idx
from ..data.arrays.npz import read_arrays
from ..data.column import TEXT, as_array
from ..data.examples import LENGTH, Split, without_lengths
from ..data.files.cache import translate_read_errors
from ..data.held_out import NOTHING
from ..data.images.folder import list_image_files
from ..data.images.image_file import (
    MODES,
    ImageForm,
    is_picture,
    parse_colour,
    read_image,
    read_picture,
)
from ..data.named_arrays import ArraySpecs, as_dtype, check_arrays, describe_specs
from ..data.prepare import ExampleHooks, prepare
from ..data.reading_options import ColumnOptions, ImageOptions
from ..data.records.record_files import is_record_file
from ..data.same_data import check_fit
from ..data.sources import open_data
from ..data.spec import DataSpec
from ..data.structure import FEATURES, LABELS, pack_role
from ..data.tables.table_file import TABLE_ENDINGS
from ..display.waits import waiting
from ..errors import DataError, UsageError, suggest_path
from ..run_data import border_means, example_hook, images_like, is_images
from .evaluator import ModelInputs

if TYPE_CHECKING:
    from .trained_model import Trained

# Names of arrays in lower case: those that `npz:` reads, of a split that is for tests first.
ARRAY_KEYS = (
    *("features", "images", "x", "x_test", "test_images", "test_x"),
    *("x_train", "train_images", "train_x"),
)
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_IDX_NAME = re.compile(r"([-.]ubyte|\.idx\d?)(\.gz)?$")
_MIN_CONTRAST = 0.05  # between paper and mean, below which training images have no clear paper
_MIN_GAIN = 0.2  # by which inverting has to bring an image's paper closer to the training images'

# Flat key -> arrays [n, ...], or a list of sequences without padding, of the examples of one file.
Flat = Dict[str, Any]


class Examples(NamedTuple):
    """The examples in some files."""

    inputs: ModelInputs  # [N, ...], or a dict of such arrays
    names: List[str]  # [N], for example "FILE" or "FILE[3]"
    faults: Sequence[str] = ()  # of the images that cannot be read, which are left out


def as_examples(model: Trained, inputs: Any) -> Any:
    """What the model takes, from a path, a picture of Pillow, or a list of either; from a table of
    pandas with names, if the model was trained on a table; or from an array [N, ...], which may
    lack the axis of the examples or of one channel. Anything else is returned as it is. Raises
    DataError if a file cannot be read, or the model takes no pictures.
    """
    items = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    are_paths = all(isinstance(item, (str, os.PathLike)) for item in items)
    if not items or not (are_paths or all(map(is_picture, items))):
        names = getattr(inputs, "columns", ())  # of a table of pandas, if they are texts
        if model.stored.table is not None and any(isinstance(name, str) for name in names):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "DataFrame.csv")
                inputs.to_csv(path, index=False, quoting=csv.QUOTE_ALL)
                return read_examples(model, [path]).inputs
        has_names = isinstance(inputs, dict) or bool(model.data.feature_names)
        return inputs if has_names else add_axes(as_array(inputs), model.data.shape)
    stored = model.stored
    if not stored.feature_names and stored.dtype == TEXT:
        return inputs  # a text is an example, and no path
    if are_paths:
        paths = expand_paths([os.fspath(item) for item in items])
        examples = read_examples(model, paths)
        if examples.faults:
            count = f"{len(examples.faults)} of {len(paths)} pictures"
            fault = f"{count} cannot be read; {examples.faults[0]}"
            raise DataError(fault, hint="Repair such files, or leave them out.")
        return examples.inputs
    takes_pictures = is_images(stored) and stored.shape[2] in MODES
    if not takes_pictures or not model.predictor.graph.takes_examples:
        raise DataError("The model takes no pictures.", hint="Give it arrays.")
    form = _form(stored, images_like(stored, model.options))
    try:
        pixels = np.stack([read_picture(item, form) for item in items])
    except (OSError, ValueError) as error:
        raise DataError(f"A picture cannot be read: {error}.") from error
    return _convert(model, pixels)


def _convert(model: Trained, features: Any) -> Any:
    """Examples behind the hook `convert`."""
    convert = example_hook(model.plugins, "convert")
    if convert is None:
        return features
    return prepare(Split(features), ExampleHooks(convert=convert)).features


# ------------------------------------------------------------------------------------------- files


def read_examples(
    model: Trained,
    paths: Sequence[str],
    is_inverted: bool = False,
    log: Callable[[str], None] = lambda text: None,
) -> Examples:
    """Read the examples in image files, tables, TFRecord, .npz and IDX files as the training data
    was read, and without labels; or .npz files with the arrays that the hook `inputs` names.

    `is_inverted` swaps light and dark. `log` is called with lines on images that cannot be read or
    look inverted. Raises DataError where a file is missing, unreadable, or of another shape, type
    or kind than others; UsageError where what are no images is to be inverted.
    """
    graph, spec = model.predictor.graph, model.stored
    are_images = graph.takes_examples and is_images(spec)
    if is_inverted and not are_images:
        raise UsageError("The model is not fed images of bytes.", hint="Omit --invert.")
    if graph.takes_examples:
        images = images_like(spec, model.options)
        read = _choose_reader(paths, spec, images, model.options.missing)
    else:
        read = functools.partial(_read_inputs, specs=graph.input_specs)
    flats: List[Flat] = []
    names: List[str] = []
    damaged: List[DataError] = []
    with waiting(f"Reading {len(paths):,} files", len(paths)) as wait:
        for done, path in enumerate(paths):
            wait.show(done)
            try:
                with translate_read_errors(path):
                    flats.append(read(path))
                count = len(next(iter(flats[-1].values())))
                names += [path] if count == 1 else [f"{path}[{i}]" for i in range(count)]
            except _DamagedImage as error:
                damaged.append(error)
    if not flats:
        raise damaged[0]
    for fault in damaged:
        log(f"left out: {fault.message}")
    joined: Flat = {}
    for key in flats[0]:
        parts = [flat[key] for flat in flats]
        is_list = isinstance(parts[0], list)  # of sequences
        joined[key] = list(itertools.chain(*parts)) if is_list else np.concatenate(parts)
    features = pack_role(joined, FEATURES)
    if is_inverted:
        features = invert(features)
    if are_images and look_inverted(features, model.manifest["data"]["ink"]):
        subject = paths[0] if len(paths) == 1 else f"most images ({paths[0]}, ...)"
        log(
            f"warning: light and dark look swapped{' after --invert' if is_inverted else ''} in "
            f"{subject} in comparison with the training images; "
            f"{'omit --invert' if is_inverted else 'add --invert to swap them'}"
        )
    inputs = _convert(model, features) if graph.takes_examples else features
    return Examples(inputs, names, [fault.message for fault in damaged])


def expand_paths(paths: Sequence[str]) -> List[str]:
    """The files that arguments name: the images in a folder and below it, and what a pattern such
    as `photos/*.png` fits. Raises DataError if nothing does, or a folder has no image or may not be
    read.
    """
    files: List[str] = []
    for path in paths:
        is_pattern = not os.path.lexists(path) and glob.has_magic(path)
        matches = sorted(glob.glob(path, recursive=True)) if is_pattern else [path]
        if not matches:
            raise DataError(f"{path}: no file fits this pattern.")
        # `**` fits a folder, and what is in it.
        files += dict.fromkeys(file for match in matches for file in _list_files(match))
    return files


def _list_files(path: str) -> List[str]:
    """The images in a folder and below it, or the file itself."""
    if not os.path.isdir(path):
        return [path]
    with translate_read_errors(path):
        try:
            return list_image_files(path)
        except DataError:
            message = f"{path} is a folder without images."
            raise DataError(message, hint="Name other files.") from None


def _choose_reader(
    paths: Sequence[str], spec: DataSpec, images: ImageOptions, missing: str
) -> Callable[[str], Flat]:
    """The function that reads each of the files. Raises DataError for a mixture, or no table."""
    is_of_table = spec.table is not None and not is_images(spec)
    tables = [path for path in paths if _is_table(path, is_of_table)]
    records = [path for path in paths if not tables and is_record_file(path)]
    for noun, some in (("a table", tables), ("a TFRecord file", records)):
        if 0 < len(some) < len(paths):
            message = f"{some[0]} is {noun}, and other files are none."
            raise DataError(message, hint="Give one kind.")
    if records:
        return lambda path: _read_records(path, spec, images)
    if tables:
        if spec.table is None:
            raise DataError(
                f"{paths[0]}: the model was trained on {spec.describe_features()}, not on a table.",
                hint="Give an .npz file, or image files for a model of images.",
            )
        columns = ColumnOptions(
            split_column="none", missing="fill" if missing == "fill" else "refuse"
        )
        model = spec._replace(table=dict(spec.table, labels=(), label_kind=""))
        read = functools.partial(open_data, images=images, columns=columns, shares=NOTHING)
        return lambda path: _read_split(read(f"table:{path}", model=model).splits["train"])
    if spec.feature_names:
        return lambda path: _read_named(path, spec)
    kinds = {path: _file_kind(path) for path in paths}  # a missing file ends it before any work
    return lambda path: {FEATURES: _read_plain(path, kinds[path], spec, images)}


def _is_table(path: str, may_have_any_ending: bool) -> bool:
    name = path.lower()
    if name.endswith(TABLE_ENDINGS) or not may_have_any_ending:
        return name.endswith(TABLE_ENDINGS)
    return not name.endswith((".npz", *IMAGE_ENDINGS)) and not is_record_file(path)


def _read_records(path: str, spec: DataSpec, images: ImageOptions) -> Flat:
    """Records, whose features have the names, shapes and types of those of the model."""
    keys = spec.record_keys
    model = spec if keys is None else spec._replace(records=dict(keys, labels=()))
    dataset = open_data(f"tfrecord:{path}", images=images, shares=NOTHING, model=model)
    split = Split(pack_role(without_lengths(dataset.splits["train"].columns), FEATURES))
    labels = {key: each for key, each in spec.flat.items() if key.startswith(LABELS)}
    check_fit({**labels, **split.components}, spec, path)
    return _read_split(split)


def _read_split(split: Split) -> Flat:
    sequences = [k for k, component in split.components.items() if component.is_sequence]
    return _cut_sequences(split.read(slice(None)), sequences)


def _read_named(path: str, spec: DataSpec) -> Flat:
    """An .npz of features by name: a sequence NAME is padded, and NAME_length has the lengths."""
    specs = {name: (each.dtype, each.shape) for name, each in spec.features.items()}
    arrays = _read_npz(path, f"the model was trained on {spec.describe_features()}")
    arrays = {n: _add_channel(arrays[n], specs[n][1]) for n in arrays if n in specs}
    sequences = [name for name, each in spec.features.items() if each.is_sequence]
    cut = _cut_sequences(check_arrays(arrays, specs, path), sequences)
    return {f"{FEATURES}/{name}": rows for name, rows in cut.items()}


def _read_inputs(path: str, specs: ArraySpecs) -> Flat:
    """An .npz with an array of each name that the hook `inputs` names, one row per example."""
    arrays = _read_npz(path, f"the model is fed {describe_specs(specs)}, not examples")
    checked = check_arrays(arrays, specs, path)
    return {f"{FEATURES}/{name}": array for name, array in checked.items()}


def _cut_sequences(arrays: Dict[str, np.ndarray], sequences: Sequence[str]) -> Flat:
    """Arrays by name, with a list of rows without padding for each sequence, and no lengths."""
    cut: Flat = dict(arrays)
    for name in sequences:
        cut[name] = [row[:length] for row, length in zip(cut[name], cut.pop(name + LENGTH))]
    return cut


def _read_npz(path: str, needs: str) -> Dict[str, np.ndarray]:
    _check_is_file(path)
    if not path.lower().endswith(".npz"):
        raise DataError(f"{path}: {needs}.", hint="Give an .npz file with arrays of these names.")
    return read_arrays(path)


def _check_is_file(path: str) -> None:
    if not os.path.isfile(path):
        problem = "is not a regular file" if os.path.exists(path) else "no such file"
        raise DataError(f"{path}: {problem}.", hint=suggest_path(path) or "Name other files.")


# ------------------------------------------------------------ images and arrays of one feature


class _DamagedImage(DataError):
    """An image that cannot be read."""


def _file_kind(path: str) -> str:
    """The kind of a file by its ending or else by its content: "npz", "idx" or "image"."""
    _check_is_file(path)
    name = os.path.basename(path).lower()
    if name.endswith(IMAGE_ENDINGS):
        return "image"
    if name.endswith(".npz"):
        return "npz"
    return "idx" if _IDX_NAME.search(name) or starts_as_idx(path) else "image"


def _read_plain(path: str, kind: str, spec: DataSpec, images: ImageOptions) -> np.ndarray:
    """A file of a kind as examples [n, ...] of the training data's shape and dtype."""
    if kind == "idx":
        return _fit_shape(path, read_idx(path), spec)
    if kind == "npz":
        arrays = read_arrays(path)
        by_name = {name.lower(): array for name, array in arrays.items()}
        key = next((key for key in ARRAY_KEYS if key in by_name), None)
        if key is None:
            raise DataError(
                f"{path}: expected an array {' or '.join(ARRAY_KEYS)}, found "
                f"{', '.join(sorted(arrays)) or 'none'}."
            )
        return _fit_shape(path, by_name[key], spec)
    if not is_images(spec):
        raise DataError(
            f"{path}: the model was trained on examples {list(spec.shape)} {spec.dtype}, not on "
            "images.",
            hint="Give an .npz file.",
        )
    try:
        return read_image(path, _form(spec, images))[np.newaxis]
    except DataError as error:
        raise _DamagedImage(error.message, hint=error.hint) from error


def _form(spec: DataSpec, images: ImageOptions) -> ImageForm:
    """The form of an image file: the training images' size, and how others get it."""
    height, width, channels = spec.shape
    colour = parse_colour(images.background)
    return ImageForm((width, height), channels, images.fit, colour, images.extends_border)


def _fit_shape(path: str, array: np.ndarray, spec: DataSpec) -> np.ndarray:
    """Check an array's shape and dtype, and add a missing batch or channel axis."""
    shape, is_text = tuple(spec.shape), spec.dtype == TEXT
    array = add_axes(array, shape)
    is_other_kind = (spec.dtype == "uint8") != (array.dtype == np.uint8)
    if array.shape[1:] != shape or is_other_kind or is_text != (array.dtype.kind in "OSU"):
        raise DataError(
            f"{path}: expected examples {list(shape)} {spec.dtype}, found "
            f"{list(array.shape[1:])} {array.dtype}.",
            hint="" if is_text else "Give image files to have them scaled.",
        )
    return np.asarray(array, object) if is_text else as_dtype(array, spec.dtype, path)


def add_axes(array: np.ndarray, shape: Sequence[Optional[int]]) -> np.ndarray:
    """Examples [N, ...] from an array that may lack the axis of the examples or of one channel; the
    shape is that of one example.
    """
    shape = tuple(shape)
    if array.shape == shape or (shape[-1:] == (1,) and array.shape == shape[:-1]):
        array = array[np.newaxis]  # [1, ...]
    return _add_channel(array, shape)


def _add_channel(array: np.ndarray, shape: Sequence[Optional[int]]) -> np.ndarray:
    """Images [N, H, W] as [N, H, W, 1] if examples have this shape."""
    lacks_channel = shape[-1:] == (1,) and array.shape[1:] == tuple(shape[:-1])
    return array[..., np.newaxis] if lacks_channel else array


def invert(images: np.ndarray) -> np.ndarray:
    """The images uint8 [N, H, W, C] with light and dark swapped; the alpha of RGBA stays."""
    inverted = 255 - images
    if images.shape[-1] == 4:
        inverted[..., 3] = images[..., 3]
    return inverted


def look_inverted(images: np.ndarray, brightness: Optional[Dict[str, float]]) -> bool:
    """Whether most images, uint8 [N, H, W, C], have ink and paper swapped in comparison with the
    training images, of which `brightness` has "border" and "mean" if they are images.
    """
    if not brightness or abs(brightness["border"] - brightness["mean"]) < _MIN_CONTRAST:
        return False  # the training images have no paper that differs from the ink
    paper = brightness["border"]
    borders = border_means(images) / 255.0
    has_swapped = np.abs(1 - borders - paper) + _MIN_GAIN < np.abs(borders - paper)
    return bool(2 * has_swapped.sum() > len(images))  # there may be none


# ----------------------------------------------------------------------------------- what is shown


def columns(
    predictions: Dict[str, np.ndarray], class_names: Sequence[str], with_features: bool
) -> Dict[str, np.ndarray]:
    """The columns of a prediction, arrays [N, ...], to show by name. The names of the classes are
    the column "class" beside "label". Raises UsageError if there are no features to show.
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
    predictions: Dict[str, np.ndarray], class_names: Sequence[str]
) -> Optional[List[List[Tuple[str, float]]]]:
    """The three most probable classes of each example, with their probabilities, best first.

    The arrays are integer "label" [N] and "probabilities" [N, K], the names K, by default the
    numbers of the classes. None if the predictions have no probabilities of classes.
    """
    label, shares = predictions.get("label"), predictions.get("probabilities")
    if label is None or shares is None or label.ndim != 1 or shares.ndim != 2:
        return None
    names = class_names or [str(number) for number in range(shares.shape[1])]
    order = np.argsort(-shares, axis=1, kind="stable")[:, :3]
    return [
        [(names[k], float(row[k])) for k in best if k < len(names)]
        for row, best in zip(shares, order)
    ]
