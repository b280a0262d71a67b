"""What a trained run predicts on: files of all kinds, pictures and arrays in memory."""

from __future__ import annotations

import io
import os
from typing import Any, Callable, Sequence

import numpy as np

from ..data.column import TEXT, as_array
from ..data.images.image_file import ImageForm, ImageReader, is_picture, parse_colour
from ..data.spec import DataSpec
from ..errors import DataError, UsageError
from ..run_data import example_hook, images_like, is_images
from .predict import (
    Examples,
    add_axes,
    expand_paths,
    read_examples,
    read_inputs,
    read_named_examples,
)
from .record_examples import are_records, read_record_examples
from .table_examples import are_tables, read_table_examples
from .trained_model import TrainedModel

PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")  # of Pillow; TIFF has the others


def read_files(
    model: TrainedModel,
    files: Sequence[str],
    is_inverted: bool = False,
    log: Callable[[str], None] = lambda text: None,
) -> Examples:
    """Read the examples in files, or the arrays for the inputs of the model.

    Args:
        model: of the run.
        files: their paths.
        is_inverted: whether images have light and dark swapped.
        log: called with notes and warnings.

    Raises:
        DataError: a file is missing or does not fit.
        UsageError: the model is not fed images, and they are inverted.
    """
    files = list(files)
    graph = model.predictor.graph
    options = model.options
    stored = _stored(model)
    if is_inverted and (stored.feature_names or not graph.takes_examples):
        raise UsageError("The model is not fed images.", hint="Omit --invert.")
    if not graph.takes_examples:
        return read_inputs(files, graph.input_specs)
    convert = example_hook(model.plugins, "convert")
    if are_tables(files, stored):
        images = images_like(stored, options)
        return read_table_examples(files, stored, images, options.missing, convert)
    if not is_inverted and are_records(files):
        images = images_like(stored, options)
        return read_record_examples(files, stored, images, convert)
    if stored.feature_names:
        return read_named_examples(files, stored, convert)
    ink = model.manifest["data"]["ink"]
    return read_examples(files, stored, is_inverted, convert, log, ink, _form(model))


def as_examples(model: TrainedModel, inputs: Any) -> Any:
    """What the model takes, from paths, pictures of Pillow, or arrays.

    Args:
        model: of the run.
        inputs: a path, a picture, or a list of either; or an array [N, ...], which may lack the
            axis of the examples or of one channel. Anything else is returned as it is.

    Raises:
        DataError: a file cannot be read, or the model takes no pictures.
    """
    items = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    are_paths = all(isinstance(item, (str, os.PathLike)) for item in items)
    if not items or not (are_paths or all(map(is_picture, items))):
        has_names = isinstance(inputs, dict) or bool(model.data.feature_names)
        return inputs if has_names else add_axes(as_array(inputs), model.data.shape)
    stored = _stored(model)
    if not stored.feature_names and stored.dtype == TEXT:
        return inputs  # a text is an example, and no path
    if are_paths:
        paths = expand_paths([os.fspath(item) for item in items])
        examples = read_files(model, paths)
        if examples.num_damaged:
            raise DataError(f"{examples.num_damaged} of {len(paths)} pictures cannot be read.")
        return examples.inputs
    if not is_images(stored) or not model.predictor.graph.takes_examples:
        raise DataError("The model takes no pictures.", hint="Give it arrays.")
    height, width, channels = stored.shape
    form = _form(model)._replace(size=(width, height), channels=channels)
    pixels = np.stack([_pixels(item, ImageReader(form)) for item in items])
    convert = example_hook(model.plugins, "convert")
    return pixels if convert is None else _convert(pixels, convert)


def _convert(pixels: np.ndarray, convert: Any) -> Any:
    from ..data.examples import Split
    from ..data.prepare import ExampleHooks, prepare

    return prepare(Split(pixels), ExampleHooks(convert=convert)).features


def _pixels(picture: Any, reader: ImageReader) -> np.ndarray:
    """The pixels of a picture of Pillow, uint8 [H, W, C], read as those of a file are."""
    stream = io.BytesIO()
    picture.save(stream, "PNG" if picture.mode in PNG_MODES else "TIFF")
    return reader.decode(stream.getvalue(), "picture")


def _stored(model: TrainedModel) -> DataSpec:
    return DataSpec.from_json(model.manifest["data"]["stored"])


def _form(model: TrainedModel) -> ImageForm:
    """How image files were read for the training."""
    options = model.options
    return ImageForm(
        fit=options.fit,
        background=parse_colour(options.background),
        extends_border=not options.data.startswith("images:"),
    )
